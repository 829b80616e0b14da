"""The end of a run: final evaluations, results, plots and the last checkpoint."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import numpy as np
from rich.console import Console

from agents import (
    AbstractTrainState,
    ActorCritic,
    TrainProgress,
    find_policy,
    load_policy,
    restore,
    save,
    save_policy,
    trained_policy,
    write_atomic,
)
from eqgrid import AbstractVectorEnv
from eqgrid.grid import RandomLayouts

from ..base import VIDEO_FILE, Failures, Table, read_metadata
from ..folders import short_name, write_json
from ..settings import command_of, dump, own_flags
from ..show import (
    bootstrap_interval,
    compile_video,
    draw_curve,
    drawing,
    interquartile_mean,
    is_constant_sum,
    mean_returns,
    print_how_to_go_on,
    reached,
    video_episode,
)
from ._curriculum import summary
from ._evaluator import Evaluator, frozen, team_returns
from ._hooks import speed
from ._run import Run


@final
@dataclasses.dataclass(frozen=True)
class Conclusion:
    """Evaluates a run after training, and writes its results.

    The last checkpoint is written first, then the results, then the plots. If a file cannot be
    written, the other files still are. After a signal, the remaining evaluations, plots and videos
    are skipped.

    **Arguments:**

    - `run`: the run.
    - `progress`: its progress, with the last state.
    - `evaluator`: its evaluator, with at least one evaluation.
    - `failures`: collects the files that cannot be written.
    - `video`: whether to write a video, if the world can be drawn.
    """

    run: Run
    progress: TrainProgress
    evaluator: Evaluator
    failures: Failures
    video: bool = True

    def conclude(self) -> Table:
        """Evaluates the run, and writes its results.

        **Returns:** the content of `result.json`.
        """
        folder, state = self.run.folder, self.progress.state
        metadata = {"update": self.progress.updates, **self.evaluator.rows[-1]}
        metadata |= self.run.describe(state)
        # If the process is killed during the evaluation, the resumed run does not train further.
        self._save("last", state, metadata)
        settings = folder / "config.toml"
        if not os.path.exists(settings):  # it was removed during training
            with self.failures.writing(settings):
                write_atomic(settings, dump(self.run.settings).encode())
        result = self._result()
        with self.failures.writing(folder / "result.json"):
            write_json(folder / "result.json", result)
        # Now with the returns of the final evaluation.
        metadata |= {name: x for name, x in result.items() if name.startswith("eval_return_")}
        self._save("last", state, metadata)
        with self.failures.writing(folder / "policy.safetensors"):
            self._save_policy(result["policy"], metadata)
        if not self.run.process.interrupted_again:
            self._draw(result["optimum"])
        return result

    def _save_policy(self, which: str, metadata: Table) -> None:
        """Writes `policy.safetensors`, with the policy of the last state or of the best checkpoint.

        **Raises:** `CheckpointError` when the checkpoint cannot be read or the policy cannot be
        written.
        """
        run, state = self.run, self.progress.state
        if which == "best":
            checkpoint = find_policy(run.folder, "best")
            like = eqx.filter_eval_shape(run.config.policy, run.plan.train_env, jax.random.key(0))
            policy, metadata = load_policy(checkpoint, like=like), read_metadata(checkpoint)
        else:
            policy = trained_policy(state.policy, run.plan.train_env, state.runner.env_state)
        save_policy(run.folder / "policy.safetensors", policy, {**metadata, "checkpoint": which})

    def _result(self) -> Table:
        """The content of `result.json`, after the final evaluations."""
        config, progress = self.run.config, self.progress
        returns, rows = self._play(progress.state, 1), self.evaluator.rows
        numbers = {name: x for name, x in rows[-1].items() if name.startswith("eval_return_")}
        if returns is not None:
            numbers = mean_returns(returns, each=self.evaluator.returns_differ)
        mean, best = numbers["eval_return_mean"], self._best()
        best_mean, optimum = best["best_return_mean"], config.env.optimum
        constant_sum = self._is_constant_sum()
        return {
            "algorithm": self.run.algorithm,
            "world": config.env.name,
            "layout": config.env.title,
            "dynamics": config.env.rules,
            "seeds": [config.seed],
            "env_steps": progress.env_steps,
            "wall_seconds": round(self.run.seconds(), 2),
            "compile_seconds": round(progress.compile_seconds, 2),
            "train_seconds": round(self.run.history.train_seconds + progress.train_seconds, 2),
            "steps_per_second": round(speed(progress), 1),
            **numbers,
            **({"constant_sum": True} if constant_sum else {}),
            "eval_episodes": config.eval_episodes if returns is None else len(returns),
            **best,
            "policy": "best" if best_mean is not None and best_mean >= mean else "last",
            "optimum": optimum,
            "eval_fraction_of_optimum": mean / optimum if optimum else None,
            "reached": {} if constant_sum else reached(rows, config.env.facts.threshold),
            "layouts": self._returns_in(self.run.plan.parts),
            "zero_shot": self._returns_in(config.env.zero_shot()),
            "stages": summary(self.run.stages, rows),
        }

    def _is_constant_sum(self) -> bool:
        """Whether the game has a constant sum; a world with a best known return has not."""
        return self.run.config.env.optimum is None and is_constant_sum(self.evaluator.rows)

    def _best(self) -> Table:
        """The results of a new evaluation of the best checkpoint. Its return during training, the
        maximum of many noisy evaluations, is biased upwards. In a constant-sum game, the best
        checkpoint has the last state, which is not evaluated again.
        """
        path = self.run.folder / "checkpoints" / "best.safetensors"
        best = {"best_return_mean": None, "best_return_std": None, "best_env_steps": None}
        is_last = self._is_constant_sum()
        if is_last or self.run.process.interrupted_again or not os.path.exists(path):
            return best
        with self.failures.writing(path):
            state, metadata = restore(path, self.progress.state), read_metadata(path)
            returns = self._play(state, 2)
            if returns is not None:
                each = self.evaluator.returns_differ
                best |= mean_returns(returns, "best_return", each=each)
                best["best_env_steps"] = metadata["env_steps"]
                chosen_by = metadata.get("chosen_by", metadata["eval_return_mean"])
                again = {**mean_returns(returns, each=each), "chosen_by": chosen_by}
                save(path, state, {**metadata, **again})
        return best

    def _play(self, state: AbstractTrainState, number: int) -> np.ndarray | None:
        """The returns of all agents in the final episodes; `None` if a signal arrived before the
        first batch.

        **Arguments:**

        - `state`: the training state with the policy.
        - `number`: determines the random keys, and must be 1 or larger.
        """
        config, process = self.run.config, self.run.process
        number += self.progress.num_updates  # a number that no earlier evaluation has used
        repeats = math.ceil(config.final_episodes / config.eval_episodes)
        batches = self.evaluator.play(state, number, repeats)
        returns = []
        while not process.interrupted_again and (episodes := next(batches, None)) is not None:
            returns.append(np.asarray(episodes.episode_return))
        return np.concatenate(returns) if returns else None

    def _returns_in(self, worlds: Mapping[str, RandomLayouts]) -> dict[str, float]:
        """The mean return of the final policy in each of several worlds, by name."""
        means = {}
        for name, world in worlds.items():
            if self.run.process.interrupted_again:
                break
            env = self.run.config.eval_env(world, self.run.config.eval_episodes)
            evaluator = dataclasses.replace(self.evaluator, env=env)
            episodes = next(evaluator.play(self.progress.state, self.progress.num_updates))
            means[name] = float(team_returns(episodes).mean())
        return means

    def _draw(self, optimum: float | None) -> None:
        config = self.run.config
        title = (
            f"{self.run.algorithm.upper()} in {short_name(config.env.title)}, seed {config.seed}"
        )
        with self.failures.writing(self.run.folder / "curve.png"):
            totals = self.run.plan.totals
            columns = [column for name in config.log_info for column in totals[name]]
            draw_curve(self.run.folder / "curve.png", self.evaluator.rows, title, optimum, columns)
        if self.video and config.env.has_video and not self.run.process.interrupted_again:
            draw_video(self.run.folder / VIDEO_FILE, self.run, self.progress.state, self.failures)

    def _save(self, name: str, state: AbstractTrainState, metadata: Table) -> None:
        path = self.run.folder / "checkpoints" / f"{name}.safetensors"
        with self.failures.writing(path):
            save(path, state, metadata)


def draw_video(path: Path, run: Run, state: AbstractTrainState, failures: Failures) -> None:
    """Writes a video of one episode of a policy, as a GIF.

    **Arguments:**

    - `path`: the file.
    - `run`: the run.
    - `state`: its state, with the policy.
    - `failures`: collects the files that cannot be written.
    """
    draw = functools.partial(run.config.env.draw, run.plan.world)
    played = _played_for_video(run, state)
    with failures.writing(path), drawing(path):
        write_atomic(path, video_episode(*played, draw, run.keys[2], run.config.env.horizon))


def video_program(run: Run, state: AbstractTrainState) -> Callable[[], None]:
    """A function that compiles the episode of the video for states of the same shapes."""
    played = _played_for_video(run, state)
    return functools.partial(compile_video, *played, run.keys[2], run.config.env.horizon)


def _played_for_video(run: Run, state: AbstractTrainState) -> tuple[ActorCritic, AbstractVectorEnv]:
    """The policy of a state, and the environment in which it plays the episode of the video."""
    env = run.config.eval_env(run.plan.world, 1)
    return state.policy, frozen(env, state.runner.env_state)


def finish(run: Run, stopped: str | None, console: Console, failures: Failures) -> int:
    """Prints how to resume a run that was stopped, and the files that could not be written.

    **Arguments:**

    - `run`: the run.
    - `stopped`: the reason why it was stopped, if it was.
    - `console`: where the command that resumes the run is printed.
    - `failures`: the files that could not be written.

    **Returns:** the exit code.
    """
    if stopped:
        command = command_of(type(run.settings)) + own_flags(run.settings)
        print_how_to_go_on(console, command, run.folder)
    if failures.report():
        return 1
    return run.process.exit_code if stopped or run.process.first else 0


_COMMON = ("algorithm", "world", "layout", "dynamics", "env_steps")
_COMMON += ("compile_seconds", "train_seconds", "eval_episodes", "optimum")
"""The entries of `result.json` that are the same for all seeds."""
_OF_EACH = ("eval_return_mean", "eval_return_std", "best_return_mean", "best_return_std")
_OF_EACH += ("constant_sum", "best_env_steps", "policy", "reached", "zero_shot", "stages")
"""The entries of `result.json` that differ between seeds."""


def result_of_all(runs: Sequence[Run], results: Sequence[Table]) -> Table:
    """The content of the `result.json` of several seeds together.

    **Arguments:**

    - `runs`: the runs.
    - `results`: the content of the `result.json` of each run.
    """
    optimum, returns = results[0]["optimum"], np.asarray([x["eval_return_mean"] for x in results])
    low, high = bootstrap_interval(returns)
    iqm = float(interquartile_mean(returns))
    of_agents = dict.fromkeys(key for x in results for key in x if "_return_agent_" in key)
    return {
        **{key: results[0][key] for key in _COMMON},
        "seeds": [run.config.seed for run in runs],
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
            {
                **{"seed": run.config.seed, "folder": run.folder.name},
                **{x: own[x] for x in (*_OF_EACH, *of_agents) if x in own},
            }
            for run, own in zip(runs, results, strict=True)
        ],
    }
