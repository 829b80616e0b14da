"""Error messages: suggestions for an unknown name, how to install a missing library, and whether a
message is for users.
"""

import difflib
import importlib
import importlib.metadata
import linecache
import traceback
from collections.abc import Container, Iterable
from types import ModuleType


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: up to three similar names, or a full stop."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else "."


def missing_library(needs: str, extra: str) -> ImportError:
    """The error for a library that is not installed, with the command that installs it.

    **Arguments:**

    - `needs`: the beginning of the sentence, such as `"Pictures need pillow"`.
    - `extra`: the extra of eqgrid that installs the library.
    """
    # Two distributions contain this package: the command must name the one that is installed.
    is_full = any(importlib.metadata.distributions(name="eqgrid"))
    name = "eqgrid" if is_full else "eqgrid-core"
    return ImportError(f"{needs}, which is not installed: pip install '{name}[{extra}]'.")


def import_optional(module: str, needs: str, extra: str) -> ModuleType:
    """Imports a module that needs a library of an extra.

    **Arguments:**

    - `module`: the full name of the module.
    - `needs`, `extra`: as in `missing_library`.

    **Raises:** `ImportError`, as from `missing_library`.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing_library(needs, extra) from error


_PACKAGES = ("eqgrid", "agents", "eqgrid_lab", "eqgrid_exact", "eqgrid_play")


def is_for_users(error: BaseException, scripts: Container[str] = ()) -> bool:
    """Whether the message of an error is a sentence for users: a `raise` statement of eqgrid raised
    it. Errors of other libraries and of the user's code are faults of a program.

    **Arguments:**

    - `error`: an error that was caught.
    - `scripts`: modules whose `raise` statements count as statements of eqgrid.
    """
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    module = frame.f_globals.get("__name__", "")
    is_known = module in scripts or module.partition(".")[0] in _PACKAGES
    statement = linecache.getline(frame.f_code.co_filename, line).lstrip()
    return is_known and statement.startswith("raise")
