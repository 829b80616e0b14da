"""Several runs in one program, and several devices with limited memory.

In a state of several runs, every array has a leading axis of the runs, and each device trains an
equal number of them. A single run, with or without this axis, shards its environments over the
devices, and replicates its parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import psutil
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from eqgrid.typing import PyTree

from ..ppo import S, nearest_divisors

T = TypeVar("T")


def stack_runs(trees: Sequence[T]) -> T:
    """Stacks the arrays of single runs, such as their networks, along a leading axis of the runs.

    **Arguments:**

    - `trees`: PyTrees that are equal except for their arrays; other leaves are from the first one.
    """
    return jax.tree.map(lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0], *trees)


def map_runs(function: Callable[..., PyTree], num_runs: int) -> Callable[..., PyTree]:
    """Maps a function over the axis of runs of all arrays.

    A single run needs no `vmap`, with which tracing takes longer by half.

    **Arguments:**

    - `function`: a function of one run.
    - `num_runs`: the number of runs.
    """
    if num_runs > 1:
        return eqx.filter_vmap(function)

    def of_one(*arguments: PyTree) -> PyTree:
        own = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, arguments)
        result = function(*own)
        return jax.tree.map(lambda x: x[None] if eqx.is_array(x) else x, result)

    return of_one


def pick_run(state: S, run: int) -> S:
    """Extracts one run from the state of several runs.

    **Arguments:**

    - `state`: the state of several runs.
    - `run`: the index of the run, from 0.

    **Returns:** a copy of the state of that run, as if it had been trained alone.

    **Raises:** `ValueError` when there is no such run.
    """
    number = state.updates.size if state.updates.ndim else 0
    if not 0 <= run < number:
        raise ValueError(f"There is no run {run} in a state of {number} runs.")
    # The index is an array, so that one compiled program picks any run.
    index = jnp.asarray(np.int32(run))
    if isinstance(state.updates, Tracer) or len(state.updates.devices()) == 1:
        return _pick(state, index)
    # The device that has the run picks it: a program for all devices would give all runs to each of
    # them. The result is moved to the default device, where later programs are compiled once.
    device = run * len(state.updates.devices()) // number
    arrays, rest = eqx.partition(state, eqx.is_array)
    own = jax.tree.map(lambda x: x.addressable_shards[device].data, arrays)
    first = state.updates.addressable_shards[device].index[0].start or 0
    picked = _pick(eqx.combine(own, rest), index - np.int32(first))
    return jax.tree.map(lambda x: _to_default_device(x) if eqx.is_array(x) else x, picked)


@eqx.filter_jit
def _pick(state: S, run: Int[Array, ""]) -> S:
    return jax.tree.map(lambda x: x[run] if eqx.is_array(x) else x, state)


_AXIS = "devices"


def device_mesh(num_devices: int | None = None) -> Mesh:
    """A one-dimensional mesh of the first devices of `jax.devices()`.

    **Arguments:**

    - `num_devices`: the number of devices; all of them unless given.

    **Raises:** `ValueError` when the number is below 1, or there are fewer devices.
    """
    devices = jax.devices()
    number = len(devices) if num_devices is None else num_devices
    if not 1 <= number <= len(devices):
        raise ValueError(f"{number} devices are needed, but jax has {len(devices)}.")
    return Mesh(np.array(devices[:number]), (_AXIS,))


def check_even(number: int, mesh: Mesh, what: str = "environments") -> None:
    """Checks that environments or runs can be distributed evenly over the devices.

    **Raises:** `ValueError` that names the nearest possible numbers of devices.
    """
    if number % mesh.size:
        raise ValueError(
            f"{number} {what} cannot be spread evenly over {mesh.size} devices; the nearest "
            f"numbers of devices that divide them are {nearest_divisors(mesh.size, number)}."
        )


def shard(tree: T, axes: PyTree[int | None], mesh: Mesh | None) -> T:
    """Shards each array over the devices along one of its axes, or replicates it. Under `jit`, it
    is a sharding constraint. Results do not depend on it, except for the order of sums.

    **Arguments:**

    - `tree`: any PyTree; leaves that are not arrays are kept.
    - `axes`: the axis of each leaf; with `None`, an array is replicated.
    - `mesh`: the devices, from `device_mesh`. With `None`, nothing is moved.
    """
    if mesh is None:
        return tree
    # XLA carries these shardings through the whole update, and adds sums over the devices where a
    # mean, a moment or a gradient needs all environments.
    arrays, rest = eqx.partition(tree, eqx.is_array)
    specs = _specs(arrays, axes)
    placed = jax.tree.map(lambda x, spec: _place(x, NamedSharding(mesh, spec)), arrays, specs)
    return eqx.combine(placed, rest)


def replicate(tree: T, mesh: Mesh | None) -> T:
    """Replicates all arrays, as `shard` does."""
    return shard(tree, jax.tree.map(lambda _: None, tree), mesh)


def on_each_device(
    function: Callable[..., Any], arrays: PyTree, *others: Array, axes: PyTree, mesh: Mesh
) -> Any:
    """Calls a function on each device with the runs of this device. Devices never wait for each
    other: the compiled program has no communication.

    **Arguments:**

    - `function`: takes `arrays` and `others`, and returns a pair. The axis of the runs is the first
        axis of its first result, and the second axis of its second result.
    - `arrays`: a PyTree of arrays, with the runs of all devices.
    - `others`: further arrays, which are the same on every device.
    - `axes`: for each array, 0 if its first axis is the axis of the runs, and `None` otherwise.
    - `mesh`: the devices, from `device_mesh`.
    """
    # With `jit` and shardings instead, XLA could add communication between runs, and slow devices
    # would delay all others.
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=(_specs(arrays, axes), *(PartitionSpec() for _ in others)),
        out_specs=(PartitionSpec(_AXIS), PartitionSpec(None, _AXIS)),
        check_vma=False,  # loops begin with zeros, which are not marked as different on each device
    )(arrays, *others)


def _specs(arrays: PyTree, axes: PyTree[int | None]) -> PyTree[PartitionSpec]:
    def spec(axis: int | None) -> PartitionSpec:
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, _AXIS)

    structure = jax.tree.structure(arrays)
    return structure.unflatten([spec(axis) for axis in structure.flatten_up_to(axes)])


def _place(x: Array, sharding: NamedSharding) -> Array:
    if isinstance(x, Tracer):
        return jax.lax.with_sharding_constraint(x, sharding)
    return jax.device_put(x, sharding)


def _to_default_device(x: Array) -> Array:
    """Copies an array by way of a NumPy array, which cannot contain keys, but their data."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        key_data = _to_default_device(jax.random.key_data(x))
        return jax.random.wrap_key_data(key_data, impl=jax.random.key_impl(x))
    return jax.device_put(np.asarray(x))


