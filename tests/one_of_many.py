"""One process of a run with several, which meets with an accident where it is asked to.

The environment says which: `ACCIDENT="1 2 SIGKILL"` ends process 1 after its second block.
"""

import itertools
import os
import signal

from eqgrid_lab.base import Process
from eqgrid_lab.settings import shipped_script

process = Process.listen()

import jax  # noqa: E402

from eqgrid_lab.base import _distributed  # noqa: E402
from eqgrid_lab.runs import _members, run_command_line  # noqa: E402

_distributed._HEARTBEAT = 40
who, block, name = os.environ.get("ACCIDENT", "- 0 SIGTERM").split()


def train_until_the_accident(*args, hooks, **kwargs):
    blocks = itertools.count(1)

    def accident(_) -> None:
        if next(blocks) == int(block) and who == str(jax.process_index()):
            os.kill(os.getpid(), getattr(signal, name))

    return train(*args, hooks=[*hooks, accident], **kwargs)


train, _members.train = _members.train, train_until_the_accident
process.finish(run_command_line(shipped_script("ippo"), process))
