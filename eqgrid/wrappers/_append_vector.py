"""A helper that appends a vector to observations."""

import jax.numpy as jnp
from jaxtyping import Array, Shaped


def append_vector(
    x: Shaped[Array, "*leading features"], vector: Shaped[Array, " more"]
) -> Shaped[Array, "*leading features+more"]:
    """Appends a vector to the last axis of an array, broadcast over all other axes."""
    planes = jnp.broadcast_to(vector, (*x.shape[:-1], *vector.shape))
    return jnp.concatenate([x, planes], axis=-1)
