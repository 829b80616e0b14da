"""Multi-agent PPO (Yu et al. 2022): a critic sees what all agents see, its own agent first, or the
state of the world.

python experiments/mappo.py --env.layout cramped
"""

from agents.runs import train_command

if __name__ == "__main__":
    train_command("mappo")
