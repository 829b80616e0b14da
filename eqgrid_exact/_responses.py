"""Best responses to partners in a kitchen, from their action probabilities in all joint states."""

import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from agents import PolicyPartner, StuckRule
from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    ConstantPartner,
    Discrete,
    NoisyPartner,
    PartnerInput,
    PlayState,
    RandomPartner,
    play_step,
    start_play,
    unwrap_state,
)
from eqgrid.envs.overcooked import HandsOff
from eqgrid.typing import PyTree

from ._best_response import BestResponse, ChanceTable, tabulate
from ._joint_model import JointModel, reachable_counters

Progress = Callable[[str, int], contextlib.AbstractContextManager[Callable[[int], None]]]
"""Shows the progress of a computation, given its name and its number of steps."""

_NUM_SAMPLES = 256  # sampled states in which a partner's probabilities are compared over time
_MOST_PARTS = 4
_ROUNDING = 0.02  # the error of a sum of 400 numbers with 24 bits


@final
@dataclasses.dataclass(frozen=True)
class ResponseResult:
    """The best response to a partner in one seat. The search simplifies the partner: it has no
    stuck rule, and does not use the counters that the model leaves out.

    - `seat`: the seat of the response.
    - `value`: the exact return with the simplified partner.
    - `exact`: whether the partner needed no simplification.
    - `played`: the returns of games with the simplified partner.
    - `unchanged`: the returns of games with the partner itself.
    - `seconds`: the time that it took to find the response.
    - `video`: the states of the first game, from its start to its end, and the return so far in
        each of them.
    """

    seat: int
    value: float
    exact: bool
    played: Float[np.ndarray, " games"]
    unchanged: Float[np.ndarray, " games"]
    seconds: float
    video: tuple[PyTree, list[float]]


def respond(
    env: AbstractEnv,
    model: JointModel,
    partner: AbstractPartner,
    seat: int,
    horizon: int,
    keys: PRNGKeyArray,
    *,
    folder: Path,
    progress: Progress,
) -> ResponseResult:
    """Finds the best response to a partner, and plays it.

    **Arguments:**

    - `env`: the kitchen, with the observations that the partner is given.
    - `model`: the joint states of the kitchen.
    - `partner`: the partner.
    - `seat`: the seat of the response.
    - `horizon`: the number of steps of an episode.
    - `keys`: a key for each game to play.
    - `folder`: a folder with space for a temporary file of the actions of the response.
    - `progress`: shows progress.

    **Raises:** `ValueError` when the action probabilities of the partner cannot be computed;
    `RuntimeError` when the mean return in the environment is more than five standard errors from
    the value, which has a probability of one in a million by chance alone.
    """
    begin = time.perf_counter()
    plain = without_stuck_rule(partner)
    chances = ChanceTables(model, Chances(plain, env, 1 - seat), horizon, progress)
    with tempfile.TemporaryFile(dir=folder) as file:
        response = BestResponse(model, seat, file)
        with progress("responding", horizon) as report:
            value = response.solve(chances, horizon, report)
        seconds = time.perf_counter() - begin
        # In the model, interactions with the counters that it leaves out have no effect.
        left_out = np.zeros(model.env.layout.tiles.shape, bool)
        for cell in set(reachable_counters(model.env.layout)) - set(model.cells):
            left_out[cell] = True
        simplified = HandsOff(plain, jnp.asarray(left_out))
        played, video = _play(env, response, simplified, keys, horizon)
        error = played.std(ddof=1) / np.sqrt(len(played))
        if abs(played.mean() - value) > 5 * error + _ROUNDING:
            raise RuntimeError(
                f"The best response should have a return of {value:.2f}, but has "
                f"{played.mean():.2f} in the environment: please report this."
            )
        exact = plain is partner and not left_out.any()
        unchanged = played if exact else _play(env, response, partner, keys, horizon)[0]
    return ResponseResult(seat, value, exact, played, unchanged, round(seconds, 1), video)


def without_stuck_rule(partner: AbstractPartner) -> AbstractPartner:
    """A partner without its stuck rule, which remembers the last steps."""
    if isinstance(partner, NoisyPartner):
        return dataclasses.replace(partner, partner=without_stuck_rule(partner.partner))
    return partner.partner if isinstance(partner, StuckRule) else partner


@final
class Chances(eqx.Module):
    """The probability of each action of a partner in a state: `Chances(...)(state)`.

    **Arguments:**

    - `partner`: a policy without memory, `RandomPartner`, `ConstantPartner`, or one of them in a
        `NoisyPartner`.
    - `env`: the environment, with the observations that the partner is given.
    - `seat`: the seat of the partner.

    **Raises:** `ValueError` when the probabilities of the partner cannot be computed.
    """

    partner: AbstractPartner
    env: AbstractEnv
    seat: int = eqx.field(static=True)

    def __check_init__(self):
        if not isinstance(self.env.action_space, Discrete):
            raise ValueError("Action probabilities are computed for Discrete actions only.")
        partner = self.partner
        while isinstance(partner, NoisyPartner):
            partner = partner.partner
        if not isinstance(partner, PolicyPartner | RandomPartner | ConstantPartner):
            raise ValueError(
                f"The action probabilities of a {type(partner).__name__} are not known, or depend "
                "on earlier steps."
            )
        carry = eqx.filter_eval_shape(partner.initial_carry)
        if any(np.prod(leaf.shape) for leaf in jax.tree.leaves(carry)):
            raise ValueError("The partner has a memory, so its actions depend on earlier steps.")

    def __call__(self, state: PyTree) -> Float[Array, " actions"]:
        """**Arguments:**

        - `state`: the state of the innermost environment.
        """
        seen = PartnerInput(self.env.observe(state), state, jnp.asarray(self.seat))
        space: Any = self.env.action_space
        return _chances(self.partner, seen, space.n)


