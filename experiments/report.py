"""One table and one picture of runs with many seeds, and a film of each row.

python experiments/report.py runs/results
"""

from agents.commands import report_command

if __name__ == "__main__":
    report_command()
