"""Independent PPO (de Witt et al. 2020): every agent's critic sees what the agent sees.

python experiments/ippo.py --env.layout cramped
"""

from _process import Process

process = Process.listen()  # before the imports, which a person waits for and may interrupt

from _program import main  # noqa: E402

if __name__ == "__main__":
    process.finish(main("ippo", process))
