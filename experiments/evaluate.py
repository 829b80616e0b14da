"""Evaluates trained policies: alone or together, in every seat, in any layout that fits.

python experiments/evaluate.py runs/ippo-cramped-0-20260101-120000
"""

from agents.commands import evaluate_command

if __name__ == "__main__":
    evaluate_command()
