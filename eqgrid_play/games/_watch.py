"""Recorded games of people and agents, and the outputs of a policy at each of their steps."""

import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Array, Float, Int

from agents import GlobalState, PolicyPartner
from eqgrid import AbstractEnv, AbstractPartner, Discrete
from eqgrid.envs.overcooked.people import HumanGame
from eqgrid.grid import by_choice
from eqgrid.typing import PyTree
from eqgrid_lab.base import UsageError, as_usage_error
from eqgrid_lab.folders import locked
from eqgrid_lab.show import with_last
from eqgrid_lab.worlds import Kitchen, recorded_games, settings_from

from ._display import score_texts
from ._journal import (
    EPISODE_SUFFIX,
    SUFFIX,
    Recording,
    read_journal,
    replay,
    write_recording,
)
from ._menu import Menu, Place, place_in
from ._messages import Frame, Screen, TileSheet, whole_frame

PEOPLE = "people"
"""The word on the command line for the human games of an installed Overcooked-AI."""
_MOST_NAMED = 5
"""The maximum number of games without a step that a message names."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
    """A game to watch.

    **Arguments:**

    - `name`: the name of the game.
    - `place`: the world of the game.
    - `seats`: the name of the player in each seat.
    - `states`: the state before each step, and after the last step, in NumPy arrays with a
        leading time axis.
    - `action`: the action of each agent in each step.
    - `reward`: the reward of each agent in each step.
    - `started`: the time at which the game was opened, as in `Header`; empty if unknown.
    """

    name: str
    place: Place
    seats: tuple[str, ...]
    states: PyTree
    action: Int[np.ndarray, "steps agents ..."]
    reward: Float[np.ndarray, "steps agents"]
    started: str = ""

    @property
    def scores(self) -> list[float]:
        """The return of each agent."""
        return [round(x, 4) for x in self.reward.sum(axis=0).tolist()]


def _find_recorded(sources: Sequence[str]) -> list[Path | str]:
    """The files of some sources. A source is a file, a folder of journals, or the word `people`,
    which is returned as it is.

    **Raises:** `UsageError` when a folder has no journal.
    """
    found: list[Path | str] = []
    for source in sources:
        path = Path(source)
        if source == PEOPLE and not path.exists():
            found.append(PEOPLE)
        elif path.is_dir():
            journals = sorted(path.glob(f"*{SUFFIX}"))
            if not journals:
                raise UsageError(f"The folder {source!r} has no game: name another, or a file.")
            found += journals
        else:
            found.append(path)
    return found


def read_recorded(
    sources: Sequence[str], menu: Menu, own_world: str | None = None
) -> list[Recorded]:
    """Reads games to watch, and writes the episodes that a killed server could not write.

    **Arguments:**

    - `sources`: as for `_find_recorded`. Files are journals (`.jsonl`).
    - `menu`: the menu; its first layout selects the games of `people`.
    - `own_world`: the world that the command line names, if it is the user's own.

    **Returns:** the games with at least one step, the newest first. Games without a step are
    counted on standard error.

    **Raises:** `UsageError` when a file cannot be read or no game has a step, and `OSError`.
    """
    found: list[Recorded] = []
    empty: list[Path] = []
    for source in _find_recorded(sources):
        if isinstance(source, str):  # the word people
            found += map(_from_human_game, recorded_games(kitchen=menu.layouts[0]))
        elif len((recording := read_journal(source)).action):
            place = place_of(recording, own_world)
            found.append(recorded(source.stem, place, recording))
            if not source.with_suffix(EPISODE_SUFFIX).exists():
                # Not while a server plays here, or where nothing can be written.
                with contextlib.suppress(UsageError, OSError), locked(source.parent):
                    print(write_recording(place, recording, source.stem, source.parent))
        else:
            empty.append(source)
    if empty:
        names = ", ".join(path.name for path in empty[:_MOST_NAMED])
        more = ", ..." if len(empty) > _MOST_NAMED else ""
        skipped = f"games without a step, which are skipped: {len(empty)} ({names}{more})"
        if not found:
            raise UsageError(f"There is nothing to watch except {skipped}.")
        print(skipped, file=sys.stderr)
    return sorted(found, key=lambda game: game.started, reverse=True)


def place_of(recording: Recording, own_world: str | None = None) -> Place:
    """The world of a recorded game.

    **Raises:** `UsageError` when the world cannot be built.
    """
    world, where = recording.header.world, f"The journal {str(recording.path)!r}"
    try:
        env = settings_from(world.name, world.arguments, own_world)
        if env.layout_files:
            raise UsageError("names a layout file, and files that a journal names are not opened.")
    except UsageError as error:
        raise UsageError(f"{where} {error}") from error
    with as_usage_error(f"{where} cannot be used: ", UsageError):
        return place_in(env)


def recorded(name: str, place: Place, recording: Recording) -> Recorded:
    """A game to watch, replayed from its journal.

    **Raises:** `UsageError` as `replay`.
    """
    episode, last = replay(place, recording)
    seats = tuple(seat.name for seat in recording.header.seats)
    states = jax.tree.map(np.asarray, with_last(episode.state, last))
    started = recording.header.started
    return Recorded(name, place, seats, states, recording.action, recording.reward, started)


def _from_human_game(game: HumanGame) -> Recorded:
    kitchen = Kitchen(layout=game.kitchen)
    place = Place.of(kitchen, world=kitchen.build_in(game.layout, train=False))
    states = jax.tree.map(np.asarray, with_last(game.state, game.final_state))
    action, reward = np.asarray(game.action), np.asarray(game.reward)
    return Recorded(game.trial, place, game.players, states, action, reward)


def scenes(game: Recorded, tiles: TileSheet) -> dict[str, object]:
    """The data with which a page shows a game, as a dictionary for JSON.

    **Returns:** the facts of the game, the action of each agent in each step, and a frame for each
    step. The first frame is whole. Each later frame has the changes since the frame before.
    """
    place, screen = game.place, Screen()
    scores = np.cumsum([np.zeros_like(game.reward[0]), *game.reward], axis=0).tolist()
    frames: list[Frame] = []
    for step in range(len(jax.tree.leaves(game.states)[0])):
        state = jax.tree.map(lambda x, step=step: x[step], game.states)
        whole = whole_frame(place.drawn_layout, state, step, scores[step], tiles)
        # Every frame has its display, since the step differs.
        shown = {"Score": score_texts(whole.scores)[0], "Step": f"{step} of {len(game.action)}"}
        frames.append(screen.update(whole, tiles, shown))
    height, width = place.grid.shape
    return {
        "height": height,
        "width": width,
        "seats": game.seats,
        "actions": action_names(place),
        "action": game.action.tolist(),
        "frames": frames,
    }


def action_names(place: Place) -> list[list[str]]:
    """The names of all actions, for each choice."""
    names = [["stay"] * len(choice) for choice in by_choice(place.grid.actions)]
    for control in place.controls:
        names[control.choice][control.action] = control.name
    return names


@final
class PolicyOutputs(msgspec.Struct, frozen=True):
    """Action probabilities and values of a policy at each step of a game.

    - `probabilities`: the probability of every action, for each step and agent.
    - `values`: the value of the critic for each step and agent, in the units in which the critic
        was trained; `None` if the critic reads the global state, or was not trained, as the critic
        of a model of people.
    """

    probabilities: list[list[list[float]]]
    values: list[list[float]] | None


def think(game: Recorded, partner: AbstractPartner) -> PolicyOutputs:
    """Computes the action probabilities and values of a policy at each step of a game.

    **Arguments:**

    - `game`: the game.
    - `partner`: a partner with a policy, possibly wrapped in partners that change its actions.

    **Raises:** `UsageError` when the partner has no policy, or agents make several choices in a
    step.
    """
    acting: object = partner
    while acting is not None and not isinstance(acting, PolicyPartner):
        acting = getattr(acting, "partner", None)
    if acting is None or not isinstance(acting.policy.action_space, Discrete):
        raise UsageError("Only a policy with Discrete actions can show its action probabilities.")
    reads_more = isinstance(acting.policy.actor_critic.critic_input, GlobalState)
    probabilities, values = _think(game.place.env, acting, game.states, not reads_more)
    rounded = np.asarray(values, float).round(3)
    # A critic that was not trained returns the same value for all states.
    without_values = reads_more or not np.ptp(rounded)
    return PolicyOutputs(
        np.asarray(probabilities, float).round(4).tolist(),
        None if without_values else rounded.tolist(),
    )


@eqx.filter_jit
def _think(
    env: AbstractEnv, acting: PolicyPartner, states: PyTree, with_values: bool
) -> tuple[Float[Array, "steps agents actions"], Float[Array, "steps agents"]]:
    policy = acting.policy
    shown = env if acting.env is None else acting.env

    def step(carry: tuple[PyTree, PyTree], state: PyTree) -> tuple[tuple[PyTree, PyTree], PyTree]:
        observation = shown.observe(state)
        output, actor = policy.outputs(observation, carry[0])
        value, critic = jnp.zeros(policy.num_agents), carry[1]
        if with_values:
            value, critic = policy.values(observation, carry[1])
        return (actor, critic), (jax.nn.softmax(output), value)

    start = (policy.initial_carry(), policy.actor_critic.critic.initial_carry())
    return jax.lax.scan(step, start, states)[1]
