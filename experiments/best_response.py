"""Finds the best possible return with partners that have no memory, and a film of how to earn it.

python experiments/best_response.py ring --partners people --counters 2,2
"""

import dataclasses
import shlex
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float, Int, PRNGKeyArray
from msgspec import Meta
from rich.console import Console
from rich.text import Text

from agents import StuckRule, write_whole
from agents.commands._best_responses import BestResponses
from agents.commands._heldout import HELD_OUT, PEOPLE, HeldOut, build_partners, read_held_out
from agents.commands._policies import PolicyFlags
from agents.evaluation._chances import Chances
from agents.evaluation._statistics import interval_of_mean
from agents.runs._cache import keep_compiled_programs
from agents.runs._command import run_command
from agents.runs.display._errors import RunError, UsageError, as_usage_error
from agents.runs.display._progress import progress
from agents.runs.display._table import print_paths, print_table
from agents.runs.folders._results import open_results, write_json
from agents.runs.settings._flags import read_flags
from agents.runs.settings._page import page
from agents.runs.settings._policy_settings import PolicySettings, default_settings
from agents.runs.worlds._kitchens import read_counters
from agents.runs.worlds._worlds import Kitchen
from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    NoisyPartner,
    PlayState,
    PyTree,
    StayPartner,
    play_step,
    start_play,
    unwrap_state,
)
from eqgrid.envs.overcooked import (
    REFERENCE_NAMES,
    BestResponse,
    HandsOff,
    JointModel,
    reachable_counters,
    tabulate,
)
from eqgrid.grid import GridWorld

_GIB = 2**30
_ASKED = 256  # states in which a partner is asked whether it observes the time
_MOST_PARTS = 4
_ROUNDING = 0.02  # of 400 sums of numbers with 24 bits


@dataclasses.dataclass(frozen=True)
class Config:
    """Finds the best possible return with partners in a kitchen, exactly, by value iteration."""

    layout: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="LAYOUT")]] = "cramped"
    """cramped, asymmetric, ring, forced, circuit, the name of another layout, or a file."""
    policies: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...")] = ()
    """Partners: folders of runs, or policy files."""
    partners: Annotated[Path | None, tyro.conf.arg(metavar="FILE|people")] = None
    """Partners: a file that describes held-out ones, or people: the proxies of the kitchen."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Names of the partners in that file to respond to; all of them unless given."""
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Probability that an action of each of --policies is replaced by a random one."""
    seats: tuple[int, ...] = (0, 1)
    """Seats of the response."""
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself (classic), or a cook starts it (interactive)."""
    horizon: Annotated[int, Meta(ge=1, le=10_000)] = 400
    """Length of the episode, in steps."""
    counters: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW,COL ...")] = ()
    """Counters that cooks may use, each as row,column from 0; or all."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 1000
    """Episodes in which the response is played, to check its return."""
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    """Seed of these episodes."""
    memory_gib: Annotated[float, Meta(gt=0)] = 8.0
    """Maximum memory for values and probabilities, in GiB."""
    disk_gib: Annotated[float, Meta(gt=0)] = 16.0
    """Maximum disk space for the actions of one response, in GiB."""
    no_film: bool = False
    """Do not draw films."""
    keep: bool = False
    """Keep the returns beside the file of --partners, where partners.py finds them."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


@dataclasses.dataclass(frozen=True)
class Found:
    """The best response to a partner in one seat.

    - `seat`: the seat of the response.
    - `value`: its exact return, with the partner if it has no stuck rule, and leaves the counters
        alone that cooks may not use.
    - `exact`: whether this is the partner as it is.
    - `played`: the returns of games with this partner.
    - `unchanged`: the returns of games with the partner as it is.
    - `seconds`: how long it took to find it.
    """

    seat: int
    value: float
    exact: bool
    played: Float[np.ndarray, " games"]
    unchanged: Float[np.ndarray, " games"]
    seconds: float

    def cells(self) -> list[str]:
        """The cells of a row of a table."""
        value = f"{self.value:.2f}"
        return [str(self.seat), value, _shown(self.played), _shown(self.unchanged)]

    def to_dict(self) -> dict[str, Any]:
        """The entry in a file of results."""
        return {
            "seat": self.seat,
            "value": self.value,
            "exact": self.exact,
            "played": _mean(self.played),
            "with_unchanged_partner": _mean(self.unchanged),
            "seconds": self.seconds,
        }