@final
class OutOfMemory(Exception):
    """Raised before a program runs that needs more memory than is free.

    **Arguments:**

    - `needed`, `free`: the memory that the program needs, and the free memory, in bytes.
    """

    def __init__(self, needed: int, free: int):
        self.needed, self.free = needed, free
        super().__init__(
            f"The program needs {needed / 1e9:,.1f} GB of memory, but {free / 1e9:,.1f} GB are free"
        )


def check_memory(program: Any) -> None:
    """Checks that a compiled program fits into the free memory of the device.

    On a CPU, allocating too much memory does not fail. The system kills the process later, without
    an error message, so the check comes before the program runs.

    **Arguments:**

    - `program`: the program, as `eqx.filter_jit(...).lower(...).compile()` returns it.

    **Raises:** `OutOfMemory` when the program needs more memory than is free.
    """
    analysis = program.compiled.memory_analysis()
    if analysis is None:
        return  # some backends have no such analysis
    needed = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
    needed -= analysis.alias_size_in_bytes  # donated arrays are allocated already
    statistics = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in statistics:
        free = statistics["bytes_limit"] - statistics["bytes_in_use"]
    else:  # a CPU, whose devices all use the memory of the machine
        free = psutil.virtual_memory().available
        needed *= len(program.compiled.runtime_executable().local_devices())
    if needed > free:
        raise OutOfMemory(needed, free)
