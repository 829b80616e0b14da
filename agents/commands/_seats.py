"""Games of one partner with each of several others, in every seat."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eqgrid import AbstractEnv, OneOf, play


def play_with(
    env: AbstractEnv, everybody: OneOf, keys: PRNGKeyArray
) -> Float[np.ndarray, "partners seats episodes"]:
    """Plays the first of some partners with each of the others, as one program.

    **Arguments:**

    - `env`: one environment.
    - `everybody`: the one who is judged, and then the others.
    - `keys`: the randomness of each episode; the same with everybody.

    **Returns:** the return (the mean over the agents) of every episode, by the seat of the one who
    is judged. The partner has all other seats.
    """
    partners, seats = np.arange(1, everybody.num_partners), np.arange(env.num_agents)
    own = seats[:, None] == seats
    numbers = jnp.asarray(np.where(own[None], 0, partners[:, None, None]))
    return np.asarray(_play(env, everybody, numbers, keys))


@eqx.filter_jit
def _play(
    env: AbstractEnv,
    everybody: OneOf,
    numbers: Int[Array, "partners seats agents"],
    keys: PRNGKeyArray,
) -> Float[Array, "partners seats episodes"]:
    def game(numbers: Int[Array, " agents"], key: PRNGKeyArray) -> Float[Array, ""]:
        team = [everybody.pick(number) for number in numbers]
        return play(env, team, key).episode_return.mean()

    games = jax.vmap(game, in_axes=(None, 0))
    return jax.vmap(jax.vmap(games, in_axes=(0, None)), in_axes=(0, None))(numbers, keys)
