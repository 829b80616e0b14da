"""Plays trained policies with partners that they were never trained with.

python experiments/partners.py runs/ippo-cramped-0-20260101-120000 --scripts-only
"""

from experiments._process import Process, importing

process = Process.listen("nothing was written")  # before the imports
with importing():
    from experiments._partners import run_command_line


def main() -> None:
    process.finish(run_command_line())


if __name__ == "__main__":
    main()
