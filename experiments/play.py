"""Lets people play in the browser with policies, scripted partners or other people.

python experiments/play.py --env.layout ring
"""

from eqgrid_lab.web import play_command

if __name__ == "__main__":
    play_command()
