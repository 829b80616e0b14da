"""Plays every trained policy with every other one: a matrix of returns, and what it says.

python experiments/crossplay.py runs/ippo-cramped-0-20260101-120000
"""

from agents.commands import crossplay_command

if __name__ == "__main__":
    crossplay_command()
