"""Trains a MuJoCo body with PPO: one agent, so independent PPO is plain PPO.

python experiments/body.py --env.model biped
"""

from agents.runs import train_command

if __name__ == "__main__":
    train_command("ippo", world="body")
