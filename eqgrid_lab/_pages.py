"""The commands of an installed eqgrid that run its pages, or copy them to be edited."""

import runpy
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.files import shipped

from .base import UsageError, run_command

PAGES = ("ippo", "mappo", "e3t", "body", "bc", "single_file_ppo")
_USAGE = f"eqgrid new PAGE FILE.py copies a script that you can change, one of {', '.join(PAGES)}."


def eqgrid() -> None:
    """Copies a page to a new file: `eqgrid new ippo my_ippo.py`."""
    run_command(copy_page, "nothing was written")


def copy_page(args: Sequence[str]) -> None:
    """Copies a page to a new file.

    **Arguments:**

    - `args`: the command line: `new`, the name of a page, and the path of the new file.

    **Raises:** `UsageError` for other arguments, and `OSError` when the file cannot be written.
    """
    if tuple(args) in ((), ("-h",), ("--help",)):
        print(_USAGE)
        return
    if len(args) != 3 or args[0] != "new" or args[1] not in PAGES:
        raise UsageError(_USAGE)
    target = Path(args[2])
    if target.suffix != ".py" or target.exists():
        why = "exists" if target.exists() else "does not end in .py"
        raise UsageError(f"The file {args[2]!r} {why}: name a new file, such as my_{args[1]}.py.")
    shutil.copyfile(shipped(f"{args[1]}.py"), target)
    print(f"{target}: python {target} --help lists its flags.")


def ippo() -> None:
    """Runs the page of independent PPO."""
    _run("ippo")


def mappo() -> None:
    """Runs the page of multi-agent PPO."""
    _run("mappo")


def e3t() -> None:
    """Runs the page of E3T."""
    _run("e3t")


def body() -> None:
    """Runs the page that trains a MuJoCo body."""
    _run("body")


def bc() -> None:
    """Runs the page that clones people."""
    _run("bc")


def _run(page: str) -> None:
    sys.argv[0] = str(shipped(f"{page}.py"))
    runpy.run_path(sys.argv[0], run_name="__main__")
