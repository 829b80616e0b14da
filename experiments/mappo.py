"""Multi-agent PPO (Yu et al. 2022): a critic sees what all cooks see, its own cook first.

python experiments/mappo.py --env.layout cramped
"""

import time

started = time.perf_counter()  # before the imports, which are part of what a person waits for

from _program import main  # noqa: E402

from agents import JointView  # noqa: E402

if __name__ == "__main__":
    main("mappo", JointView(), started)
