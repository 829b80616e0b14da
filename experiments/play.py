"""Lets people play with policies, scripted partners or one another, in the browser.

python experiments/play.py --env.layout ring
"""

from eqgrid_lab.web import play_command

if __name__ == "__main__":
    play_command()
