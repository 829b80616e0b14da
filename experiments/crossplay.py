"""Plays every trained policy with every other one: a matrix of returns, and what it says.

python experiments/crossplay.py runs/ippo-cramped-0-20260101-120000
"""

from experiments._process import Process, importing

process = Process.listen("nothing was written")  # before the imports
with importing():
    from experiments._crossplay import run_command_line


def main() -> None:
    process.finish(run_command_line())


if __name__ == "__main__":
    main()
