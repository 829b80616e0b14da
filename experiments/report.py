"""Reports runs with many seeds: one table, one plot, and one video for each row of the table.

python experiments/report.py runs/results
"""

from eqgrid_lab.commands import report_command

if __name__ == "__main__":
    report_command()
