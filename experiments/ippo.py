"""Independent PPO (de Witt et al. 2020): every agent's critic sees what the agent sees.

python experiments/ippo.py --env.layout cramped
"""

from experiments._process import Process

process = Process.listen()  # before the imports, which a person waits for and may interrupt

from experiments._program import run_command_line  # noqa: E402


def main() -> None:
    process.finish(run_command_line("ippo", process))


if __name__ == "__main__":
    main()
