"""What a run prints while it trains: a header, and progress as a bar in a terminal or as lines."""

from typing import TYPE_CHECKING, final

import jax
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

from ..folders import short_name
from ..settings import changed_by_world
from ..show import agents_text, return_text
from ._evaluation import Columns

if TYPE_CHECKING:
    from ._run import Run


def print_header(run: "Run") -> None:
    """Prints the name of a run, its settings file, the defaults of its world, and its number of
    steps if it is rounded.

    **Arguments:**

    - `run`: the run.
    """
    config, steps = run.config, run.num_updates * run.steps_per_update
    rules = f" ({config.env.rules})" if config.env.rules else ""
    seeds, each = f"seed {config.seed}", ""
    if len(run.seeds) > 1:
        seeds, each = f"seeds {run.seeds[0]} to {run.seeds[-1]} at once", " of each seed"
        if run.mesh is not None:
            kind = "cores" if jax.default_backend() == "cpu" else "devices"
            seeds += f" on {run.mesh.size} {kind}"
    lines = [
        f"[bold]{config.algorithm}[/] in [bold]{escape(short_name(config.env.title))}[/]{rules}, "
        f"{seeds}, {config.num_envs} environments{each}: writing to {escape(str(run.folder))}"
    ]
    if run.updates:
        lines.append(
            f"continuing after {run.env_steps:,} steps{each}; annealed settings reach their end at "
            f"step {steps:,}"
        )
    if steps != config.total_steps:
        lines.append(
            f"training {steps:,} steps{each}: --total-steps {config.total_steps} is rounded up to "
            f"whole updates of {run.steps_per_update:,} steps"
        )
    if config.config is not None:
        lines.append(f"settings: {escape(str(config.config))}")
    if changed := changed_by_world(config):
        lines.append(f"defaults of {config.env.name}: {escape(changed)}")
    lines += map(escape, config.env.remarks())
    num_envs = config.num_envs * len(run.seeds)
    if jax.default_backend() != "cpu" and num_envs < _ENVS_OF_GPU:
        lines.append(
            f"{num_envs} environments leave a GPU idle most of the time: --num-envs {_ENVS_OF_GPU} "
            "should take little longer per update"
        )
    for line in lines:
        run.console.print(line, highlight=False)


_ENVS_OF_GPU = 2048
"""With fewer environments, a GPU is mostly idle, since each kernel takes at least 2 us. On an H100,
an update should take 32 ms with 2,048 environments, and 20 ms with 64 (`gpu_programs.py`).
"""


@final
class Display:
    """Shows the progress of a run: a bar in a terminal, and a line at every twentieth of training
    elsewhere.
    """

    def __init__(self, console: Console):
        self.console, self.next = console, 0.0
        self.live = console.is_terminal and not console.is_dumb_terminal
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
            console=console,
            redirect_stderr=False,  # standard error may be another file than the console
            disable=not self.live,
        )

    def start(self, steps: int) -> None:
        """Shows that the training loop compiles. `steps` is the number of steps of all seeds."""
        self.task = self.bar.add_task("compiling", total=steps, numbers="the training loop")
        self.bar.start()
        if not self.live:
            self.console.print("compiling the training loop")

    def stop(self) -> None:
        """Ends the progress."""
        self.bar.stop()

    def show(self, run: "Run", result: Columns) -> None:
        """Shows the steps of all seeds, steps per second, the mean return and the time left."""
        number = len(run.seeds)
        steps, speed = number * run.env_steps, number * run.speed()
        means = {name: float(np.mean(x)) for name, x in result.items()}
        shown = f"{return_text(means['eval_return_mean']):>6}[/]{agents_text(means)}"
        numbers = f"{speed:>8,.0f} steps/s  return [bold]{shown}"
        self.bar.update(self.task, completed=steps, description="training ", numbers=numbers)
        if self.live:
            return
        done = run.updates / run.num_updates
        if done >= self.next or run.updates == run.num_updates:
            self.next = done + 0.05
            left = (run.num_updates * run.steps_per_update * number - steps) / speed
            self.console.print(
                f"{done:4.0%}  {steps:>10,} steps  {numbers}  {left:5.0f} s left", highlight=False
            )
