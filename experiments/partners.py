"""Evaluates trained policies with partners that were not used in their training.

python experiments/partners.py runs/ippo-cramped-0-20260101-120000 --scripts-only
"""

from eqgrid_lab.commands import partners_command

if __name__ == "__main__":
    partners_command()
