"""Many devices: each has its share of the environments, and all have the parameters.

The devices may be those of several processes. Arrays are then given by all of them, whole.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from agents.ppo._batch import nearest_divisors

_T = TypeVar("_T")
_AXIS = "envs"


def device_mesh(num_devices: int | None = None) -> Mesh:
    """The first devices that jax sees, in a row; those of all processes, where there are several.

    **Arguments:**

    - `num_devices`: how many; all of them unless given.

    **Raises:** `ValueError` when there are fewer.
    """
    devices = jax.devices()
    number = len(devices) if num_devices is None else num_devices
    if not 1 <= number <= len(devices):
        raise ValueError(f"{number} devices are asked for, but jax sees {len(devices)}.")
    return Mesh(np.array(devices[:number]), (_AXIS,))


def check_even(num_envs: int, mesh: Mesh) -> None:
    """**Raises:** `ValueError` when not every device can have equally many environments."""
    if num_envs % mesh.size:
        raise ValueError(
            f"{num_envs} environments cannot be spread evenly over {mesh.size} devices; the "
            f"nearest numbers of devices that divide them are "
            f"{nearest_divisors(mesh.size, num_envs)}."
        )


def replicate(tree: _T, mesh: Mesh | None) -> _T:
    """Puts arrays on every device, whole. Under `jit`, it is a sharding constraint.

    **Arguments:**

    - `tree`: arrays, and anything else, which stays as it is.
    - `mesh`: the devices, as `device_mesh` gives them. Without them, nothing is moved.
    """
    if mesh is None:
        return tree
    whole = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda x: _place(x, whole), tree)


def spread(tree: _T, num_envs: int, mesh: Mesh | None) -> _T:
    """Gives every device its share of arrays whose first axis is that of the environments, and the
    others whole. What is computed does not depend on it, but for the order of sums.

    **Arguments:**

    - `tree`: as for `replicate`.
    - `num_envs`: how many environments there are.
    - `mesh`: as for `replicate`.
    """
    if mesh is None:
        return tree
    whole, shared = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (_AXIS,)))
    return jax.tree.map(lambda x: _place(x, shared if _leads_with(x, num_envs) else whole), tree)


def _place(x: PyTree, sharding: NamedSharding) -> PyTree:
    if not isinstance(x, Array):
        return x
    if isinstance(x, Tracer):
        return jax.lax.with_sharding_constraint(x, sharding)
    if sharding.is_fully_addressable:
        return jax.device_put(x, sharding)
    return _place_here(x, sharding)


def _place_here(x: Array, sharding: NamedSharding) -> Array:
    """Puts on the devices of this process what they have of an array. Other processes do the same
    with theirs.
    """
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        numbers = _place_here(jax.random.key_data(x), sharding)
        return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(x))
    numbers = np.asarray(x)
    return jax.make_array_from_callback(numbers.shape, sharding, lambda index: numbers[index])


def _leads_with(x: PyTree, length: int) -> bool:
    return isinstance(x, Array) and x.shape[:1] == (length,)
