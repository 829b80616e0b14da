"""Cross-play: evaluates all pairs of trained policies, and summarises the matrix of their returns.

python experiments/crossplay.py runs/ippo-cramped-0-20260101-120000
"""

from eqgrid_lab.commands import crossplay_command

if __name__ == "__main__":
    crossplay_command()
