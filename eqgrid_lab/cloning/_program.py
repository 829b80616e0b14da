"""The program of a script that clones people: reads games, trains models, and writes results."""

import dataclasses
import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from rich.console import Console

from agents import (
    MLP,
    PartnerTeam,
    SharedParameters,
    TrainedPolicy,
    actor_critic,
    save_policy,
    trained_policy,
    write_atomic,
)
from agents.cloning import CloningScore, Epoch, clone, score
from agents.training import stack_runs
from eqgrid import AbstractEnv, AutoReset, OneOf, Vectorize, play

from ..base import (
    SETTINGS_FILE,
    VIDEO_FILE,
    Failures,
    Process,
    UsageError,
    keep_compiled_programs,
    run_process,
)
from ..folders import folder_name, open_folder, write_csv, write_json, writing_into
from ..runs import open_console, portable
from ..settings import dump, to_table
from ..show import drawing, median_seed, video_episode
from ._report import EpochDisplay, Result, draw_confusion, draw_scores, greet, print_models
from ._settings import Cloning, Recorded, most_frequent, parse_cloning, read_recorded

_KINDS = ("last", "best")
"""The kinds of models, by the epoch after which their network was kept: see `Cloning.keep`."""


def run_cloning(script: type[Cloning]) -> None:
    """Runs the command line of a script that clones people, and exits.

    The run writes the policies of the models, their scores, plots and a video into a folder.
    `--help` lists the flags.

    **Arguments:**

    - `script`: the class that the script defines.
    """
    args = sys.argv[1:]
    run_process(lambda process: run(script, args, process), "--width, --num-seeds or --episodes")


def run(script: type[Cloning], args: Sequence[str], process: Process) -> int:
    """Parses a command line, trains the models, and writes the folder of the run.

    **Arguments:**

    - `script`: the class that the script defines.
    - `args`: the command line.
    - `process`: the process, with its clock and signals.

    **Returns:** the exit code.

    **Raises:** the errors that `exit_code_of` prints.
    """
    config = parse_cloning(script, args)
    world = config.observe(config.env.build(train=False))
    process.begin()
    recorded = read_recorded(config, world)
    name = folder_name(config.algorithm, config.env.title, config.seed)
    with open_folder(name, config.out, dump(config)) as folder:
        console, failures = open_console(), Failures()
        greet(console, config, recorded, folder, keep_compiled_programs())
        models = _train(console, config, world, recorded, process)
        console.print("playing the models with themselves, drawing the pictures")
        results = _results(config, world, recorded, models)
        process.check()
        _write(config, world, models, results, folder, failures)
        print_models(console, results, folder, process.seconds())
    return 1 if failures.report() else 0


@final
class _Models(NamedTuple):
    """The models of all seeds after training.

    - `policies`: for each of `_KINDS`, the policy of each seed.
    - `scores`: for each of `_KINDS`, the score of each seed on the held-out games.
    - `epochs`: for each of `_KINDS` and each seed, the epoch after which the network was kept,
        counted from 1.
    - `rows`: for each seed, a row of the log for each epoch.
    - `seconds`: the duration of training.
    """

    policies: dict[str, list[TrainedPolicy]]
    scores: dict[str, list[CloningScore]]
    epochs: dict[str, list[int]]
    rows: list[list[dict[str, float]]]
    seconds: float


def _train(
    console: Console, config: Cloning, world: AbstractEnv, recorded: Recorded, process: Process
) -> _Models:
    """Trains the models of all seeds.

    **Raises:** `UsageError` when the script's policy is not one network for all agents, and
    `Stopped` after a signal.
    """
    envs, learner, started = Vectorize(world, 1), config.learner(), time.perf_counter()
    seeds = range(config.seed, config.seed + config.num_seeds)
    split = [jax.random.split(jax.random.key(seed)) for seed in seeds]
    untrained = [config.policy(envs, keys[0]) for keys in split]
    networks = [x.actor.network for x in untrained if isinstance(x.actor, SharedParameters)]
    if len(networks) < len(untrained):
        raise UsageError("A human model is one network for all seats: use shared parameters.")
    shown = recorded.shown(held_out=False, length=learner.length_for(networks[0]))
    held_out = recorded.shown(held_out=True)
    rows: list[list[dict[str, float]]] = [[] for _ in seeds]
    display = EpochDisplay(console, learner.num_epochs)

    def on_epoch(epoch: Epoch) -> None:
        process.check()
        for i, of_seed in enumerate(rows):
            of_seed.append(
                {
                    "epoch": epoch.number,
                    "cross_entropy": float(epoch.loss[i]),
                    "held_out_cross_entropy": float(epoch.held_out.cross_entropy[i]),
                    "held_out_accuracy": float(epoch.held_out.accuracy[i]),
                }
            )
        display.show(epoch)

    with display:
        keys = jnp.stack([keys[1] for keys in split])
        clones = clone(learner, stack_runs(networks), keys, shown, held_out, on_epoch)
    seconds = time.perf_counter() - started
    # Cloning trains no critic, so the policies get a small one whose values are 0.
    linear = functools.partial(MLP, depth=0)
    small = actor_critic(envs, jax.random.key(0), network=linear).critic
    critic = jax.tree.map(lambda x: jnp.zeros_like(x) if eqx.is_array(x) else x, small)
    policies, scores = {}, {}
    for kind, stack in (("last", clones.last), ("best", clones.best)):
        arrays, rest = eqx.partition(stack, eqx.is_array)
        scores[kind], policies[kind] = [], []
        for i, policy in enumerate(untrained):
            network = eqx.combine(jax.tree.map(lambda x, i=i: x[i], arrays), rest)
            trained = eqx.tree_at(lambda p: (p.actor.network, p.critic), policy, (network, critic))
            scores[kind].append(eqx.filter_jit(score)(network, held_out))
            policies[kind].append(trained_policy(trained, envs))
    epochs = {"last": [len(rows[0])] * len(untrained), "best": clones.best_epoch.tolist()}
    return _Models(policies, scores, epochs, rows, seconds)


