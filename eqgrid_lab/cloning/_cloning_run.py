"""`CloningRun`: the folder of a script that clones people, its log, and its results."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from agents import (
    MLP,
    AbstractNetwork,
    ActorCritic,
    Demonstrations,
    PartnerTeam,
    SharedParameters,
    TrainedPolicy,
    actor_critic,
    save_policy,
    trained_policy,
    write_atomic,
)
from agents.cloning import CloningScore, score
from agents.files import POLICY_FILE, file_of_seed
from eqgrid import AbstractEnv, AutoReset, OneOf, Vectorize, play

from ..base import VIDEO_FILE, Failures, Table, UsageError, expected_errors, keep_compiled_programs
from ..folders import folder_name, open_folder, write_csv, write_json
from ..runs import open_console, portable
from ..settings import dump, to_table
from ..show import drawing, median_seed, video_episode
from ._report import EpochDisplay, draw_confusion, draw_scores, greet, print_models
from ._settings import Cloning, Recorded, most_frequent, read_recorded


@final
class Clones(NamedTuple):
    """The models of all seeds after some epoch.

    - `policies`: the policy of each seed.
    - `scores`: the score of each seed on the held-out games.
    - `epochs`: the epoch of each seed, counted from 1.
    """

    policies: list[TrainedPolicy]
    scores: list[CloningScore]
    epochs: list[int]


@final
class CloningRun:
    """Context manager for models of people of one or several seeds: it opens a folder, prints the
    progress, and writes the results.

    An expected error or a Ctrl-C ends the program with one sentence.

    **Attributes:**

    - `seeds`: the seeds, which are trained together.
    - `folder`: the folder.
    - `exit_code`: the exit code for the program.
    """

    folder: Path

    def __init__(self, config: Cloning) -> None:
        """**Arguments:**

        - `config`: the settings, for example from `parse`.
        """
        self.config, self.exit_code = config, 0
        self.seeds = range(config.seed, config.seed + config.num_seeds)
        self.rows: list[Table] = []
        self._begun = time.perf_counter()

    def __enter__(self) -> Self:
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(
            expected_errors("nothing was written", "--width, --num-seeds or --episodes")
        )
        config, self.console, self.failures = self.config, open_console(), Failures()
        name = folder_name(config.algorithm, config.env.title, config.seed)
        with self._stack:  # closes what is open when the folder cannot be opened
            self.folder = self._stack.enter_context(open_folder(name, config.out, dump(config)))
            self.display = EpochDisplay(self.console, config.learner().num_epochs)
            self._stack.callback(self.display.stop)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.exit_code = 1 if self.failures.report() else 0
        self._stack.__exit__(kind, error, traceback)

    def keys(self) -> tuple[list[PRNGKeyArray], PRNGKeyArray]:
        """A key of each seed for its network, and the stacked keys of all seeds for the epochs."""
        both = [jax.random.split(jax.random.key(seed)) for seed in self.seeds]
        return [keys[0] for keys in both], jnp.stack([keys[1] for keys in both])

    def read_games(self, world: AbstractEnv) -> Recorded:
        """Reads the recorded games, and prints what is trained.

        **Arguments:**

        - `world`: the kitchen, with the observations of the model.

        **Raises:** `UsageError`, as `read_recorded`.
        """
        recorded = read_recorded(self.config, world)
        greet(self.console, self.config, recorded, self.folder, keep_compiled_programs())
        self.display.start()
        return recorded

    def log(self, epoch: int, loss: Float[Array, " seeds"], held_out: CloningScore) -> None:
        """Adds a row for each seed to the log, and shows progress.

        **Arguments:**

        - `epoch`: the number of epochs so far.
        - `loss`, `held_out`: the loss and the score of each seed.
        """
        losses = np.asarray(loss)
        for i, seed in enumerate(self.seeds):
            self.rows.append(
                {
                    "seed": seed,
                    "epoch": epoch,
                    "cross_entropy": float(losses[i]),
                    "held_out_cross_entropy": float(held_out.cross_entropy[i]),
                    "held_out_accuracy": float(held_out.accuracy[i]),
                }
            )
        self.display.show(epoch, held_out)

    def results(
        self, world: AbstractEnv, recorded: Recorded, models: Mapping[str, Clones]
    ) -> list[Table]:
        """Plays games of each model with itself.

        **Arguments:**

        - `world`: the kitchen, with the observations of the model.
        - `recorded`: the recorded games.
        - `models`: the `last` and the `best` models.

        **Returns:** the result of each seed.
        """
        self.display.stop()
        self.console.print("playing the models with themselves, drawing the pictures")
        config = self.config
        partners = [
            config.partner(policy, config, world)
            for of_kind in models.values()
            for policy in of_kind.policies
        ]
        keys = jax.random.split(jax.random.key(config.seed), config.episodes)
        numbers = jnp.arange(len(partners))
        returns = np.asarray(_play(world, OneOf(partners), numbers, keys))
        returns = returns.reshape(len(models), len(self.seeds), -1)
        shown = recorded.shown(held_out=False, length=1)
        about = {
            "algorithm": config.algorithm,
            "world": config.env.name,
            "layout": config.env.title,
            "dynamics": config.env.rules,
            "split": config.split,
            "games": len(recorded.games),
            "held_out_games": len(recorded.held_out),
            "steps": int(shown.recorded.sum()),
            "people_return_mean": float(recorded.returns.mean()),
            "most_frequent_action": most_frequent(shown, recorded.shown(held_out=True)),
            "train_seconds": round(self.display.seconds, 2),
            "stuck_steps": config.stuck_steps,
            "eval_episodes": config.episodes,
            "optimum": config.env.optimum,
            "kept": config.keep,
        }
        results = []
        for i, seed in enumerate(self.seeds):
            of_kind = {
                kind: {
                    "epoch": own.epochs[i],
                    "cross_entropy": float(own.scores[i].cross_entropy),
                    "accuracy": float(own.scores[i].accuracy),
                    "return_mean": float(returns[k, i].mean()),
                    "return_std": float(returns[k, i].std()),
                }
                for k, (kind, own) in enumerate(models.items())
            }
            kept = of_kind[config.keep]
            numbers = {f"eval_{name}": kept[name] for name in ("return_mean", "return_std")}
            results.append({**about, "seeds": [seed], **numbers, **of_kind})
        return results

    def write(self, world: AbstractEnv, kept: Clones, results: Sequence[Table]) -> None:
        """Writes the policy file of each seed, the log, the pictures and `result.json`.

        **Arguments:**

        - `world`: the kitchen, with the observations of the model.
        - `kept`: the models that are kept.
        - `results`: the result of each seed.
        """
        config, folder, failures = self.config, self.folder, self.failures
        # The policy files contain no path of the user.
        games = None if config.games is None else Path(config.games).name
        stored = dataclasses.replace(config, env=portable(config.env), games=games, num_seeds=1)
        several = len(self.seeds) > 1
        for seed, policy, result in zip(self.seeds, kept.policies, results, strict=True):
            path = file_of_seed(folder / POLICY_FILE, seed if several else None)
            with failures.writing(path):
                about = {
                    "run": to_table(dataclasses.replace(stored, seed=seed)),
                    "eval_return_mean": result["eval_return_mean"],
                    "eval_return_std": result["eval_return_std"],
                    "model_of_people": result,
                }
                save_policy(path, policy, about)
        with failures.writing(folder / "metrics.csv"):
            write_csv(folder / "metrics.csv", self.rows)
        median = median_seed(results)
        title = f"{config.algorithm.upper()} of people ({config.split}) in {config.env.title}"
        with failures.writing(folder / "curve.png"):
            of_seeds = [[row for row in self.rows if row["seed"] == seed] for seed in self.seeds]
            frequent = results[0]["most_frequent_action"]
            draw_scores(folder / "curve.png", of_seeds, frequent, title)
        with failures.writing(folder / "confusion.png"):
            confusion = np.asarray(kept.scores[median].confusion)
            draw_confusion(folder / "confusion.png", confusion, title)
        with failures.writing(folder / VIDEO_FILE), drawing(folder / VIDEO_FILE):
            # One game of a model with itself.
            partner = config.partner(kept.policies[median], config, world)
            team, one = PartnerTeam([partner] * world.num_agents), Vectorize(AutoReset(world), 1)
            draw, key = functools.partial(config.env.draw, world), jax.random.key(config.seed)
            video = video_episode(team, one, draw, key, config.env.horizon)
            write_atomic(folder / VIDEO_FILE, video)
        with failures.writing(folder / "result.json"):
            write_json(folder / "result.json", _joint_result(results, kept, median))
        print_models(self.console, results, folder, time.perf_counter() - self._begun)


def networks_of(policies: Sequence[ActorCritic]) -> list[AbstractNetwork]:
    """The networks of untrained models.

    **Raises:** `UsageError` when a policy is not one network for all agents.
    """
    networks = [x.actor.network for x in policies if isinstance(x.actor, SharedParameters)]
    if len(networks) < len(policies):
        raise UsageError("A human model is one network for all seats: use shared parameters.")
    return networks


def as_clones(
    policies: Sequence[ActorCritic],
    networks: AbstractNetwork,
    epochs: Int[np.ndarray, " seeds"],
    held_out: Demonstrations,
    envs: Vectorize,
) -> Clones:
    """The models with trained networks.

    **Arguments:**

    - `policies`: the untrained model of each seed.
    - `networks`: the trained networks, with a leading axis of the seeds.
    - `epochs`: the epoch of each network.
    - `held_out`: the games that score them.
    - `envs`: the environments of the models.
    """
    # Cloning trains no critic, so the policies get a small one whose values are 0.
    linear = functools.partial(MLP, depth=0)
    small = actor_critic(envs, jax.random.key(0), network=linear).critic
    critic = jax.tree.map(lambda x: jnp.zeros_like(x) if eqx.is_array(x) else x, small)
    arrays, rest = eqx.partition(networks, eqx.is_array)
    found = Clones([], [], epochs.tolist())
    for i, policy in enumerate(policies):
        network = eqx.combine(jax.tree.map(lambda x, i=i: x[i], arrays), rest)
        trained = eqx.tree_at(lambda p: (p.actor.network, p.critic), policy, (network, critic))
        found.scores.append(eqx.filter_jit(score)(network, held_out))
        found.policies.append(trained_policy(trained, envs))
    return found


_OF_EACH = ("eval_return_mean", "eval_return_std", "last", "best", "confusion")
"""The entries of a result that differ between seeds."""


def _joint_result(results: Sequence[Table], kept: Clones, median: int) -> Table:
    """The content of `result.json`: the result of one seed, or the results of all (`runs`)."""
    runs = [
        {**result, "confusion": np.asarray(score.confusion).tolist()}
        for result, score in zip(results, kept.scores, strict=True)
    ]
    if len(runs) == 1:
        return runs[0]
    returns = np.asarray([run["eval_return_mean"] for run in runs])
    return {
        **{name: value for name, value in runs[0].items() if name not in _OF_EACH},
        "seeds": [run["seeds"][0] for run in runs],
        "median_seed": runs[median]["seeds"][0],
        "eval_return_mean": float(returns.mean()),
        "eval_return_std": float(returns.std()),
        "runs": [
            {"seed": run["seeds"][0], **{name: run[name] for name in _OF_EACH}} for run in runs
        ],
    }


@eqx.filter_jit
def _play(
    world: AbstractEnv, partners: OneOf, numbers: Int[Array, " models"], keys: PRNGKeyArray
) -> Float[Array, "models episodes"]:
    """The returns of games of each model with itself."""

    def game(number: Int[Array, ""], key: PRNGKeyArray) -> Float[Array, ""]:
        team = [partners.pick(number)] * world.num_agents
        return play(world, team, key).episode_return.mean()

    return jax.lax.map(lambda number: jax.vmap(game, (None, 0))(number, keys), numbers)
