"""Runs on disk: one file per checkpoint, replaced as a whole or not at all."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np

_T = TypeVar("_T")
_FORMAT = 1


@final
class CheckpointError(Exception):
    """Raised when a checkpoint is missing, damaged or of another kind; the message says which."""


def save(path: str | Path, state: Any, metadata: Mapping[str, Any] | None = None):
    """Writes a checkpoint: every array of `state`, typed random keys included.

    The file is a NumPy archive (`.npz`). It appears complete or not at all: a crash or a full disk
    leaves a former checkpoint at `path` as it was.

    **Arguments:**

    - `path`: the file.
    - `state`: any PyTree, such as a `RunState`. What is no array in it is not written.
    - `metadata`: anything that JSON can hold.

    **Raises:** `CheckpointError` when the file cannot be written.
    """
    path = Path(path)
    leaves = _named_leaves(state)
    arrays = {f"leaf_{i}": _to_numpy(leaf) for i, leaf in enumerate(leaves.values())}
    manifest = {
        "format": _FORMAT,
        "metadata": dict(metadata or {}),
        "leaves": {name: _describe(leaf) for name, leaf in leaves.items()},
        "keys": {
            name: str(jax.random.key_impl(leaf)) for name, leaf in leaves.items() if _is_key(leaf)
        },
    }
    arrays["manifest"] = np.asarray(json.dumps(manifest))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise CheckpointError(f"The checkpoint {path} cannot be written: {error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def restore(path: str | Path, like: _T) -> _T:
    """Reads a checkpoint.

    **Arguments:**

    - `path`: the file.
    - `like`: a state of the same kind: arrays, or their shapes as `eqx.filter_eval_shape` gives
        them, tell what to expect; what is no array is taken from it.

    **Returns:** `like` with the arrays of the checkpoint.

    **Raises:** `CheckpointError` when there is no such file, or it is damaged, or does not fit.
    """
    manifest, arrays = _read(Path(path))
    found = manifest["leaves"]
    expected = _named_leaves(like)
    _check_fit(Path(path), found, {name: _describe(leaf) for name, leaf in expected.items()})
    restored = {
        name: _to_jax(array, expected[name].dtype, manifest["keys"].get(name))
        for name, array in zip(found, arrays, strict=True)
    }
    return jax.tree_util.tree_map_with_path(
        lambda where, leaf: restored.get(jax.tree_util.keystr(where), leaf), like
    )


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Reads what `save` was given as `metadata`.

    **Raises:** `CheckpointError` when there is no such file, or it is damaged.
    """
    return _read(Path(path))[0]["metadata"]


def _read(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            manifest = json.loads(str(file["manifest"]))
            arrays = [file[f"leaf_{i}"] for i in range(len(manifest["leaves"]))]
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no checkpoint {path}.") from error
    # What a broken archive raises depends on where it is broken.
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is damaged, or no checkpoint.") from error
    if manifest["format"] != _FORMAT:
        raise CheckpointError(
            f"{path} has format {manifest['format']}, but this version reads format {_FORMAT}."
        )
    return manifest, arrays


def _check_fit(path: Path, found: dict[str, str], expected: dict[str, str]):
    for name in [*expected, *found]:
        there, here = found.get(name, "nothing"), expected.get(name, "nothing")
        if there != here:
            raise CheckpointError(
                f"The checkpoint {path} is of another kind of run: at {name} it holds {there}, but "
                f"{here} is needed. Use the settings that it was saved with."
            )


def _named_leaves(tree: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = (jax.Array, jax.ShapeDtypeStruct, np.ndarray, np.generic)
    return {jax.tree_util.keystr(where): leaf for where, leaf in leaves if isinstance(leaf, arrays)}


def _describe(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_numpy(leaf: Any) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    # NumPy's format knows no bfloat16 and the like: keep their bytes.
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _to_jax(array: np.ndarray, dtype: Any, key_impl: str | None) -> jax.Array:
    if key_impl is not None:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=key_impl)
    return jnp.asarray(array.view(dtype))
