"""Files of episodes, as `.npz` files."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqgrid import (
    Environment,
    Trajectories,
    read_regular_file,
    step_env,
    unwrap_state,
)
from eqgrid.typing import PyTree

from ._checkpoint import NEWER, is_key, is_newer, named_leaves, to_numpy
from ._files import write_atomic

_FORMAT, _FORMAT_ENTRY = "eqgrid arrays 1", "eqgrid format"
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    MemoryError,
)


def save_trajectories(path: str | Path, trajectories: Trajectories) -> None:
    """Writes episodes of any environment into a `.npz` file, without loss.

    The file has an array for each field of `Trajectories`, with the name of the field. A field of
    several arrays, such as the state, has an entry for each array, such as `state.bodies.position`.
    Keys of `jax.random` are written as their key data. `numpy.load` can read the file.

    ```python
    import jax

    from agents import load_trajectories, save_trajectories
    from eqgrid import RandomPartner, make, record_play

    env = make("goals", horizon=20)
    team = (RandomPartner(env.action_space),) * env.num_agents
    games = record_play(env, team, jax.random.split(jax.random.key(0), 4), max_steps=20)
    save_trajectories("games.npz", games)
    games = load_trajectories("games.npz", env)
    ```

    **Arguments:**

    - `path`: the file; an older file is replaced once everything is written.
    - `trajectories`: the episodes.

    **Raises:** `OSError` when the file cannot be written.
    """
    arrays = {name: to_numpy(leaf) for name, leaf in _named(trajectories).items()}
    write_atomic(Path(path), _to_npz(arrays))


def load_trajectories(path: str | Path, env: Environment) -> Trajectories:
    """Reads episodes that `save_trajectories` wrote.

    **Arguments:**

    - `path`: the file.
    - `env`: one environment; its states, actions and observations must have the shapes of the file.

    **Returns:** the episodes.

    **Raises:** `ValueError` when the file is damaged, or does not fit the environment; `OSError`
    when it cannot be read.
    """
    arrays = _from_npz(path)
    if not {"action", "length"} <= set(arrays):
        raise ValueError(
            f"The file {str(path)!r} has no trajectories: it lacks 'action' or 'length'."
        )
    steps, episodes = len(arrays["action"]), len(arrays["length"])
    observed = any(name.startswith("observation") for name in arrays)
    like = eqx.filter_eval_shape(_placeholder, env, steps, episodes, observed=observed)
    # The file has the key data of random keys.
    expected = _named(
        eqx.filter_eval_shape(
            jax.tree.map, lambda x: jax.random.key_data(x) if is_key(x) else x, like
        )
    )
    for name in [*expected, *arrays]:
        found, needed = arrays.get(name), expected.get(name)
        if found is None or needed is None:
            difference = "lacks" if found is None else "has an unknown array"
            raise ValueError(
                f"The file {str(path)!r} is of another world, or an older one: it {difference} "
                f"{name!r}."
            )
        if (found.shape, found.dtype) != (needed.shape, needed.dtype):
            raise ValueError(
                f"The file {str(path)!r} is of another world: its {name!r} is "
                f"{found.dtype}{found.shape}, but this world needs {needed.dtype}{needed.shape}."
            )
    leaves = []
    for name, leaf in _named(like).items():
        array = jnp.asarray(arrays[name])
        if is_key(leaf):
            array = jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))
        leaves.append(array)
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _to_npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    arrays = {**arrays, _FORMAT_ENTRY: np.asarray(_FORMAT.encode())}
    np.savez_compressed(buffer, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def _from_npz(path: str | Path) -> dict[str, np.ndarray]:
    content = read_regular_file(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except _DAMAGED as error:
        raise ValueError(f"The file {str(path)!r} is damaged, or not an .npz file.") from error
    found = arrays.pop(_FORMAT_ENTRY, np.asarray(b""))
    if found.dtype.kind == "S" and is_newer(found.tobytes().decode("ascii", "replace"), _FORMAT):
        raise ValueError(f"The file {str(path)!r} {NEWER}.")
    return arrays


def _named(tree: PyTree) -> dict[str, Any]:
    """The arrays of a tree by their names, in the order of its leaves."""
    return {name.lstrip("."): leaf for name, leaf in named_leaves(tree).items()}


def _placeholder(env: Environment, steps: int, episodes: int, *, observed: bool) -> Trajectories:
    """Episodes with the right shapes and dtypes; only `eqx.filter_eval_shape` calls it."""
    key = jax.random.key(0)
    observation, state = env.reset(key)
    action = jax.vmap(env.action_space.sample)(jax.random.split(key, env.num_agents))
    timestep, _ = step_env(env, key, state, action)
    return Trajectories(
        state=_repeat(unwrap_state(state), steps),
        action=_repeat(action, steps),
        reward=_repeat(timestep.reward, steps),
        terminated=_repeat(timestep.terminated, steps),
        truncated=_repeat(timestep.truncated, steps),
        length=jnp.zeros(episodes, jnp.int32),
        observation=_repeat(observation, steps) if observed else None,
        final_observation=_repeat(observation, episodes) if observed else None,
    )


def _repeat(tree: PyTree, count: int) -> PyTree:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), tree)
