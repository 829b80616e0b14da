"""`ippo.py`, which rests after each block, so that a test has time to disturb it.

The environment says how long: `SECONDS_OF_REST=1.5`. The rest ends early after a signal, or when
there is the file that `END_OF_REST` names.
"""

import os
import sys
import time

from scripts import shipped_script

from eqgrid_lab import Run, parse

save = Run.save


def save_and_rest(run, state, result):
    save(run, state, result)
    end = time.monotonic() + float(os.environ.get("SECONDS_OF_REST", "0"))
    while time.monotonic() < end and run.signals.first is None:
        if os.path.exists(os.environ.get("END_OF_REST", "")):
            break
        time.sleep(0.05)


Run.save = save_and_rest
ippo = shipped_script("ippo")
sys.exit(vars(sys.modules[ippo.__module__])["main"](parse(ippo)))
