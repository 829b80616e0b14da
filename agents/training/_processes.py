"""Communication of several processes that train one run together.

All processes run the same program, and wait for each other in the calls of this module. If a value
depends on a clock, a signal or a file, one process sends it to all processes. With a single
process, nothing is sent.
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
_PADDING = 4096
"""Messages are padded to a multiple of this number of bytes, since every length is compiled."""


@final
class ProcessFailed(Exception):
    """Raised in all processes when one of them called `fail`.

    **Arguments:**

    - `number`: the index of this process.
    - `about`: the value that the process passed to `fail`.
    """

    def __init__(self, number: int, about: Any):
        self.number, self.about = number, about
        super().__init__(f"Process {number} of {jax.process_count()} failed: {about}")


def is_first() -> bool:
    """Whether this is process 0, which writes files and reports for all processes."""
    return jax.process_index() == 0


def gather(value: Any) -> list[Any]:
    """Sends a value of each process to all processes.

    All processes must call this function, and they wait for each other in it.

    **Arguments:**

    - `value`: any value that JSON can represent.

    **Returns:** the values of all processes, in the order of their indices.

    **Raises:** `ProcessFailed` when a process called `fail` instead.
    """
    return _exchange({"value": value})


def fail(about: Any) -> NoReturn:
    """Reports a failure of this process to all processes.

    **Arguments:**

    - `about`: a description of the failure: any value that JSON can represent.

    **Raises:** `ProcessFailed` in this process, and in the next `gather` of all other processes.
    """
    _exchange({"failed": about})
    raise AssertionError("an exchange with a failure raises")


def from_first(tree: _T) -> _T:
    """Sends arrays from process 0 to all other processes, bit for bit.

    **Arguments:**

    - `tree`: arrays, including typed random keys, with equal shapes in all processes. Other
        processes may pass shapes instead, as `eqx.filter_eval_shape` returns them. Leaves that are
        not arrays are kept.

    **Returns:** `tree` with the arrays of process 0.

    **Raises:** `ProcessFailed` when a process called `fail` instead.
    """
    if jax.process_count() == 1:
        return tree
    content = pack(tree) if jax.process_index() == 0 else b""
    length = gather(len(content))[0]  # all processes must broadcast the same number of bytes
    received = multihost_utils.broadcast_one_to_all(_padded(content, length))
    return unpack(received.tobytes(), tree)


def whole(tree: _T, mesh: Mesh) -> _T:
    """Copies arrays that are sharded over devices of all processes to one device of each process.

    **Arguments:**

    - `tree`: arrays on the devices of `mesh`; leaves that are not arrays are kept.
    - `mesh`: the devices.

    **Returns:** `tree` with complete arrays.
    """
    # A process cannot read the shards of another process, but the devices can exchange them in a
    # compiled program.
    replicated = _replicate(tree, mesh)
    return jax.tree.map(lambda x: x.addressable_data(0) if isinstance(x, Array) else x, replicated)


def spans_processes(mesh: Mesh | None) -> bool:
    """Whether some of the devices of a mesh belong to other processes."""
    return mesh is not None and mesh.is_multi_process


_replicate = eqx.filter_jit(replicate)


def _exchange(message: dict[str, Any]) -> list[Any]:
    """Sends a message to all processes, and returns the values in the messages of all processes."""
    messages = [message]
    if jax.process_count() > 1:
        content = json.dumps(message, default=float).encode()
        # Arrays that are gathered must have equal lengths: the first round gathers the lengths, and
        # the second round gathers contents that are padded to the longest one.
        lengths = multihost_utils.process_allgather(np.int32(len(content)))
        size = _PADDING * -(-int(lengths.max()) // _PADDING)
        rows = multihost_utils.process_allgather(_padded(content, size))
        messages = [json.loads(x[:n].tobytes()) for x, n in zip(rows, lengths, strict=True)]
    for number, received in enumerate(messages):
        if "failed" in received:
            raise ProcessFailed(number, received["failed"])
    return [received["value"] for received in messages]


def _padded(content: bytes, size: int) -> np.ndarray:
    return np.frombuffer(content.ljust(size, b"\0"), np.uint8)
