"""Bundled files in addition to modules: scripts, settings, curricula and policies."""

import difflib
from pathlib import Path

from ._checkpoint import CheckpointError

_INSTALLED = Path(__file__).parents[1] / "shipped"
_CHECKED_OUT = Path(__file__).parents[2] / "experiments"


def shipped(name: str) -> Path:
    """The path of a file in the folder `experiments/`, which is `agents/shipped/` in a wheel.

    **Arguments:**

    - `name`: its path in that folder, such as `ippo.py` or `policies/ring.safetensors`.

    **Returns:** the path; the file need not exist.
    """
    return (_INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT) / name


def shipped_policies() -> dict[str, Path]:
    """The bundled policy files, by name, such as `"ring"` or `"plan-ring"`.

    For example, `load_policy(shipped_policies()["ring"])` is a policy for the kitchen `ring`.
    """
    return {x.stem: x for x in sorted(shipped("policies").glob("*.safetensors"))}


BUNDLED = "shipped:"
"""The beginning of the name of a bundled policy, such as `shipped:cramped`."""


def shipped_policy(name: str) -> Path:
    """The file of a bundled policy.

    **Arguments:**

    - `name`: its name, such as `cramped`.

    **Raises:** `CheckpointError` when there is no such policy.
    """
    known = shipped_policies()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(BUNDLED + x for x in near)}?" if near else "."
        raise CheckpointError(
            f"There is no bundled policy {name!r:.60}{hint} Known are {', '.join(known)}."
        )
    return known[name]
