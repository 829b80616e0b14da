"""Runs on disk, kept by orbax: a checkpoint appears complete or not at all."""

import functools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, final

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from ._interrupts import interrupts_held

_T = TypeVar("_T")
_KEEP_NEWEST = ocp.CheckpointManagerOptions(max_to_keep=1, enable_async_checkpointing=False)
_STATE, _ABOUT = "state", "about"
_ROOM = 500_000  # bytes that are kept free for what orbax writes besides the arrays


@final
class CheckpointError(Exception):
    """Raised when a checkpoint is missing, damaged or of another kind; the message says which."""


def save(path: str | Path, state: PyTree, metadata: Mapping[str, Any] | None = None) -> None:
    """Writes a checkpoint: every array of `state`, typed random keys included.

    A checkpoint that was at `path` before is removed when the new one is complete: a crash or a
    full disk leaves it as it was, and a Ctrl-C takes effect when the new one is written.

    **Arguments:**

    - `path`: the folder of the checkpoint.
    - `state`: any PyTree, such as a `RunState`. What is no array in it is not written.
    - `metadata`: anything that JSON can hold.

    **Raises:** `CheckpointError` when it cannot be written.
    """
    leaves = _named_leaves(state)
    about = {
        "metadata": dict(metadata or {}),
        "leaves": {name: _describe(leaf) for name, leaf in leaves.items()},
    }
    path = Path(path).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        _check_room(path, leaves)
        with interrupts_held(), ocp.CheckpointManager(path, options=_KEEP_NEWEST) as manager:
            number = (manager.latest_step() or 0) + 1
            contents = {_STATE: ocp.args.StandardSave(leaves), _ABOUT: ocp.args.JsonSave(about)}
            manager.save(number, args=ocp.args.Composite(**contents))
    except CheckpointError:
        raise
    except Exception as error:  # orbax raises many things, a plain Exception among them
        reason = str(error).partition("\n")[0][:100]
        raise CheckpointError(f"The checkpoint {path} cannot be written: {reason}.") from error


def restore(path: str | Path, like: _T) -> _T:
    """Reads a checkpoint.

    **Arguments:**

    - `path`: the folder of the checkpoint.
    - `like`: a state of the same kind: arrays, or their shapes as `eqx.filter_eval_shape` gives
        them, tell what to expect; what is no array is taken from it.

    **Returns:** `like` with the arrays of the checkpoint.

    **Raises:** `CheckpointError` when there is no checkpoint, or it is damaged, or does not fit.
    """
    expected = _named_leaves(like)
    _check_fit(Path(path), _read_about(Path(path))["leaves"], expected)
    shapes = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in expected.items()}
    restored = _read(Path(path), _STATE, ocp.args.StandardRestore(shapes))
    return jax.tree_util.tree_map_with_path(functools.partial(_pick, restored), like)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Reads what `save` was given as `metadata`.

    **Raises:** `CheckpointError` when there is no checkpoint, or it is damaged.
    """
    return _read_about(Path(path))["metadata"]


def _check_room(path: Path, leaves: dict[str, Any]) -> None:
    # Beforehand, since on a full disk orbax also prints what happens in its threads.
    needed = sum(leaf.nbytes for leaf in leaves.values()) + _ROOM
    free = shutil.disk_usage(path).free
    if free < needed:
        raise CheckpointError(
            f"There is no room for the checkpoint {path}: it needs {needed / 1e6:.1f} MB, but "
            f"{free / 1e6:.1f} MB are free. The checkpoint before it is kept."
        )


def _read_about(path: Path) -> dict[str, Any]:
    return _read(path, _ABOUT, ocp.args.JsonRestore())


def _read(path: Path, item: str, how: Any) -> Any:
    if not path.is_dir():
        raise CheckpointError(f"There is no checkpoint {path}.")
    try:
        with ocp.CheckpointManager(path.absolute(), options=_KEEP_NEWEST) as manager:
            return manager.restore(None, args=ocp.args.Composite(**{item: how}))[item]
    except Exception as error:  # orbax raises many things, a plain Exception among them
        raise CheckpointError(f"{path} is damaged, or no checkpoint.") from error


def _check_fit(path: Path, found: dict[str, str], expected: dict[str, Any]) -> None:
    for name in [*expected, *found]:
        there = found.get(name, "nothing")
        here = _describe(expected[name]) if name in expected else "nothing"
        if there != here:
            raise CheckpointError(
                f"The checkpoint {path} is of another kind of run: at {name} it holds {there}, but "
                f"{here} is needed. Use the settings that it was saved with."
            )


def _named_leaves(tree: PyTree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = (jax.Array, jax.ShapeDtypeStruct, np.ndarray, np.generic)
    return {jax.tree_util.keystr(where): leaf for where, leaf in leaves if isinstance(leaf, arrays)}


def _describe(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def _pick(restored: dict[str, Any], where: Any, leaf: Any) -> Any:
    return restored.get(jax.tree_util.keystr(where), leaf)
