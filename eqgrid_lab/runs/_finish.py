"""The end of a run: final evaluations, `result.json`, policy files and pictures."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from agents import TrainedPolicy, save_policy, write_atomic
from eqgrid.grid import RandomLayouts

from ..base import VIDEO_FILE, Table
from ..folders import short_name
from ..show import (
    bootstrap_interval,
    compile_video,
    draw_curves,
    drawing,
    interquartile_mean,
    mean_returns,
    median_seed,
    reached,
    video_episode,
)

if TYPE_CHECKING:
    from ._run import Run


FINAL_BATCHES = 4
"""The final evaluation has this many times the episodes of an evaluation during training."""


def pick(policies: TrainedPolicy, i: int) -> TrainedPolicy:
    """The policy of one seed, from the policies of all seeds."""
    return jax.tree.map(lambda x: x[i] if eqx.is_array(x) else x, policies)


def final_results(run: "Run", last: TrainedPolicy, best: TrainedPolicy) -> list[Table]:
    """The results of each seed: its last and its best policy are evaluated again, in more episodes.

    The return of the best policy during training, the maximum of many noisy evaluations, is biased
    upwards.

    **Arguments:**

    - `run`: the run.
    - `last`, `best`: the policies of all seeds, with a leading `runs` axis.
    """
    returns = _play(run, last, run.num_updates + 1)  # numbers that no other evaluation has used
    again = _play(run, best, run.num_updates + 2)
    config, optimum, constant_sum = run.config, run.config.env.optimum, run.constant_sum()
    layouts = {x: _returns_in(run, world, last) for x, world in config.env.parts().items()}
    zero_shot = {x: _returns_in(run, world, last) for x, world in config.env.zero_shot().items()}
    results = []
    for i, seed in enumerate(run.seeds):
        rows = run.evaluations(i)
        each = any(name.startswith("eval_return_agent_") for name in rows[-1])
        numbers = mean_returns(returns[i], each=each)
        chosen: Table = dict.fromkeys(("best_return_mean", "best_return_std", "best_env_steps"))
        if not constant_sum[i]:
            chosen |= mean_returns(again[i], "best_return", each=each)
            chosen["best_env_steps"] = int(run.best_env_steps[i])
        mean, best_mean = numbers["eval_return_mean"], chosen["best_return_mean"]
        results.append(
            {
                "algorithm": config.algorithm,
                "world": config.env.name,
                "layout": config.env.title,
                "dynamics": config.env.rules,
                "seeds": [seed],
                "env_steps": run.env_steps,
                "total_steps": config.total_steps,
                "wall_seconds": round(run.seconds(), 2),
                "compile_seconds": round(run.compile_seconds(), 2),
                "train_seconds": round(run.train_seconds(), 2),
                "steps_per_second": round(len(run.seeds) * run.speed(), 1),
                **numbers,
                **({"constant_sum": True} if constant_sum[i] else {}),
                "eval_episodes": returns.shape[1],
                **chosen,
                "policy": "best" if best_mean is not None and best_mean >= mean else "last",
                "optimum": optimum,
                "eval_fraction_of_optimum": mean / optimum if optimum else None,
                "reached": {} if constant_sum[i] else reached(rows, config.env.facts.threshold),
                "layouts": {name: float(own[i]) for name, own in layouts.items()},
                "zero_shot": {name: float(own[i]) for name, own in zero_shot.items()},
            }
        )
    return results


def _play(
    run: "Run", policies: TrainedPolicy, number: int
) -> Float[np.ndarray, "runs episodes agents"]:
    """The returns in the final episodes."""
    played = run.evaluate.play(policies, number, FINAL_BATCHES)
    return np.concatenate([np.asarray(x.episode_return) for x in played], axis=1)


def _returns_in(
    run: "Run", world: RandomLayouts, policies: TrainedPolicy
) -> Float[np.ndarray, " runs"]:
    """The mean returns in another world."""
    env = run.config.eval_env(world, run.config.eval_episodes)
    [episodes] = run.evaluate.in_env(env).play(policies, run.num_updates)
    return np.asarray(episodes.episode_return).mean(axis=(1, 2))


_COMMON = ("algorithm", "world", "layout", "dynamics", "env_steps", "total_steps")
_COMMON += ("wall_seconds", "compile_seconds", "train_seconds", "steps_per_second")
_COMMON += ("eval_episodes", "optimum")
"""The entries of `result.json` that are the same for all seeds."""
_OF_EACH = ("eval_return_mean", "eval_return_std", "best_return_mean", "best_return_std")
_OF_EACH += ("constant_sum", "best_env_steps", "policy", "reached", "zero_shot")
"""The entries of `result.json` that differ between seeds."""


def joint_result(results: Sequence[Table]) -> Table:
    """The content of `result.json`: the result of one seed, or those of several seeds with the
    mean, the interquartile mean and its bootstrap interval.

    **Arguments:**

    - `results`: the result of each seed.
    """
    if len(results) == 1:
        return results[0]
    optimum, returns = results[0]["optimum"], np.asarray([x["eval_return_mean"] for x in results])
    low, high = bootstrap_interval(returns)
    iqm = float(interquartile_mean(returns))
    of_agents = dict.fromkeys(key for x in results for key in x if "_return_agent_" in key)
    return {
        **{key: results[0][key] for key in _COMMON},
        "seeds": [seed for x in results for seed in x["seeds"]],
        "eval_return_mean": float(returns.mean()),
        "eval_return_std": float(returns.std()),
        **{
            key: float(np.mean([x.get(key, x["eval_return_mean"]) for x in results]))
            for key in of_agents
            if key.startswith("eval_")
        },
        **({"constant_sum": True} if all(x.get("constant_sum") for x in results) else {}),
        "eval_return_iqm": iqm,
        "eval_return_interval": [float(low), float(high)],
        "eval_fraction_of_optimum": iqm / optimum if optimum else None,
        "runs": [
            {"seed": own["seeds"][0], **{x: own[x] for x in (*_OF_EACH, *of_agents) if x in own}}
            for own in results
        ],
    }


def write_policies(
    run: "Run", results: Sequence[Table], last: TrainedPolicy, best: TrainedPolicy
) -> None:
    """Writes the policy file of each seed: its best policy, or its last one if that was better in
    the final evaluation.

    **Arguments:**

    - `run`, `last`, `best`: as in `final_results`.
    - `results`: the result of each seed.
    """
    for i, result in enumerate(results):
        numbers = {name: x for name, x in result.items() if name.startswith("eval_return_")}
        if result["policy"] == "best":
            numbers = {x: result[x.replace("eval_", "best_")] for x in numbers}
        steps = result["best_env_steps"] if result["policy"] == "best" else result["env_steps"]
        about = {"env_steps": steps, **numbers, **run.describe(i, result["policy"])}
        path = run.path_of("policy", i)
        with run.failures.writing(path):
            policy = pick(best if result["policy"] == "best" else last, i)
            save_policy(path, policy, about, world=run.stored_world)


def draw_pictures(run: "Run", results: Sequence[Table], last: TrainedPolicy) -> None:
    """Draws the learning curve, and a GIF of an episode of the seed with the median return.

    **Arguments:** as in `write_policies`.
    """
    config, curve = run.config, run.folder / "curve.png"
    seeds = f"seed {config.seed}" if len(results) == 1 else f"{len(results)} seeds"
    title = f"{config.algorithm.upper()} in {short_name(config.env.title)}, {seeds}"
    rows = [run.evaluations(i) for i in range(len(results))]
    columns = [column for name in config.log_info for column in run.evaluate.totals[name]]
    with run.failures.writing(curve):
        draw_curves(curve, rows, title, config.env.optimum, columns)
    if config.env.has_video:
        median, path = median_seed(results), run.folder / VIDEO_FILE
        draw = functools.partial(config.env.draw, run.world)
        played = pick(last, median), config.eval_env(run.world, 1)
        with run.failures.writing(path), drawing(path):
            gif = video_episode(*played, draw, run.video_keys[median], config.env.horizon)
            write_atomic(path, gif)


def compile_the_video(run: "Run", policies: TrainedPolicy) -> None:
    """Compiles the program of the GIF.

    **Arguments:**

    - `run`: the run.
    - `policies`: policies of all seeds, for their shapes.
    """
    config = run.config
    compile_video(
        pick(policies, 0), config.eval_env(run.world, 1), run.video_keys[0], config.env.horizon
    )
