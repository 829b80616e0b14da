"""Recordings: replaying journals, and writing them as tables of episodes."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from agents import save_trajectories, write_table
from eqgrid import AbstractEnv, StayPartner, Trajectories, play_step, start_play, unwrap_state
from eqgrid.envs.overcooked.reference import trajectories_to_reference
from eqgrid.typing import PyTree

from ..base import UsageError
from ..worlds import kitchen_layout, reference_name
from ._journal import Recording
from ._menu import Place


def replay(place: Place, recording: Recording) -> tuple[Trajectories, PyTree]:
    """Plays a recorded game again, by its seed and its actions.

    **Arguments:**

    - `place`: the world of the game.
    - `recording`: the game.

    **Returns:** the game as one episode, which may have no end, and the state after its last step.

    **Raises:** `UsageError` when there is no step, or the rewards are not those that were recorded,
    as in another version of the world.
    """
    if not len(recording.action):
        raise UsageError(f"The game in {str(recording.path)!r} has no steps.")
    key = jax.random.key(recording.header.seed)
    joined, last = _replay(place.env, jnp.asarray(recording.action), key)
    if not np.array_equal(np.asarray(joined["reward"]), recording.reward):
        raise UsageError(
            f"The game in {str(recording.path)!r} does not replay: it was recorded with other "
            "rules or settings."
        )
    length = jnp.asarray([len(recording.action)], jnp.int32)
    return Trajectories(**joined, length=length), last


@eqx.filter_jit
def _replay(
    env: AbstractEnv, action: Int[Array, "steps agents ..."], key: PRNGKeyArray
) -> tuple[dict[str, PyTree], PyTree]:
    """The fields of `Trajectories` of a game in which everybody does what was recorded, and the
    state after it.
    """

    def team(own: Int[Array, "agents ..."]) -> tuple[StayPartner, ...]:
        return tuple(StayPartner(own[seat]) for seat in range(env.num_agents))

    def step(arrays: Any, own: Int[Array, "agents ..."]) -> tuple[Any, dict[str, PyTree]]:
        state, row = play_step(env, team(own), eqx.combine(arrays, rest))
        return eqx.filter(state, eqx.is_array), row

    arrays, rest = eqx.partition(start_play(env, team(action[0]), key), eqx.is_array)
    arrays, rows = jax.lax.scan(step, arrays, action)
    return rows, unwrap_state(eqx.combine(arrays, rest).env_state)


def write_recording(place: Place, recording: Recording, name: str, folder: Path) -> Path:
    """Writes a recorded game as a table of episodes: games in a kitchen with the columns of
    Overcooked-AI's human games (`.parquet`), and those in other worlds as arrays (`.npz`).

    **Arguments:**

    - `place`, `recording`: as for `replay`.
    - `name`: the name of the game and of the file, without suffix.
    - `folder`: the folder of the file.

    **Returns:** the file.

    **Raises:** as `replay`, and `OSError` when the file cannot be written.
    """
    episode, _ = replay(place, recording)
    kitchen = kitchen_layout(place.world)
    if kitchen is None:
        path = folder / f"{name}.npz"
        save_trajectories(path, episode)
        return path
    seats = recording.header.seats
    table = trajectories_to_reference(
        episode,
        kitchen,
        layout_name=reference_name(place.title),
        trial_ids=[name],
        players=[[seat.name for seat in seats]],
    )
    table["time_elapsed"] = recording.time.astype(float).tolist()
    for number, seat in enumerate(seats):
        table[f"player_{number}_is_human"] = [seat.human] * len(recording.action)
    path = folder / f"{name}.parquet"
    write_table(path, table)
    return path