def _chances(
    partner: AbstractPartner, seen: PartnerInput, actions: int
) -> Float[Array, " actions"]:
    uniform = jnp.full(actions, 1 / actions)
    if isinstance(partner, NoisyPartner):
        own = _chances(partner.partner, seen, actions)
        return (1 - partner.level) * own + partner.level * uniform
    if isinstance(partner, ConstantPartner):
        return jax.nn.one_hot(partner.action, actions)
    if isinstance(partner, PolicyPartner):
        output = partner.outputs(seen, partner.initial_carry())[0][seen.seat]
        if partner.greedy:
            return jax.nn.one_hot(output.argmax(), actions)
        return jax.nn.softmax(output)
    return uniform


@final
class ChanceTables:
    """The table of a partner's action probabilities in all joint states.

    A policy may observe whether the end of the episode is near. The episode then has parts with
    different tables. Only the table of one part is in memory.

    **Arguments:**

    - `model`: the joint states.
    - `chances`: the action probabilities of the partner in a state.
    - `horizon`: the number of steps of an episode.
    - `progress`: shows progress.

    **Raises:** `ValueError` when the probabilities change with the time more than a few times.
    """

    def __init__(self, model: JointModel, chances: Chances, horizon: int, progress: Progress):
        self._model, self._chances, self._horizon = model, chances, horizon
        self._progress, self._begin = progress, -1
        rng = np.random.default_rng(0)
        pair = int(rng.integers(model.num_pairs))
        worlds = model.worlds(pair, rng.integers(model.num_objects, size=_NUM_SAMPLES))
        sampled = np.asarray(_over_time(chances, worlds, horizon))
        changes = np.flatnonzero((sampled[1:] != sampled[:-1]).any(axis=(1, 2))) + 1
        if len(changes) >= _MOST_PARTS:
            raise ValueError(
                f"The actions of this partner change with the time {len(changes)} times: it "
                "observes the time, so no table of states has its probabilities."
            )
        self.parts = [0, *changes.tolist()]

    def __call__(self, steps: int) -> ChanceTable:
        """The table of the part of the episode in which this number of steps is left."""
        now = self._horizon - steps
        begin = max(part for part in self.parts if part <= now)
        if begin != self._begin:
            # Frees the memory of the old table before the new table is computed.
            self._table = np.empty((0, 0, 0), np.float32)
            what = "asking it" if len(self.parts) == 1 else f"asking it, from step {begin} on"
            with self._progress(what, self._model.num_pairs) as report:
                self._table = tabulate(self._model, self._chances, begin, report)
            self._begin = begin
        return self._table


@eqx.filter_jit
def _over_time(
    chances: Chances, worlds: PyTree, horizon: int
) -> Float[Array, "times worlds actions"]:
    """The action probabilities in states at all times of an episode."""
    worlds = jax.tree.map(jnp.asarray, worlds)

    def at(world: PyTree, time: Int[Array, ""]) -> Float[Array, " actions"]:
        return chances(dataclasses.replace(world, time=time.astype(world.time.dtype)))

    in_all = jax.vmap(at, in_axes=(0, None))
    return jax.lax.map(lambda time: in_all(worlds, time), jnp.arange(horizon))


def _play(
    env: AbstractEnv,
    response: BestResponse,
    partner: AbstractPartner,
    keys: PRNGKeyArray,
    horizon: int,
) -> tuple[Float[np.ndarray, " games"], tuple[PyTree, list[float]]]:
    """Plays a response with a partner in the environment.

    **Returns:** the return of each game; and the states of the first game, with the return so far
    in each of them.
    """
    team = _team(partner, response.seat, jnp.asarray(0))
    states = eqx.filter_jit(jax.vmap(lambda key: start_play(env, team, key)))(keys)
    first, scores = [], []
    for steps in range(horizon, -1, -1):
        worlds = jax.tree.map(np.asarray, unwrap_state(states.env_state))
        first.append(jax.tree.map(lambda x: x[0], worlds))
        scores.append(float(np.asarray(states.game.episode_return)[0].mean()))
        if not steps:
            break
        actions = response.act(steps, response.model.locate(worlds)).astype(np.int32)
        states = _step(env, partner, response.seat, states, jnp.asarray(actions))
    video = jax.tree.map(lambda *x: np.stack(x), *first)
    return np.asarray(states.game.episode_return).mean(axis=-1), (video, scores)


@eqx.filter_jit
def _step(
    env: AbstractEnv,
    partner: AbstractPartner,
    seat: int,
    states: PlayState,
    actions: Int[Array, " games"],
) -> PlayState:
    def step(state: PlayState, action: Int[Array, ""]) -> PlayState:
        return play_step(env, _team(partner, seat, action), state)[0]

    return eqx.filter_vmap(step)(states, actions)


def _team(
    partner: AbstractPartner, seat: int, action: Int[Array, ""]
) -> tuple[AbstractPartner, ...]:
    """The team of one step, in which the response takes `action`."""
    own = ConstantPartner(action)
    return (own, partner) if seat == 0 else (partner, own)
