"""Finds out first whether the package `agents` is ours, since others install one of that name."""

import importlib.util
from pathlib import Path

_OURS = '"""Agents that learn:'  # how `agents/__init__.py` begins


def _check() -> None:
    """**Raises:** `SystemExit` with one sentence when the package `agents` is not eqgrid's."""
    found = importlib.util.find_spec("agents")
    if found is None or found.origin is None:
        raise SystemExit("The package 'agents' of eqgrid is not installed: pip install eqgrid.")
    if not Path(found.origin).read_text(encoding="utf-8").startswith(_OURS):
        raise SystemExit(
            f"{found.origin} does not belong to eqgrid: openai-agents also installs a package "
            "'agents'. Install eqgrid in a separate environment, or eqgrid-core in this "
            "environment."
        )


_check()  # before anything imports `agents`
