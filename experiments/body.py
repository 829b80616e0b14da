"""Trains a MuJoCo body with PPO: one agent, so independent PPO is plain PPO.

python experiments/body.py --env.model biped
"""

from experiments._process import Process, importing

process = Process.listen()  # before the imports, which a person waits for and may interrupt
with importing():
    from experiments._program import run_command_line


def main() -> None:
    process.finish(run_command_line("ippo", process, world="body"))


if __name__ == "__main__":
    main()
