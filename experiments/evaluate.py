"""Evaluates trained policies, alone or as a team, in every seat and in any compatible layout.

python experiments/evaluate.py runs/ippo-cramped-0-20260101-120000
"""

from eqgrid_lab.commands import evaluate_command

if __name__ == "__main__":
    evaluate_command()
