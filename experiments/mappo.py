"""Multi-agent PPO (Yu et al. 2022): a critic sees what all agents see, its own agent first, or the
state of the world.

python experiments/mappo.py --env.layout cramped
"""

from experiments._process import Process, importing

process = Process.listen()  # before the imports, which a person waits for and may interrupt
with importing():
    from experiments._program import run_command_line


def main() -> None:
    process.finish(run_command_line("mappo", process))


if __name__ == "__main__":
    main()
