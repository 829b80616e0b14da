"""Writing all episodes of an evaluation, step by step, into one file."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from agents import OutOfMemory, save_trajectories, write_table
from eqgrid import AbstractEnv, Trajectories, interop
from eqgrid.envs.overcooked.reference import trajectories_to_reference
from eqgrid.grid import Layout

from ..base import RunError, UsageError
from ..worlds import WorldSettings, kitchen_layout, reference_name

_FLAG = "--trajectories"


def check_file(path: Path) -> None:
    """Checks that a new file can be written, before any episode is played.

    **Raises:** `UsageError` when it cannot.
    """
    if path.suffix not in (".parquet", ".npz"):
        raise UsageError(f"{_FLAG} needs a file that ends in .parquet or .npz, not {str(path)!r}.")
    if path.exists():
        raise UsageError(f"The file {str(path)!r} exists: choose another for {_FLAG}.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {str(path.parent)!r} for {_FLAG}: make it first.")
    if path.suffix == ".parquet":
        try:
            _ = interop.to_parquet
        except ImportError as error:
            raise UsageError(f"{error} Or name a .npz file.") from error


def kitchen_of_table(path: Path, world: AbstractEnv, settings: WorldSettings) -> Layout | None:
    """The kitchen of Overcooked whose episodes are written as a table.

    **Arguments:**

    - `path`: the file.
    - `world`: the world in which they are played.
    - `settings`: its settings.

    **Returns:** the kitchen, or `None` if the world is another one, or a kitchen that is padded to
    the size of others, which tables do not know.

    **Raises:** `UsageError` for a Parquet file without such a kitchen.
    """
    layout = kitchen_layout(world)
    if layout is not None:
        named = kitchen_layout(settings.build(train=False))
        if named is not None and layout.tiles.shape == named.tiles.shape:
            return layout
    if path.suffix == ".parquet":
        raise UsageError(
            "A .parquet table needs episodes in one kitchen without padding: name an .npz file "
            f"for {_FLAG}."
        )
    return None


def write_episodes(
    path: Path,
    kitchen: Layout | None,
    title: str,
    teams: Sequence[tuple[str, Sequence[str]]],
    episodes: Iterable[Trajectories],
) -> None:
    """Writes the episodes of all teams into one file.

    Episodes in a kitchen of Overcooked become a table with the columns of Overcooked-AI's human
    games; those in other worlds are written as arrays.

    **Arguments:**

    - `path`: the file.
    - `kitchen`, `title`: that of `kitchen_of_table`, and its name.
    - `teams`: the name of each team, and the name of the policy in each of its seats.
    - `episodes`: the episodes of each team, which may be played during the iteration.

    **Raises:** `RunError` when the episodes do not fit into memory, and `OSError` when the file
    cannot be written.
    """
    try:
        recorded = list(episodes)
    except OutOfMemory as error:
        raise RunError(f"{error}: lower --episodes, or leave out {_FLAG}.") from error
    joined = jax.tree.map(lambda *x: jnp.concatenate(x), *recorded)
    if kitchen is None:
        save_trajectories(path, joined)
        return
    labels = [
        (f"{name}, episode {number + 1}", seats)
        for (name, seats), own in zip(teams, recorded, strict=True)
        for number in range(len(own.length))
    ]
    trial_ids, players = zip(*labels, strict=True)
    table = trajectories_to_reference(
        joined, kitchen, layout_name=reference_name(title), trial_ids=trial_ids, players=players
    )
    write_table(path, table)
