"""Checkpoints of runs: safetensors files with a description and a checksum of their content."""

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save as serialize

from eqgrid import MAX_FILE_BYTES, read_regular_file
from eqgrid.typing import PyTree

from ._files import write_atomic

_T = TypeVar("_T")
_FORMAT = "eqgrid checkpoint 1"

NEWER = "was written by a newer version of eqgrid: install that version, or a later one"
"""The predicate of error messages about files with a newer format."""


class _Description(TypedDict):
    """The description of a checkpoint in its header.

    - `metadata`: the metadata that was passed to `save`.
    - `leaves`: the dtype and the shape of every array, by its name.
    - `keys`: the implementation of every array of random keys, by its name.
    """

    format: str
    metadata: dict[str, Any]
    leaves: dict[str, str]
    keys: dict[str, str]


@final
class CheckpointError(Exception):
    """Raised when a checkpoint is missing, damaged or of another kind; the message says which."""


def save(path: str | Path, state: PyTree, metadata: Mapping[str, Any] | None = None) -> None:
    """Writes a checkpoint: every array of `state`, typed random keys included.

    The content is written to a temporary file, read back and compared. Only then, the temporary
    file is renamed to `path`: a crash, a full disk or a Ctrl-C leaves an older file unchanged.

    ```python
    import jax.numpy as jnp

    from agents import restore, save

    save("last.safetensors", {"step": jnp.asarray(3)}, {"note": "any PyTree"})
    state = restore("last.safetensors", {"step": jnp.asarray(0)})
    ```

    **Arguments:**

    - `path`: the file of the checkpoint, such as `last.safetensors`; its folder is created if
        needed.
    - `state`: any PyTree, such as a `TrainState`. Leaves that are not arrays are not written.
    - `metadata`: further entries for the file, with values that JSON can represent.

    **Raises:** `CheckpointError` when the file cannot be written.
    """
    path = Path(path)
    try:
        content = _serialize(state, dict(metadata or {}))
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"it has more than {MAX_FILE_BYTES:,} bytes")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0][:100]
        message = f"The checkpoint {str(path)!r} cannot be written: {reason}."
        raise CheckpointError(message) from error


def restore(path: str | Path, like: _T) -> _T:
    """Reads a checkpoint, and verifies its checksum.

    **Arguments:**

    - `path`: the file of the checkpoint.
    - `like`: a state of the same structure, with arrays, or with their shapes as
        `eqx.filter_eval_shape` returns them. It provides the leaves that are not arrays.

    **Returns:** `like` with the arrays of the checkpoint.

    **Raises:** `CheckpointError` when the checkpoint is missing, damaged, or does not fit `like`.
    """
    about, data = read(Path(path))
    try:
        check_fit(about["leaves"], describe_leaves(like))
    except ValueError as error:
        raise CheckpointError(
            f"The checkpoint {str(path)!r} is of another kind of run: {error}. Use the settings "
            f"with which it was saved."
        ) from error
    try:
        return _fill(about, data, like)
    except ValueError as error:
        raise CheckpointError(f"The checkpoint {str(path)!r} cannot be used: {error}.") from error


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Reads the metadata of a checkpoint, and verifies its checksum.

    **Arguments:**

    - `path`: the file of the checkpoint.

    **Returns:** the metadata that was passed to `save`.

    **Raises:** `CheckpointError` when the checkpoint is missing or damaged.
    """
    return read(Path(path))[0]["metadata"]


def checksum(path: str | Path) -> str:
    """The checksum (SHA-256) of the content of a checkpoint: its metadata and arrays, sorted by
    name. It identifies a policy in journals, studies and held-out sets, and does not depend on the
    order of the entries in the file.

    **Arguments:**

    - `path`: the file of the checkpoint, or of the policy.

    **Returns:** the checksum, as 64 hexadecimal digits.

    **Raises:** `CheckpointError` when the file is missing or damaged.
    """
    return digest(*read(Path(path)))


def digest(about: _Description, data: dict[str, np.ndarray]) -> str:
    """The `checksum` of a description and its arrays."""
    return _digest(json.dumps(about, sort_keys=True), data)


def check_schema(value: Any, kind: Any) -> Any:
    """Converts a value from JSON to a type, such as a `msgspec.Struct` or a `TypedDict`.

    **Arguments:**

    - `value`: dicts, lists, texts and numbers.
    - `kind`: the type.

    **Returns:** the value as this type.

    **Raises:** `ValueError` with a clause that names the entry that does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"its metadata do not fit: {reason:.200}") from error


