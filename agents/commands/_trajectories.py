"""All episodes of an evaluation, step by step, in one file."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from agents import OutOfMemory, save_trajectories, write_table
from agents.runs.display._errors import RunError, UsageError
from eqgrid import AbstractEnv, Trajectories, interop
from eqgrid.envs.overcooked import KINDS, REFERENCE_NAMES, trajectories_to_reference
from eqgrid.grid import GridWorld, Layout

_FLAG = "--trajectories"


def check_file(path: Path) -> None:
    """**Raises:** `UsageError` when no such file can be written, before anything is played."""
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


def check_world(path: Path, world: AbstractEnv) -> None:
    """**Raises:** `UsageError` for a table of what is no kitchen."""
    if path.suffix == ".parquet" and _kitchen(world) is None:
        raise UsageError(
            f"Only episodes in one kitchen are written as a table: name a .npz file for {_FLAG}."
        )


def write_episodes(
    path: Path,
    world: AbstractEnv,
    title: str,
    teams: Sequence[tuple[str, Sequence[str]]],
    play: Callable[[int], Trajectories],
) -> None:
    """Writes the episodes of all teams: of a kitchen as a table with the columns of Overcooked-AI's
    human games, of other worlds as arrays.

    **Arguments:**

    - `path`: the file.
    - `world`, `title`: where they played, and what that is called.
    - `teams`: the name of each team, and who has which seat in it.
    - `play`: gives the episodes of a team, by its number.

    **Raises:** `RunError` without the memory for it, and `OSError` when it cannot be written.
    """
    try:
        recorded = [play(number) for number in range(len(teams))]
    except OutOfMemory as error:
        raise RunError(f"{error}: lower --episodes, or leave out {_FLAG}.") from error
    layout = _kitchen(world)
    if layout is None:
        save_trajectories(path, jax.tree.map(lambda *x: jnp.concatenate(x), *recorded))
    else:
        write_table(path, _join(_tables(layout, title, teams, recorded)))


def _kitchen(world: AbstractEnv) -> Layout | None:
    """The layout of a kitchen, if this is one."""
    if isinstance(world, GridWorld) and world.layout.kinds == KINDS:
        return world.layout
    return None


def _tables(
    layout: Layout,
    title: str,
    teams: Sequence[tuple[str, Sequence[str]]],
    recorded: Sequence[Trajectories],
) -> Iterable[dict[str, list[Any]]]:
    names = {short: name for name, short in REFERENCE_NAMES.items()}
    for (name, seats), episodes in zip(teams, recorded, strict=True):
        count = len(episodes.length)
        yield trajectories_to_reference(
            episodes,
            layout,
            layout_name=names.get(title, title),
            trial_ids=[f"{name}, episode {number + 1}" for number in range(count)],
            players=[seats] * count,
        )


def _join(tables: Iterable[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    first, *others = tables
    for table in others:
        for name, column in table.items():
            first[name] += column
    return first
