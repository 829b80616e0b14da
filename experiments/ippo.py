"""Independent PPO (de Witt et al. 2020): every agent's critic sees what the agent sees.

python experiments/ippo.py --env.layout cramped
"""

from agents.runs import train_command

if __name__ == "__main__":
    train_command("ippo")