def is_newer(found: object, known: str) -> bool:
    """Whether the format of a file is a newer version of a format.

    **Arguments:**

    - `found`: the format in the description of the file.
    - `known`: the format of this version of eqgrid, such as `"eqgrid policy 2"`.
    """
    name, _, number = known.rpartition(" ")
    found_number = re.fullmatch(rf"{re.escape(name)} (\d{{1,9}})", str(found), re.ASCII)
    return found_number is not None and int(found_number[1]) > int(number)


def _fill(about: _Description, data: dict[str, np.ndarray], like: _T) -> _T:
    """Returns `like` with the arrays of a file."""
    return jax.tree_util.tree_map_with_path(functools.partial(pick, about["keys"], data), like)


def fill_part(
    about: _Description, data: dict[str, np.ndarray], prefix: str, like: _T, convert: bool
) -> _T:
    """Returns `like` with the arrays of a file whose names begin with `prefix`. With `convert`,
    they are converted to the number of bits of `like`.

    **Raises:** `ValueError` with a clause when the arrays do not fit `like`, or contain numbers
    that are not finite.
    """
    arrays, descriptions = _below(prefix, data), _below(prefix, about["leaves"])
    expected = describe_leaves(like)
    for name, needed in expected.items() if convert else ():
        if differ_in_bits(descriptions.get(name, ""), needed):
            arrays[name] = arrays[name].astype(needed.partition("[")[0])
            descriptions[name] = needed
    check_fit(descriptions, expected, prefix)
    pick_leaf = functools.partial(pick, _below(prefix, about["keys"]), arrays)
    filled = jax.tree_util.tree_map_with_path(pick_leaf, like)
    for path, leaf in jax.tree_util.tree_leaves_with_path(filled):
        if eqx.is_inexact_array(leaf) and not jnp.isfinite(leaf).all():
            name = jax.tree_util.keystr(path)
            raise ValueError(f"at {prefix}{name} it holds numbers that are not finite")
    return filled


