"""Files that come with eqgrid besides its modules: pages, settings, curricula and policies."""

import sys
from pathlib import Path

_INSTALLED = Path(__file__).parents[1] / "pages"
_CHECKED_OUT = Path(__file__).parents[2] / "experiments"


def shipped(name: str) -> Path:
    """The path of a file in the folder `experiments/`, which is `agents/pages/` in a wheel.

    **Arguments:**

    - `name`: its path in that folder, such as `ippo.py` or `policies/ring.safetensors`.

    **Returns:** the path; the file need not exist.
    """
    return (_INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT) / name


def program(page: str) -> str:
    """The command that runs a page: the installed command if it was called, such as
    `eqgrid-human-games`, or else `python experiments/human_games.py`.

    **Arguments:**

    - `page`: the path of the page.
    """
    installed = f"eqgrid-{Path(page).stem.replace('_', '-')}"
    called = {Path(word).stem for word in sys.orig_argv[:2]}
    return installed if installed in called else f"python {page}"


def shipped_policies() -> dict[str, Path]:
    """The policy files that come with eqgrid, by name, such as `"ring"` or `"plan-ring"`.

    For example, `load_policy(shipped_policies()["ring"])` is a policy for the kitchen `ring`.
    """
    return {x.stem: x for x in sorted(shipped("policies").glob("*.safetensors"))}
