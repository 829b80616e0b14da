"""Independent PPO (de Witt et al. 2020): every cook's critic sees what the cook sees.

python experiments/ippo.py --env.layout cramped
"""

import time

started = time.perf_counter()  # before the imports, which are part of what a person waits for

from _program import main  # noqa: E402

from agents import OwnView  # noqa: E402

if __name__ == "__main__":
    main("ippo", OwnView(), started)