def _below(prefix: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries whose names are attributes or items of `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): x
        for name, x in entries.items()
        if name.startswith(prefix) and name[len(prefix) :].startswith((".", "["))
    }


def _serialize(state: PyTree, metadata: dict[str, Any]) -> bytes:
    leaves = named_leaves(state)
    about: _Description = {
        "format": _FORMAT,
        "metadata": metadata,
        "leaves": describe_leaves(state),
        "keys": {n: str(jax.random.key_impl(x)) for n, x in leaves.items() if is_key(x)},
    }
    text = json.dumps(about, sort_keys=True)
    data = {name: to_numpy(leaf) for name, leaf in leaves.items()}
    content = serialize(data, {"about": text, "sha256": _digest(text, data)})
    # safetensors writes its metadata in a random order. Sorted metadata make equal states equal
    # files.
    header, arrays = _split(content)
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)  # the arrays must begin at a multiple of 8 bytes
    return b"".join([len(encoded).to_bytes(8, "little"), encoded, arrays])


def read(path: Path) -> tuple[_Description, dict[str, np.ndarray]]:
    """Reads the description and the arrays of a checkpoint, as they were written.

    **Raises:** `CheckpointError` when the checkpoint is missing or damaged.
    """
    try:
        content = read_regular_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"There is no checkpoint {str(path)!r}.{_others(path)}") from None
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {str(path)!r} cannot be read: {error.strerror}.{_others(path)}"
        ) from error
    try:
        about, data = _parse(content, repr(str(path)))
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"The checkpoint {str(path)!r} is damaged, or not a checkpoint of this version: its "
            f"checksum does not match its content.{_others(path)}"
        ) from error
    try:
        check_schema(about, _Description)
        if about["leaves"].keys() != data.keys() or not about["keys"].keys() <= data.keys():
            raise ValueError("its description does not match its arrays")
    except ValueError as error:
        raise CheckpointError(f"The checkpoint {str(path)!r} cannot be used: {error}.") from error
    return about, data


def _parse(content: bytes, name: str) -> tuple[_Description, dict[str, np.ndarray]]:
    metadata = _split(content)[0]["__metadata__"]
    about, data = json.loads(metadata["about"]), load(content)
    if _digest(metadata["about"], data) != metadata["sha256"]:
        raise ValueError("another checksum")
    if is_newer(about["format"], _FORMAT):
        raise CheckpointError(f"The checkpoint {name} {NEWER}.")
    if about["format"] != _FORMAT:
        raise ValueError("another format")
    return about, data


def _split(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """Splits a safetensors file into its header and its arrays. The file begins with the length of
    the header, in 8 bytes; the header is JSON.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), memoryview(content)[end:]


def _others(path: Path) -> str:
    """A sentence that names the other checkpoints in the same folder; empty if there are none."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(x.name for x in path.parent.iterdir() if x.suffix == ".safetensors")
    names = [name for name in names if name != path.name]
    return f" The same folder contains {' and '.join(names)}." if names else ""


def _digest(about: str, data: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(data):
        digest.update(f"{name} {_describe(data[name])}".encode())
        digest.update(np.ascontiguousarray(data[name]).data)
    return digest.hexdigest()


def check_fit(found: dict[str, str], expected: dict[str, str], prefix: str = "") -> None:
    """Compares the arrays of a file with the expected ones, by dtype and shape.

    **Arguments:**

    - `found`, `expected`: descriptions of the arrays by name, as `describe_leaves` returns them.
    - `prefix`: the start of the names in the error message.

    **Raises:** `ValueError` with a clause that names the first array that differs.
    """
    for name in [*expected, *found]:
        stored, needed = found.get(name, "nothing"), expected.get(name, "nothing")
        if stored != needed:
            which = "in" if jax.config.read("jax_enable_x64") else "without"
            mode = f" {which} JAX's 64-bit mode (jax_enable_x64)"
            raise ValueError(
                f"at {prefix}{name} it holds {stored}, but {needed} is needed"
                f"{mode if differ_in_bits(stored, needed) else ''}"
            )


def differ_in_bits(first: str, second: str) -> bool:
    """Whether two descriptions of arrays differ only in that numbers have 32 bits in one of them
    and 64 bits in the other one.
    """
    bits = re.compile(r"^(int|uint|float)(32|64)\[")
    return first != second and bits.sub(r"\1[", first) == bits.sub(r"\1[", second)


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """The arrays of a tree by their names in a file, which are their paths in the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = (jax.Array, jax.ShapeDtypeStruct, np.ndarray, np.generic)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, arrays)}


def describe_leaves(tree: PyTree) -> dict[str, str]:
    """The dtype and the shape of every array, by its name in a file."""
    return {name: _describe(leaf) for name, leaf in named_leaves(tree).items()}


def _describe(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def is_key(leaf: Any) -> bool:
    """Whether an array holds typed random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def to_numpy(leaf: Any) -> np.ndarray:
    """Converts a leaf to a NumPy array. Random keys become their key data. Numbers of a dtype that
    NumPy lacks, such as bfloat16, become unsigned integers with the same bits.
    """
    numbers = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
    if numbers.dtype.isbuiltin != 1:
        numbers = numbers.view(f"u{numbers.dtype.itemsize}")
    return np.ascontiguousarray(numbers).reshape(numbers.shape)


def pick(keys: dict[str, str], data: dict[str, np.ndarray], path: Any, leaf: Any) -> Any:
    """Picks the array of a file for one leaf of a tree.

    **Arguments:**

    - `keys`, `data`: the implementations of random keys, and the arrays, by name.
    - `path`: the path of the leaf in the tree.
    - `leaf`: the leaf, or its shape and dtype.

    **Returns:** the array at `path`, or `leaf` itself if the file has no such array.

    **Raises:** `ValueError` with a clause when the dtypes or the shapes differ.
    """
    name = jax.tree_util.keystr(path)
    if name not in data:
        return leaf
    if name in keys:
        array = jax.random.wrap_key_data(jnp.asarray(data[name]), impl=keys[name])
    else:
        array = data[name].view(leaf.dtype)
        if not isinstance(leaf, np.ndarray | np.generic):
            array = jnp.asarray(array)
    if _describe(array) != _describe(leaf):
        raise ValueError(f"at {name} it holds {_describe(array)}, not {_describe(leaf)}")
    return array
