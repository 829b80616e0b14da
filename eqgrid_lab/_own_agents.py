"""Checks that the package `agents` is eqgrid's: other projects also install one of this name.

`eqgrid_lab` imports this module first, because the check runs on import.
"""

import importlib.util
from pathlib import Path

_BEGINNING = '"""Agents that learn:'
"""The beginning of eqgrid's `agents/__init__.py`."""

_spec = importlib.util.find_spec("agents")
if _spec is None or _spec.origin is None:
    raise SystemExit("The package 'agents' of eqgrid is not installed: pip install eqgrid.")
if not Path(_spec.origin).read_text(encoding="utf-8").startswith(_BEGINNING):
    raise SystemExit(
        f"{_spec.origin} does not belong to eqgrid: openai-agents also installs a package "
        "'agents'. Install eqgrid in a separate environment, or eqgrid-core in this environment."
    )
