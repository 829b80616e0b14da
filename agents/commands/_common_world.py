"""The world in which several saved policies play together."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from agents import CheckpointError
from agents.runs.display._errors import UsageError
from agents.runs.folders._folder import short_name
from agents.runs.settings._experiment import Experiment
from agents.runs.single._policies import SavedPolicy
from agents.runs.worlds._world_config import check_same_game
from eqgrid import AbstractEnv, AbstractVectorEnv, AutoReset, LogEpisodes, Vectorize


def common_world(
    policies: Sequence[SavedPolicy], layout: str | None = None
) -> tuple[Experiment, AbstractEnv]:
    """Builds the world that all policies were trained in, as they play in it.

    **Arguments:**

    - `policies`: at least one. They normalise for themselves, and act without the state of the
        world that critics are shown.
    - `layout`: the layout that the policies were read with, if it is another one than the one
        trained in.

    **Returns:** the settings of the first policy, and the world before anything is appended to its
    observations.

    **Raises:** `UsageError` when the worlds differ, when there is no such layout, or when a policy
    does not fit into it; `CheckpointError` when the first policy's own settings
    are of no world, or of one that it does not fit into.
    """
    _check_same_world(policies)
    first: Any = policies[0].config.env
    env: Any = dataclasses.replace(first, normalize_observation=False)
    settings = dataclasses.replace(policies[0].config, env=env)
    try:
        env.check()
        world = _in_layout(policies[0], settings.env.build(train=False), layout)
        shown = settings.observe(world)
    except (ValueError, UsageError) as error:
        if layout is None:
            where = f"The world of the policy {str(policies[0].path)!r} cannot be built"
            raise CheckpointError(f"{where}: {error}") from error
        raise UsageError(str(error)) from error
    for saved in policies:
        try:
            saved.policy.check(shown)
        except ValueError as error:
            own = layout is None and saved is policies[0]
            raise (CheckpointError if own else UsageError)(
                f"{saved.name!r} cannot act in {env.name}, {short_name(env.title)}: {error}"
            ) from error
    return settings, world


def judging_env(
    settings: Experiment, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
) -> AbstractVectorEnv:
    """Many of these worlds as policies play in them, which normalise for themselves.

    **Arguments:**

    - `settings`, `world`: as `common_world` gave them.
    - `num_envs`: how many.
    - `totals`: the entries of `info` that are summed over each episode.
    """
    return Vectorize(AutoReset(LogEpisodes(settings.observe(world), totals)), num_envs)


def _check_same_world(policies: Sequence[SavedPolicy]) -> None:
    first = policies[0].config.env
    for other in policies[1:]:
        check_same_game(repr(policies[0].name), first, repr(other.name), other.config.env)
        if other.config.env.title != first.title:
            raise UsageError(
                f"{policies[0].name!r} was trained in {short_name(first.title)}, but "
                f"{other.name!r} in {short_name(other.config.env.title)}: choose with --layout."
            )


def _in_layout(saved: SavedPolicy, world: AbstractEnv, layout: str | None) -> AbstractEnv:
    """Of a policy that was trained in many layouts, one of them is made as large as all of them,
    where that is known to work.
    """
    if layout is None or (trained := saved.trained_in()).layout_files:
        return world
    return (trained.parts() | trained.zero_shot()).get(layout, world)