class Kept:
    """The probabilities of a partner, of which those of one part of the episode are kept.

    A policy may observe whether the end is near. Then it has one table of probabilities before some
    time, and another one after it.

    **Raises:** `ValueError` when its probabilities change with the time more than a few times.
    """

    def __init__(self, model: JointModel, chances: Chances, horizon: int, console: Console):
        self._model, self._chances, self._horizon = model, chances, horizon
        self._console, self._begin = console, -1
        rng = np.random.default_rng(0)
        pair = int(rng.integers(model.num_pairs))
        asked = model.worlds(pair, rng.integers(model.num_objects, size=_ASKED))
        told = np.asarray(_over_time(chances, asked, horizon))
        changes = np.flatnonzero((told[1:] != told[:-1]).any(axis=(1, 2))) + 1
        if len(changes) >= _MOST_PARTS:
            raise ValueError(
                f"The actions of this partner change with the time {len(changes)} times: it "
                "observes the time, so no table of states has its probabilities."
            )
        self.parts = [0, *changes.tolist()]

    def __call__(self, steps: int) -> Float[np.ndarray, "pairs actions objects"]:
        """The probabilities with this many steps to go."""
        time = self._horizon - steps
        begin = max(part for part in self.parts if part <= time)
        if begin != self._begin:
            self._table = np.empty(0)  # the old one makes room before the new one is built
            what = "asking the partner" if len(self.parts) == 1 else f"asking it, step {begin} on"
            with progress(self._console, what, self._model.num_pairs) as report:
                self._table = tabulate(self._model, self._chances, begin, report)
            self._begin = begin
        return self._table


@eqx.filter_jit
def _over_time(chances: Chances, worlds: Any, horizon: int) -> Float[Array, "times worlds actions"]:
    worlds = jax.tree.map(jnp.asarray, worlds)

    def at(world: Any, time: Int[Array, ""]) -> Float[Array, " actions"]:
        return chances(dataclasses.replace(world, time=time.astype(world.time.dtype)))

    in_all = jax.vmap(at, in_axes=(0, None))
    return jax.lax.map(lambda time: in_all(worlds, time), jnp.arange(horizon))


@eqx.filter_jit
def _begin(env: AbstractEnv, partner: AbstractPartner, seat: int, keys: PRNGKeyArray) -> PlayState:
    return jax.vmap(lambda key: start_play(env, _team(partner, seat, jnp.asarray(0)), key))(keys)


@eqx.filter_jit
def _advance(
    env: AbstractEnv,
    partner: AbstractPartner,
    seat: int,
    states: PlayState,
    actions: Int[Array, " games"],
) -> PlayState:
    def one(state: PlayState, action: Int[Array, ""]) -> PlayState:
        return play_step(env, _team(partner, seat, action), state)[0]

    return eqx.filter_vmap(one)(states, actions)


def _team(
    partner: AbstractPartner, seat: int, action: Int[Array, ""]
) -> tuple[AbstractPartner, ...]:
    own = StayPartner(action)
    return (own, partner) if seat == 0 else (partner, own)


def play_response(
    env: AbstractEnv,
    response: BestResponse,
    partner: AbstractPartner,
    keys: PRNGKeyArray,
    horizon: int,
) -> tuple[Float[np.ndarray, " games"], PyTree]:
    """Plays a response with a partner in the environment.

    **Returns:** the return of each game; and the states of the first game, with the score before
    each of them.
    """
    states = _begin(env, partner, response.seat, keys)
    first, scores = [], []
    for steps in range(horizon, 0, -1):
        worlds = jax.tree.map(np.asarray, unwrap_state(states.env_state))
        score = float(np.asarray(states.game.episode_return)[0].mean())
        actions = response.act(steps, response.model.locate_all(worlds))
        states = _advance(
            env, partner, response.seat, states, jnp.asarray(actions.astype(np.int32))
        )
        first.append(jax.tree.map(lambda x: x[0], worlds))
        scores.append(score)
    film = jax.tree.map(lambda *x: np.stack(x), *first)
    return np.asarray(states.game.episode_return).mean(axis=-1), (film, scores)


def without_stuck_rule(partner: AbstractPartner) -> AbstractPartner:
    """A partner without its stuck rule, which remembers the last steps."""
    if isinstance(partner, NoisyPartner):
        return dataclasses.replace(partner, partner=without_stuck_rule(partner.partner))
    return partner.partner if isinstance(partner, StuckRule) else partner


def respond(
    config: Config,
    env: AbstractEnv,
    model: JointModel,
    partner: AbstractPartner,
    seat: int,
    folder: Path,
    console: Console,
) -> tuple[Found, PyTree]:
    """Finds the best response to a partner, and plays it.

    **Returns:** what was found, and the states of a game of it.

    **Raises:** `ValueError` when the probabilities of the partner cannot be told, and `RunError`
    when the response earns something else in the environment.
    """
    begin, plain = time.perf_counter(), without_stuck_rule(partner)
    chances = Kept(model, Chances(plain, env, 1 - seat), config.horizon, console)
    with tempfile.TemporaryFile(dir=folder) as file:
        response = BestResponse(model, seat, file)
        with progress(console, "responding", config.horizon) as report:
            value = response.solve(chances, config.horizon, report)
        seconds = time.perf_counter() - begin
        keys = jax.random.split(jax.random.key(config.seed), config.episodes)
        tiles = np.asarray(model.env.layout.tiles)
        others = np.zeros(tiles.shape, bool)
        for place in set(reachable_counters(model.env.layout)) - set(model.cells):
            others[place] = True
        careful = HandsOff(plain, jnp.asarray(others))
        played, film = play_response(env, response, careful, keys, config.horizon)
        exact, alike = plain is partner and not others.any(), played
        if not exact:
            alike, _ = play_response(env, response, partner, keys, config.horizon)
    _check(value, played)
    return Found(seat, value, exact, played, alike, round(seconds, 1)), film


