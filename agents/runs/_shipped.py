"""What comes with eqgrid beside its modules: pages, settings, curricula and policies."""

from pathlib import Path

_INSTALLED = Path(__file__).parents[1] / "pages"
_CHECKED_OUT = Path(__file__).parents[2] / "experiments"


def shipped(name: str) -> Path:
    """A file of the folder `experiments/`, which a wheel holds as `agents/pages/`.

    **Arguments:**

    - `name`: its path in that folder, such as `ippo.py` or `policies/ring.safetensors`.
    """
    return (_INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT) / name
