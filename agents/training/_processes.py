"""Communication of several processes that train one run together.

All of them run the same program, and wait for each other in the calls of this module. Values that
depend on a clock, a signal or a file are sent by one process to all. With a single process, nothing
is sent.
"""

import json
from typing import Any, NoReturn, TypeVar, final

import equinox as eqx
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh
from jaxtyping import Array

from ..files import pack, unpack
from ._sharding import replicate

_T = TypeVar("_T")
_PIECE = 4096
"""Messages are padded to multiples of this many bytes, since each length must be compiled."""


@final
class ProcessFailed(Exception):
    """Raised in all processes when one of them called `fail`.

    **Arguments:**

    - `number`: the index of that process.
    - `about`: the value that it passed to `fail`.
    """

    def __init__(self, number: int, about: Any):
        self.number, self.about = number, about
        super().__init__(f"Process {number} of {jax.process_count()} failed: {about}")


def is_first() -> bool:
    """Whether this is process 0, which writes and reports for all."""
    return jax.process_index() == 0


def gather(value: Any) -> list[Any]:
    """Sends a value of each process to all of them.

    All processes must call it, and wait for each other in it.

    **Arguments:**

    - `value`: any value that JSON can represent.

    **Returns:** the values of all processes, in the order of their indices.

    **Raises:** `ProcessFailed` when one of them called `fail` instead.
    """
    return _exchange({"value": value})


def fail(about: Any) -> NoReturn:
    """Reports a failure of this process to all processes.

    **Arguments:**

    - `about`: a description of the failure: any value that JSON can represent.

    **Raises:** `ProcessFailed`, in this process, and in the next `gather` of all others.
    """
    _exchange({"failed": about})
    raise AssertionError("an exchange with a failure raises")


def from_first(tree: _T) -> _T:
    """Sends arrays from process 0 to all others, bit for bit.

    **Arguments:**

    - `tree`: arrays, including typed random keys, with equal shapes in all processes. The others
        may pass shapes alone, as `eqx.filter_eval_shape` returns them. Leaves that are not arrays
        are kept.

    **Returns:** `tree` with the arrays of process 0.

    **Raises:** `ProcessFailed` when one of the processes called `fail` instead.
    """
    if jax.process_count() == 1:
        return tree
    content = pack(tree) if jax.process_index() == 0 else b""
    sent = _filled(content, gather(len(content))[0])  # the others need the length of the first
    return unpack(multihost_utils.broadcast_one_to_all(sent).tobytes(), tree)


def whole(tree: _T, mesh: Mesh) -> _T:
    """Copies arrays that are sharded over devices of all processes to one device of each process.

    **Arguments:**

    - `tree`: arrays on the devices of `mesh`; leaves that are not arrays are kept.
    - `mesh`: the devices.

    **Returns:** `tree` with complete arrays.
    """
    # Replicated by a compiled program, whose communication is that of the devices; a process cannot
    # read the shards of another one.
    everywhere = _replicate(tree, mesh)
    return jax.tree.map(lambda x: x.addressable_data(0) if isinstance(x, Array) else x, everywhere)


def spans_processes(mesh: Mesh | None) -> bool:
    """Whether some of the devices of a mesh belong to other processes."""
    return mesh is not None and mesh.is_multi_process


_replicate = eqx.filter_jit(replicate)


def _exchange(message: dict[str, Any]) -> list[Any]:
    messages = [message] if jax.process_count() == 1 else _send(json.dumps(message, default=float))
    for number, each in enumerate(messages):
        if "failed" in each:
            raise ProcessFailed(number, each["failed"])
    return [each["value"] for each in messages]


def _send(text: str) -> list[dict[str, Any]]:
    """Sends a JSON text to all processes.

    **Returns:** the messages of all processes, in the order of their indices.
    """
    content = text.encode()
    # Two rounds, since arrays that are gathered must have one length: first the lengths, then texts
    # that are filled to the longest.
    lengths = multihost_utils.process_allgather(np.int32(len(content)))
    size = _PIECE * -(-int(lengths.max()) // _PIECE)
    rows = multihost_utils.process_allgather(_filled(content, size))
    return [json.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]


def _filled(content: bytes, size: int) -> np.ndarray:
    return np.frombuffer(content.ljust(size, b"\0"), np.uint8)
