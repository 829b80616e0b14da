"""Many devices: each has its share of the environments, and all have the parameters."""

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from ._divisors import nearest_divisors

_AXIS = "envs"


def device_mesh(num_devices: int | None = None) -> Mesh:
    """The first devices that jax sees, in a row.

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


def spread(tree: PyTree, num_envs: int, mesh: Mesh) -> PyTree:
    """Lays arrays out over the devices: by environment where their first axis is as long as there
    are environments, and otherwise whole on every device. Inside a compiled program it is a
    request to the compiler.

    What is computed does not depend on it, but for the order of sums.

    **Arguments:**

    - `tree`: arrays, and anything else, which stays as it is.
    - `num_envs`: how many environments there are.
    - `mesh`: the devices, as `device_mesh` gives them.
    """

    def place(x: PyTree) -> PyTree:
        if not isinstance(x, Array):
            return x
        by_env = x.ndim > 0 and x.shape[0] == num_envs
        sharding = NamedSharding(mesh, PartitionSpec(_AXIS) if by_env else PartitionSpec())
        if isinstance(x, Tracer):
            return jax.lax.with_sharding_constraint(x, sharding)
        return jax.device_put(x, sharding)

    return jax.tree.map(place, tree)