def _results(
    config: Cloning, world: AbstractEnv, recorded: Recorded, models: _Models
) -> list[Result]:
    """Plays games of each model with itself, and makes the content of the `result.json` of each
    seed.
    """
    partners = [
        config.partner(policy, config, world) for kind in _KINDS for policy in models.policies[kind]
    ]
    keys = jax.random.split(jax.random.key(config.seed), config.episodes)
    numbers = jnp.arange(len(partners))
    returns = np.asarray(_play(world, OneOf(partners), numbers, keys)).reshape(
        len(_KINDS), config.num_seeds, -1
    )
    shown = recorded.shown(held_out=False, length=1)
    frequent = most_frequent(shown, recorded.shown(held_out=True))
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
        "most_frequent_action": frequent,
        "train_seconds": round(models.seconds, 2),
        "stuck_steps": config.stuck_steps,
        "eval_episodes": config.episodes,
        "optimum": config.env.optimum,
        "kept": config.keep,
    }
    results = []
    for i in range(config.num_seeds):
        of_kind = {
            kind: {
                "epoch": models.epochs[kind][i],
                "cross_entropy": float(models.scores[kind][i].cross_entropy),
                "accuracy": float(models.scores[kind][i].accuracy),
                "return_mean": float(returns[k, i].mean()),
                "return_std": float(returns[k, i].std()),
            }
            for k, kind in enumerate(_KINDS)
        }
        kept = of_kind[config.keep]
        evaluated = {"eval_return_mean": kept["return_mean"], "eval_return_std": kept["return_std"]}
        results.append(about | {"seeds": [config.seed + i]} | evaluated | of_kind)
    return results


@eqx.filter_jit
def _play(
    world: AbstractEnv, partners: OneOf, numbers: Int[Array, " models"], keys: PRNGKeyArray
) -> Float[Array, "models episodes"]:
    """The returns of games of each model with itself."""

    def game(number: Int[Array, ""], key: PRNGKeyArray) -> Float[Array, ""]:
        team = [partners.pick(number)] * world.num_agents
        return play(world, team, key).episode_return.mean()

    return jax.lax.map(lambda number: jax.vmap(game, (None, 0))(number, keys), numbers)


def _write(
    config: Cloning,
    world: AbstractEnv,
    models: _Models,
    results: Sequence[Result],
    folder: Path,
    failures: Failures,
) -> None:
    """Writes the files of each seed, and the files of all seeds together."""
    several = config.num_seeds > 1
    for i, result in enumerate(results):
        own = dataclasses.replace(config, seed=result["seeds"][0], num_seeds=1)
        seed_folder = folder / f"seed-{own.seed}" if several else folder
        with writing_into(seed_folder):
            seed_folder.mkdir(exist_ok=True)
            write_atomic(seed_folder / SETTINGS_FILE, dump(own).encode())
        kept = models.policies[config.keep][i], models.scores[config.keep][i]
        _write_seed(own, kept, result, models.rows[i], seed_folder, failures)
    median = median_seed(results)
    if several:
        with failures.writing(folder / "result.json"):
            runs = [{"seed": x["seeds"][0], **x} for x in results]
            median_number = results[median]["seeds"][0]
            write_json(folder / "result.json", {"median_seed": median_number, "runs": runs})
        with failures.writing(folder / "metrics.csv"):
            rows = [
                {"seed": config.seed + i, **row}
                for i, of_seed in enumerate(models.rows)
                for row in of_seed
            ]
            write_csv(folder / "metrics.csv", rows)
    title = f"{config.algorithm.upper()} of people ({config.split}) in {config.env.title}"
    with failures.writing(folder / "curve.png"):
        draw_scores(folder / "curve.png", models.rows, results[0]["most_frequent_action"], title)
    with failures.writing(folder / "confusion.png"):
        confusion = np.asarray(models.scores[config.keep][median].confusion)
        draw_confusion(folder / "confusion.png", confusion, title)
    with failures.writing(folder / VIDEO_FILE), drawing(folder / VIDEO_FILE):
        # One game of a model with itself.
        partner = config.partner(models.policies[config.keep][median], config, world)
        team, one = PartnerTeam([partner] * world.num_agents), Vectorize(AutoReset(world), 1)
        draw, key = functools.partial(config.env.draw, world), jax.random.key(config.seed)
        video = video_episode(team, one, draw, key, config.env.horizon)
        write_atomic(folder / VIDEO_FILE, video)


def _write_seed(
    config: Cloning,
    kept: tuple[TrainedPolicy, CloningScore],
    result: Result,
    rows: Sequence[dict[str, float]],
    folder: Path,
    failures: Failures,
) -> None:
    """Writes the policy, the log and the result of one seed."""
    policy, held_out_score = kept
    # The policy file contains no path of the user.
    games = None if config.games is None else Path(config.games).name
    settings = dataclasses.replace(config, env=portable(config.env), games=games)
    with failures.writing(folder / "policy.safetensors"):
        about = {
            "run": to_table(settings),
            "eval_return_mean": result["eval_return_mean"],
            "eval_return_std": result["eval_return_std"],
            "model_of_people": result,
        }
        save_policy(folder / "policy.safetensors", policy, about)
    with failures.writing(folder / "metrics.csv"):
        write_csv(folder / "metrics.csv", rows)
    with failures.writing(folder / "result.json"):
        confusion = np.asarray(held_out_score.confusion).tolist()
        write_json(folder / "result.json", {**result, "confusion": confusion})
