"""`Evaluation`: plays episodes with the current policies of a run."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, final

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, PRNGKeyArray, Shaped

import agents
from agents import AbstractTrainState, TrainedPolicy, evaluate, trained_policy
from agents.training import map_runs, on_each_device
from eqgrid import AbstractVectorEnv
from eqgrid.typing import PyTree

from ..show import mean_returns

Columns = dict[str, Float[np.ndarray, " runs"]]
"""Numbers of each run, by the column of `metrics.csv`."""


@final
class Evaluation:
    """Plays episodes with the current policies of all runs, in one compiled program.

    ```python
    evaluation = Evaluation(config.eval_env(world, 64), envs, run.eval_keys, run.mesh)
    result = evaluation(state)
    print(result["eval_return_mean"])  # one number for each run
    ```

    The moments of observations are those of training, and stay fixed. Actions are sampled.
    """

    def __init__(
        self,
        env: AbstractVectorEnv,
        train_env: AbstractVectorEnv,
        keys: Shaped[PRNGKeyArray, " runs"],
        mesh: Mesh | None = None,
        totals: Mapping[str, Sequence[str]] | None = None,
    ):
        """**Arguments:**

        - `env`: the evaluation environments, each of which plays one episode, without
            `NormalizeObservation`.
        - `train_env`: the training environments.
        - `keys`: the source of randomness of each run, independent of its training.
        - `mesh`: the devices among which runs are divided, if any.
        - `totals`: the entries of `info` that `LogEpisodes` sums over the episodes of `env`, and
            the columns of `metrics.csv` for the numbers of each.
        """
        self.env, self.train_env, self.keys, self.mesh = env, train_env, keys, mesh
        self.totals = totals or {}
        self.returns_differ = False  # whether the returns of agents have differed

    def policies(self, state: AbstractTrainState) -> TrainedPolicy:
        """The policy of each run with the moments of its observations; its arrays have a leading
        `runs` axis.

        **Arguments:**

        - `state`: the training state of all runs.
        """
        return _policies(self.train_env, state)

    def __call__(self, state: AbstractTrainState) -> Columns:
        """Evaluates the policies.

        **Returns:** `eval_return_mean` and `eval_return_std` of the mean return of a team,
        `eval_length_mean`, the means of the totals, and `eval_return_agent_0`, ... if the returns
        of the agents have differed in an evaluation.
        """
        updates = int(np.asarray(state.updates)[0])
        [episodes] = self.play(self.policies(state), updates)
        returns = np.asarray(episodes.episode_return)
        self.returns_differ |= bool((np.ptp(returns, axis=-1) > 0).any())
        rows = [mean_returns(own, each=self.returns_differ) for own in returns]
        columns: Columns = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
        columns["eval_length_mean"] = np.asarray(episodes.episode_length).mean(axis=1)
        totals = mean_totals(episodes, self.totals)
        return columns | {name: of_agents.sum(axis=-1) for name, of_agents in totals.items()}

    def play(
        self, policies: TrainedPolicy, number: int, repeats: int = 1
    ) -> list[agents.Evaluation]:
        """Plays batches of episodes, one episode in each environment.

        **Arguments:**

        - `policies`: the policy of each run, from `policies`.
        - `number`: determines the random keys. Evaluations during training use the number of
            updates.
        - `repeats`: the number of batches.

        **Returns:** the episodes of each batch, whose arrays have a leading `runs` axis.
        """
        keys = _keys(self.keys, np.uint32(number), repeats)
        return [_play(self.mesh, self.env, policies, own) for own in keys]

    def in_env(self, env: AbstractVectorEnv) -> "Evaluation":
        """The same evaluation in other environments."""
        return Evaluation(env, self.train_env, self.keys, self.mesh)

    def compile(self, state: AbstractTrainState, policies: TrainedPolicy) -> None:
        """Compiles the programs of an evaluation for arguments of the same shapes.

        **Arguments:**

        - `state`: a training state, or one with shapes in place of arrays.
        - `policies`: the policies of all runs.
        """
        make: Any = _policies
        make.lower(self.train_env, state).compile()
        play: Any = _play
        play.lower(self.mesh, self.env, policies, _keys(self.keys, np.uint32(0), 1)[0]).compile()


@eqx.filter_jit
def _policies(train_env: AbstractVectorEnv, state: AbstractTrainState) -> TrainedPolicy:
    def of_one(policy: agents.ActorCritic, env_state: PyTree) -> TrainedPolicy:
        return trained_policy(policy, train_env, env_state)

    return eqx.filter_vmap(of_one)(state.policy, state.runner.env_state)


@functools.partial(jax.jit, static_argnames="repeats")
def _keys(
    keys: Shaped[PRNGKeyArray, " runs"], number: Any, repeats: int
) -> tuple[Shaped[PRNGKeyArray, " runs"], ...]:
    """The keys of the batches of an evaluation, in one compiled program."""
    split = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, number), repeats))(keys)
    return tuple(split[:, i] for i in range(repeats))


@eqx.filter_jit
def _play(
    mesh: Mesh | None,
    env: AbstractVectorEnv,
    policies: TrainedPolicy,
    keys: Shaped[PRNGKeyArray, " runs"],
) -> agents.Evaluation:
    """Plays the episodes of all runs; each device plays its own runs."""
    if mesh is None or len(keys) % mesh.size:
        return _play_runs(env, policies, keys)
    arrays, rest = eqx.partition((policies, keys, env), eqx.is_array)
    axes = (
        *(jax.tree.map(lambda _: 0, x) for x in arrays[:2]),
        jax.tree.map(lambda _: None, arrays[2]),
    )

    def play_own(arrays: PyTree) -> tuple[agents.Evaluation, tuple[()]]:
        policies, keys, env = eqx.combine(arrays, rest)
        return _play_runs(env, policies, keys), ()

    return on_each_device(play_own, arrays, axes=axes, mesh=mesh)[0]


def _play_runs(
    env: AbstractVectorEnv, policies: TrainedPolicy, keys: Shaped[PRNGKeyArray, " runs"]
) -> agents.Evaluation:
    return map_runs(lambda policy, key: evaluate(policy, env, key), len(keys))(policies, keys)


def mean_totals(
    episodes: agents.Evaluation, totals: Mapping[str, Sequence[str]]
) -> dict[str, Float[np.ndarray, "*runs agents"]]:
    """The means over episodes of the summed entries of `info`, for each agent.

    **Arguments:**

    - `episodes`: the episodes, perhaps of several runs, with a leading `runs` axis.
    - `totals`: as in `Evaluation`.

    **Returns:** the means by column.
    """
    means, runs = {}, episodes.episode_length.shape[:-1]
    for name, columns in totals.items():
        if columns:  # a world without events has none
            of_runs = np.asarray(episodes.totals[name]).mean(axis=len(runs))
            of_agents = of_runs.reshape(*runs, -1, len(columns))
            means |= dict(zip(columns, np.moveaxis(of_agents, -1, 0), strict=True))
    return means
