"""`ippo.py`, which rests after each block, so that a test has time to disturb it.

The environment says how long: `SECONDS_OF_REST=1.5`. The rest ends early after a signal, or when
there is the file that `END_OF_REST` names.
"""

import os
import time

from eqgrid_lab.base import Process
from eqgrid_lab.settings import shipped_script

process = Process.listen()

from eqgrid_lab.runs import _members, run_command_line  # noqa: E402


def train_slowly(*args, hooks, **kwargs):
    def rest(_) -> None:
        end = time.monotonic() + float(os.environ.get("SECONDS_OF_REST", "0"))
        while time.monotonic() < end and process.stop_reason() is None:
            if os.path.exists(os.environ.get("END_OF_REST", "")):
                break
            time.sleep(0.05)

    return train(*args, hooks=[*hooks, rest], **kwargs)


train, _members.train = _members.train, train_slowly
process.finish(run_command_line(shipped_script("ippo"), process))
