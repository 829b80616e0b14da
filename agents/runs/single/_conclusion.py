"""What is made of a run at its end: evaluations, numbers, pictures and the last checkpoint."""

import dataclasses
import functools
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from agents import TrainProgress, restore, save, write_whole
from agents.runs._metadata import read_metadata
from agents.runs._run_files import FILM_FILE
from agents.runs.display._episode import film_episode
from agents.runs.display._errors import Failures
from agents.runs.display._report import draw_curve, reached
from agents.runs.folders._folder import short_name
from agents.runs.folders._results import write_json
from agents.runs.settings._file import dump
from eqgrid.grid import RandomLayouts

from ._curriculum import summary
from ._evaluator import Evaluator, frozen
from ._hooks import speed
from ._policies import POLICY_FILE, Description, keep_best, keep_last
from ._run import Run


@final
@dataclasses.dataclass(frozen=True)
class Conclusion:
    """The end of a run, in an order in which the most precious comes first: the last state, the
    numbers, the pictures. Each is written for itself, so that one that fails takes no other along.

    A signal that arrives now skips the evaluations and the pictures that are still to come.
    """

    run: Run
    progress: TrainProgress
    evaluator: Evaluator
    failures: Failures
    film: bool = True

    def conclude(self) -> dict[str, Any]:
        """**Returns:** what is in `result.json`."""
        last = {"update": self.progress.updates, **self.evaluator.rows[-1]}
        last |= Description(self.run)(self.progress.state)
        self._save("last", self.progress.state, last)
        settings = self.run.folder / "config.toml"
        if not os.path.exists(settings):  # somebody removed it
            with self.failures.writing(settings):
                write_whole(settings, dump(self.run.settings).encode())
        result = self._result()
        with self.failures.writing(self.run.folder / "result.json"):
            write_json(self.run.folder / "result.json", result)
        last |= {name: result[name] for name in ("eval_return_mean", "eval_return_std")}
        self._save("last", self.progress.state, last)
        with self.failures.writing(self.run.folder / POLICY_FILE):
            if result["policy"] == "best":
                keep_best(self.run)
            else:
                keep_last(self.run, self.progress.state, last)
        if not self._interrupted_again():
            self._draw(result["optimum"])
        return result

    def _interrupted_again(self) -> bool:
        return self.run.process.interrupted_again

    def _result(self) -> dict[str, Any]:
        config, progress = self.run.config, self.progress
        returns = self._play(progress, 1)
        row = self.evaluator.rows[-1]
        mean = row["eval_return_mean"] if returns is None else float(returns.mean())
        std = row["eval_return_std"] if returns is None else float(returns.std())
        optimum, best = config.env.optimum, self._best()
        best_mean = best["best_return_mean"]
        return {
            "algorithm": self.run.algorithm,
            "world": config.env.name,
            "layout": config.env.title,
            "dynamics": config.env.rules,
            "seeds": [config.seed],
            "env_steps": progress.env_steps,
            "env_steps_of_others": self.run.steps_of_others,
            "wall_seconds": round(self.run.seconds(), 2),
            "compile_seconds": round(progress.compile_seconds, 2),
            "train_seconds": round(self.run.history.train_seconds + progress.train_seconds, 2),
            "steps_per_second": round(speed(progress), 1),
            "eval_return_mean": mean,
            "eval_return_std": std,
            "eval_episodes": config.eval_episodes if returns is None else len(returns),
            **best,
            "policy": "best" if best_mean is not None and best_mean >= mean else "last",
            "optimum": optimum,
            "eval_fraction_of_optimum": mean / optimum if optimum else None,
            "reached": reached(self.evaluator.rows, config.env.threshold),
            "layouts": self._returns_in(self.run.plan.parts),
            "zero_shot": self._returns_in(config.env.zero_shot()),
            "stages": summary(self.run.stages, self.evaluator.rows),
        }

    def _best(self) -> dict[str, Any]:
        """The best checkpoint, read back and evaluated again: that it was the best of many
        evaluations was partly luck, which does not come back.
        """
        path = self.run.folder / "checkpoints" / "best.safetensors"
        best = {"best_return_mean": None, "best_return_std": None, "best_env_steps": None}
        if self._interrupted_again() or not os.path.exists(path):
            return best
        with self.failures.writing(path):
            state, metadata = restore(path, self.progress.state), read_metadata(path)
            returns = self._play(dataclasses.replace(self.progress, state=state), 2)
            if returns is not None:
                mean, std = float(returns.mean()), float(returns.std())
                best |= {"best_return_mean": mean, "best_return_std": std}
                best["best_env_steps"] = metadata["env_steps"]
                chosen_by = metadata.get("chosen_by", metadata["eval_return_mean"])
                again = {"eval_return_mean": mean, "eval_return_std": std, "chosen_by": chosen_by}
                save(path, state, {**metadata, **again})
        return best

    def _play(self, progress: TrainProgress, number: int) -> np.ndarray | None:
        """The returns of the final episodes, or `None` when there is no time for them."""
        if self._interrupted_again():
            return None
        repeats = math.ceil(self.run.config.final_episodes / self.run.config.eval_episodes)
        state = progress.state
        number += progress.num_updates  # no evaluation before had it
        return self.evaluator.play(
            state.policy, state.runner.env_state, number, repeats, self._interrupted_again
        )

    def _returns_in(self, worlds: Mapping[str, RandomLayouts]) -> dict[str, float]:
        """The mean returns in other worlds, by name."""
        means = {}
        for name, world in worlds.items():
            if self._interrupted_again():
                break
            env = self.run.config.eval_env(world, self.run.config.eval_episodes)
            evaluator = Evaluator(env, self.evaluator.key, self.evaluator.clock)
            state = self.progress.state
            returns = evaluator.play(
                state.policy, state.runner.env_state, self.progress.num_updates
            )
            means[name] = float(returns.mean())
        return means

    def _draw(self, optimum: float | None) -> None:
        config = self.run.config
        title = (
            f"{self.run.algorithm.upper()} in {short_name(config.env.title)}, seed {config.seed}"
        )
        with self.failures.writing(self.run.folder / "curve.png"):
            draw_curve(self.run.folder / "curve.png", self.evaluator.rows, title, optimum)
        if self.film and config.env.has_film and not self._interrupted_again():
            self.draw_film(self.run.folder / FILM_FILE)

    def draw_film(self, path: Path) -> None:
        """Writes a film of an episode of the last policy."""
        config, state, world = self.run.config, self.progress.state, self.run.plan.world
        env = frozen(config.eval_env(world, 1), state.runner.env_state)
        draw = functools.partial(config.env.draw, world)
        with self.failures.writing(path):
            film = film_episode(state.policy, env, draw, self.run.keys[2], config.env.horizon)
            write_whole(path, film)

    def _save(self, name: str, state: Any, metadata: dict[str, Any]) -> None:
        path = self.run.folder / "checkpoints" / f"{name}.safetensors"
        with self.failures.writing(path):
            save(path, state, metadata)
