"""Lets people play with policies, scripted partners or one another, in the browser.

python experiments/play.py --env.layout ring
"""

from agents.commands import play_command

if __name__ == "__main__":
    play_command()
