"""Multi-agent PPO (Yu et al. 2022): a critic sees what all agents see, its own agent first, or the
state of the world.

python experiments/mappo.py --env.layout cramped
"""

from _process import Process

process = Process.listen()  # before the imports, which a person waits for and may interrupt

from _program import main  # noqa: E402

if __name__ == "__main__":
    process.finish(main("mappo", process))
