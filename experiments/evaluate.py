"""Evaluates trained policies: alone or together, in every seat, in any layout that fits.

python experiments/evaluate.py runs/ippo-cramped-0-20260101-120000
"""

from experiments._process import Process, importing

process = Process.listen("what was written before is kept")  # before the imports
with importing():
    from experiments._evaluation import run_command_line


def main() -> None:
    process.finish(run_command_line())


if __name__ == "__main__":
    main()
