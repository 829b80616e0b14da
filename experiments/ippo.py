"""Independent PPO (de Witt et al. 2020): every agent's critic sees what the agent sees.

python experiments/ippo.py --env.layout cramped
"""

from experiments._process import Process, importing

process = Process.listen()  # before the imports, which a person waits for and may interrupt
with importing():
    from experiments._program import run_command_line


def main() -> None:
    process.finish(run_command_line("ippo", process))


if __name__ == "__main__":
    main()