def _check(value: float, played: Float[np.ndarray, " games"]) -> None:
    """**Raises:** `RunError` when the mean return in the environment is more than five standard
    errors from the value, which chance alone does in one of a million cases.
    """
    error = played.std(ddof=1) / np.sqrt(len(played))
    if abs(played.mean() - value) > 5 * error + _ROUNDING:
        raise RunError(
            f"The best response should earn {value:.2f}, and earns {played.mean():.2f} in the "
            "environment: please report this."
        )


def _mean(returns: Float[np.ndarray, " games"]) -> dict[str, float]:
    low, high = interval_of_mean(returns)
    return {"mean": float(returns.mean()), "low": float(low), "high": float(high)}


def _shown(returns: Float[np.ndarray, " games"]) -> str:
    mean = _mean(returns)
    return f"{mean['mean']:.1f} ({mean['low']:.1f} to {mean['high']:.1f})"


def read_partners(
    config: Config, settings: PolicySettings, env: AbstractEnv
) -> tuple[list[HeldOut], Path, list[AbstractPartner]]:
    """The partners of the command line.

    **Returns:** their descriptions, the file that describes them, and the partners.

    **Raises:** `UsageError` and `CheckpointError` as `build_partners`.
    """
    file = HELD_OUT if config.partners is None else config.partners
    if str(file) == "people" and not file.exists():
        file = PEOPLE
    found: list[HeldOut] = []
    if config.partners is not None:
        found, _ = read_held_out(file)
        names = [partner.name for partner in found]
        for name in config.only:
            if name not in names:
                raise UsageError(f"There is no partner {name!r} in {str(file)!r}.")
        found = [x for x in found if not config.only or x.name in config.only]
    found += [
        HeldOut(str(path), "policy", noise=config.noise, file=str(path.resolve()))
        for path in config.policies
    ]
    if not found:
        raise UsageError("Name partners: --partners people, or --policies and their files.")
    return found, file, build_partners(found, file, settings, env, PolicyFlags())


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, "experiments/best_response.py")
    if not config.seats or any(seat not in (0, 1) for seat in config.seats):
        raise UsageError("--seats takes 0, 1 or both.")
    if config.keep and (config.partners is None or set(config.seats) != {0, 1}):
        raise UsageError("--keep keeps returns in both seats with --partners: name them.")
    layout = REFERENCE_NAMES.get(config.layout, config.layout)
    kitchen = Kitchen(layout=layout, dynamics=config.dynamics, horizon=config.horizon)
    with as_usage_error():
        world = kitchen.build(train=False)
    if not isinstance(world, GridWorld):
        raise UsageError("A best response is searched in one kitchen: name one layout.")
    settings = default_settings(page("ippo"), kitchen)
    env = settings.observe(world)
    described, file, partners = read_partners(config, settings, env)
    counters = read_counters(config.counters, world)
    with as_usage_error():
        for partner in partners:
            Chances(without_stuck_rule(partner), env, 0)
        model = JointModel(world, counters, whole=True)
    _check_room(model, config)
    keep_compiled_programs()
    with open_results("best-response", config.out) as (folder, console):
        console.print(f"{model.num_states:,} joint states", highlight=False)
        rows, results = [], []
        for partner, one in zip(partners, described, strict=True):
            values = {}
            for seat in sorted(set(config.seats)):
                console.print(Text(f"{one.name}, response in seat {seat}"))
                with as_usage_error():
                    found, film = respond(config, env, model, partner, seat, folder, console)
                values[seat] = found.value
                rows.append([Text(one.name), *found.cells()])
                results.append({"partner": one.name, **found.to_dict()})
                if not config.no_film:
                    name = f"{one.name.replace('/', '-')}-seat-{seat}.gif"
                    write_whole(folder / name, kitchen.draw(world, *film))
            if config.keep:
                best = BestResponses(file, settings)
                best.keep_exact(one, [values[0], values[1]], config.counters)
        titles = ("partner", "seat", "best response", "played", "with the partner as it is")
        print_table(console, titles, rows)
        result = {
            "command": shlex.join(["python", "experiments/best_response.py", *args]),
            "layout": layout,
            "dynamics": config.dynamics,
            "horizon": config.horizon,
            "counters": counters,
            "joint_states": model.num_states,
            "episodes": config.episodes,
            "responses": results,
        }
        write_json(folder / "best_responses.json", result)
        print_paths(console, [folder / "best_responses.json"])


def _check_room(model: JointModel, config: Config) -> None:
    """**Raises:** `UsageError` when the search does not fit."""
    needed, disk = BestResponse.bytes_of(model) / _GIB, model.num_states * config.horizon / _GIB
    for name, much, most in (
        ("memory", needed, config.memory_gib),
        ("disk", disk, config.disk_gib),
    ):
        if much > most:
            raise UsageError(
                f"The search has {model.num_states:,} joint states and needs {much:.1f} GiB of "
                f"{name}, more than --{name}-gib {most:g}: allow it more, or use fewer counters."
            )


if __name__ == "__main__":
    run_command(run)
