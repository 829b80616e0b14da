"""One process of a run with several, which meets with an accident where it is asked to.

The environment says which: `ACCIDENT="1 2 SIGKILL"` ends process 1 after its second block.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments._process import Process

process = Process.listen()

import jax  # noqa: E402

from experiments import _distributed, _training  # noqa: E402
from experiments._program import run_command_line  # noqa: E402

_distributed._HEARTBEAT = 20
who, block, name = os.environ.get("ACCIDENT", "- 0 SIGTERM").split()


class Accident(_training.StopWhenAsked):
    blocks = 0

    def __call__(self, progress) -> None:
        self.blocks += 1
        if self.blocks == int(block) and who == str(jax.process_index()):
            os.kill(os.getpid(), getattr(signal, name))
        super().__call__(progress)


_training.StopWhenAsked = Accident
process.finish(run_command_line("ippo", process))
