"""Summarises recorded games of people, and compares policies with them.

python experiments/human_games.py --kitchen ring experiments/people/ring/clone-2.safetensors
"""

from eqgrid_lab.commands import human_games_command

if __name__ == "__main__":
    human_games_command()
