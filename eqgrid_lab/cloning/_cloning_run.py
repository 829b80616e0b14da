"""`CloningRun`: the folder of a script that clones people, its log, and its results."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from rich.console import Console

from agents import (
    MLP,
    AbstractNetwork,
    ActorCritic,
    PartnerTeam,
    PolicyPartner,
    SharedParameters,
    TrainedPolicy,
    actor_critic,
    save_policy,
    trained_policy,
    write_atomic,
)
from agents.cloning import CloningScore
from agents.files import POLICY_FILE, file_of_seed
from eqgrid import AbstractEnv, AutoReset, OneOf, Vectorize, play

from ..base import VIDEO_FILE, Table, UsageError, expected_errors, keep_compiled_programs
from ..folders import folder_name, open_folder, write_csv, write_json
from ..partners import run_mark
from ..settings import dump, to_table
from ..show import drawing, median_seed, open_console, print_paths, progress, video_episode
from ._report import draw_losses, print_models
from ._settings import Cloning, Recorded, most_frequent, read_recorded


@contextlib.contextmanager
def open_cloning_run(config: Cloning) -> Iterator["CloningRun"]:
    """Context manager for the folder of a script that clones people.

    An expected error or a Ctrl-C ends the program with one sentence.

    **Arguments:**

    - `config`: the settings, for example from `parse`.
    """
    name = folder_name(config.algorithm, config.env.title, config.seed)
    with (
        expected_errors("nothing was written", "--width, --num-seeds or --episodes"),
        open_folder(name, config.out, dump(config)) as folder,
    ):
        yield CloningRun(config, folder, open_console())


@final
class CloningRun:
    """The games, the log and the results of models of people of one or several seeds.

    `open_cloning_run` makes it.

    **Attributes:**

    - `seeds`: the seeds, which are trained together.
    - `folder`: the folder.
    - `network_keys`: a random key of each seed for its network.
    - `epoch_keys`: the stacked random keys of all seeds for the epochs.
    """

    def __init__(self, config: Cloning, folder: Path, console: Console) -> None:
        self.config, self.folder, self.console = config, folder, console
        self.seeds = range(config.seed, config.seed + config.num_seeds)
        both = [jax.random.split(jax.random.key(seed)) for seed in self.seeds]
        self.network_keys: list[PRNGKeyArray] = [keys[0] for keys in both]
        self.epoch_keys: PRNGKeyArray = jnp.stack([keys[1] for keys in both])
        self.rows: list[Table] = []

    def read_games(self, world: AbstractEnv) -> Recorded:
        """Reads the recorded games, and prints what is trained.

        **Arguments:**

        - `world`: the kitchen, with the observations of the model.

        **Raises:** `UsageError`, as `read_recorded`.
        """
        keep_compiled_programs()
        self.games = read_recorded(self.config, world)
        number, held_out = len(self.games.games), len(self.games.held_out)
        where = self.config.games or "Overcooked-AI"
        words = f"{number} human games from {where}, {held_out} held out: writing to {self.folder}"
        self.console.print(words, highlight=False, markup=False)
        return self.games

    def epochs(self) -> Iterator[int]:
        """The number of each epoch, counted from 1. It also shows progress."""
        number = self.config.learner().num_epochs
        with progress(self.console, "epochs", number) as report:
            for epoch in range(1, number + 1):
                yield epoch
                report(epoch)

    def log(self, epoch: int, loss: Float[Array, " seeds"], held_out: CloningScore) -> None:
        """Adds a row for each seed to the log.

        **Arguments:**

        - `epoch`: the number of epochs so far.
        - `loss`, `held_out`: the loss and the score of each seed.
        """
        for i, seed in enumerate(self.seeds):
            self.rows.append(
                {
                    "seed": seed,
                    "epoch": epoch,
                    "cross_entropy": float(loss[i]),
                    "held_out_cross_entropy": float(held_out.cross_entropy[i]),
                    "held_out_accuracy": float(held_out.accuracy[i]),
                }
            )

    def finish(self, world: AbstractEnv, policies: Sequence[TrainedPolicy]) -> None:
        """Plays games of each model with itself, and writes the policies, the log, the pictures and
        `result.json`.

        **Arguments:**

        - `world`: the kitchen, with the observations of the model.
        - `policies`: the model of each seed.
        """
        self.console.print("playing the models with themselves, drawing the pictures")
        config, folder = self.config, self.folder
        partners = [config.as_played(PolicyPartner(policy)) for policy in policies]
        keys = jax.random.split(jax.random.key(config.seed), config.episodes)
        returns = np.asarray(_play(world, OneOf(partners), jnp.arange(len(partners)), keys))
        result = self._result(returns)
        median = median_seed(result["runs"])
        self._write_policies(policies, result)
        write_csv(folder / "metrics.csv", self.rows)
        title = f"{config.algorithm.upper()} of people ({config.split}) in {config.env.title}"
        frequent = result["most_frequent_action"]["cross_entropy"]
        draw_losses(folder / "curve.png", self.rows, frequent, title)
        with drawing(folder / VIDEO_FILE):
            # One game of the model of the median seed with itself.
            team = PartnerTeam([partners[median]] * world.num_agents)
            one, draw = Vectorize(AutoReset(world), 1), functools.partial(config.env.draw, world)
            key = jax.random.key(config.seed)
            video = video_episode(team, one, draw, key, config.env.horizon)
            write_atomic(folder / VIDEO_FILE, video)
        write_json(folder / "result.json", result)
        print_models(self.console, result)
        print_paths(self.console, [folder])

    def _result(self, returns: Float[np.ndarray, "seeds episodes"]) -> Table:
        """The content of `result.json`. The scores are those of the last epoch."""
        config, games = self.config, self.games
        shown = games.shown(held_out=False, length=1)
        runs = [
            {
                "seed": row["seed"],
                "cross_entropy": row["held_out_cross_entropy"],
                "accuracy": row["held_out_accuracy"],
                "eval_return_mean": float(own.mean()),
                "eval_return_std": float(own.std()),
            }
            for row, own in zip(self.rows[-len(self.seeds) :], returns, strict=True)
        ]
        return {
            "algorithm": config.algorithm,
            "world": config.env.name,
            "layout": config.env.title,
            "dynamics": config.env.rules,
            "seeds": [*self.seeds],
            "split": config.split,
            "games": len(games.games),
            "held_out_games": len(games.held_out),
            "steps": int(shown.recorded.sum()),
            "people_return_mean": float(games.returns.mean()),
            "most_frequent_action": most_frequent(shown, games.shown(held_out=True)),
            "stuck_steps": config.stuck_steps,
            "eval_episodes": config.episodes,
            "optimum": config.env.optimum,
            "eval_return_mean": float(np.mean([run["eval_return_mean"] for run in runs])),
            "eval_return_std": float(np.std([run["eval_return_mean"] for run in runs])),
            "median_seed": self.seeds[median_seed(runs)],
            "runs": runs,
        }

    def _write_policies(self, policies: Sequence[TrainedPolicy], result: Table) -> None:
        """Writes the policy file of each seed."""
        config, several = self.config, len(policies) > 1
        world = config.place().policy_world
        for seed, policy, run in zip(self.seeds, policies, result["runs"], strict=True):
            about = {
                "algorithm": config.algorithm,
                "seed": seed,
                "run": run_mark(to_table(dataclasses.replace(config, seed=seed, num_seeds=1))),
                "stuck_steps": config.stuck_steps,
                "eval_return_mean": run["eval_return_mean"],
                "eval_return_std": run["eval_return_std"],
                "model_of_people": {**result, "seeds": [seed], "runs": [run]},
            }
            path = file_of_seed(self.folder / POLICY_FILE, seed if several else None)
            save_policy(path, policy, about, world=world)


def networks_of(policies: Sequence[ActorCritic]) -> list[AbstractNetwork]:
    """The networks of untrained models.

    **Raises:** `UsageError` when a policy is not one network for all agents.
    """
    networks = [x.actor.network for x in policies if isinstance(x.actor, SharedParameters)]
    if len(networks) < len(policies):
        raise UsageError("A human model is one network for all seats: use shared parameters.")
    return networks


def as_clones(
    policies: Sequence[ActorCritic], networks: AbstractNetwork, envs: Vectorize
) -> list[TrainedPolicy]:
    """The models with trained networks.

    **Arguments:**

    - `policies`: the untrained model of each seed.
    - `networks`: the trained networks, with a leading axis of the seeds.
    - `envs`: the environments of the models.
    """
    # Cloning trains no critic, so the policies get a small one whose values are 0.
    linear = functools.partial(MLP, depth=0)
    small = actor_critic(envs, jax.random.key(0), network=linear).critic
    critic = jax.tree.map(lambda x: jnp.zeros_like(x) if eqx.is_array(x) else x, small)
    arrays, rest = eqx.partition(networks, eqx.is_array)
    clones = []
    for i, policy in enumerate(policies):
        network = eqx.combine(jax.tree.map(lambda x, i=i: x[i], arrays), rest)
        trained = eqx.tree_at(lambda p: (p.actor.network, p.critic), policy, (network, critic))
        clones.append(trained_policy(trained, envs))
    return clones


@eqx.filter_jit
def _play(
    world: AbstractEnv, partners: OneOf, numbers: Int[Array, " models"], keys: PRNGKeyArray
) -> Float[Array, "models episodes"]:
    """The returns of games of each model with itself."""

    def game(number: Int[Array, ""], key: PRNGKeyArray) -> Float[Array, ""]:
        team = [partners.pick(number)] * world.num_agents
        return play(world, team, key).episode_return.mean()

    return jax.lax.map(lambda number: jax.vmap(game, (None, 0))(number, keys), numbers)
