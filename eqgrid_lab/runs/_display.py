"""The progress display of a run: a bar in a terminal, and lines elsewhere."""

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Protocol, final

import jax
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

from agents import TrainProgress

from ..settings import Experiment, changed_by_world
from ..show import agents_text, return_text
from ._hooks import speed
from ._run import Plan


class Display(Protocol):
    """The interface of progress displays, which are hooks of `train`."""

    def start(self, total_steps: int) -> None: ...
    def __call__(self, progress: TrainProgress) -> None: ...
    def stop(self) -> None:
        """Ends the display; does nothing by default."""


def open_console() -> Console:
    """The console for standard output, 200 characters wide if it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 200, emoji=False)


def print_preparations(
    console: Console,
    config: Experiment,
    programs: str,
    lengths: Iterable[tuple[int, Plan]],
    whose: str = "",
) -> None:
    """Prints the settings file and the defaults of the world that a run uses, its number of steps
    if it is rounded, and further remarks.

    **Arguments:**

    - `console`: the console.
    - `config`: the settings of the run.
    - `programs`: the message of `keep_compiled_programs`.
    - `lengths`: the `total_steps` and the plan of each of several runs.
    - `whose`: a text to print after the number of steps, such as ` of each seed`.
    """
    planned = [(total, plan.num_updates, plan.steps_per_update) for total, plan in lengths]
    for total, updates, steps in dict.fromkeys(planned):
        if updates * steps != total:
            console.print(
                f"training {updates * steps:,} steps{whose}: --total-steps {total} is rounded up "
                f"to whole updates of {steps:,} steps",
                highlight=False,
            )
    if config.config is not None:
        console.print(f"settings: {escape(str(config.config))}", highlight=False)
    if changed := changed_by_world(config):
        console.print(f"defaults of {config.env.name}: {escape(changed)}", highlight=False)
    for sentence in config.env.remarks():
        console.print(escape(sentence), highlight=False)
    num_envs = config.num_envs * config.num_seeds
    if jax.default_backend() != "cpu" and num_envs < _ENVS_OF_GPU:
        console.print(
            f"{num_envs} environments leave a GPU idle most of the time: "
            f"--num-envs {_ENVS_OF_GPU} should take little longer per update",
            highlight=False,
        )
    console.print(escape(programs), style="dim", highlight=False)


_ENVS_OF_GPU = 2048
"""With fewer environments, a GPU is mostly idle, since each kernel takes at least 2 us. On an H100,
an update should take 32 ms with 2,048 environments, and 20 ms with 64 (`gpu_programs.py`).
"""


def open_display(console: Console) -> Display:
    """A `LiveBar` in a terminal, and a `LogDisplay` elsewhere."""
    return (LiveBar if is_live(console) else LogDisplay)(console)


def progress_bar(console: Console, *, disable: bool = False) -> Bar:
    """A progress bar with a description, the percentage, the field `numbers`, and the time left.

    **Arguments:**

    - `console`: the console.
    - `disable`: whether to show nothing.
    """
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[numbers]}"),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
        console=console,
        redirect_stderr=False,  # standard error may be another file than the console
        disable=disable,
    )


def is_live(console: Console) -> bool:
    """Whether a console can show a bar, which needs a terminal."""
    return console.is_terminal and not console.is_dumb_terminal


@contextlib.contextmanager
def still(console: Console, doing: str, seconds: float = 10) -> Iterator[None]:
    """Context manager that prints a line every few seconds, if the console can show no bar.

    **Arguments:**

    - `console`: the console.
    - `doing`: the activity of the code inside, such as `compiling`, with which each line begins.
    - `seconds`: the time between two lines.
    """
    done, begin = threading.Event(), time.perf_counter()

    def print_lines() -> None:
        while not done.wait(seconds):
            passed = time.perf_counter() - begin
            console.print(f"{doing}, {passed:.0f} s so far", highlight=False)

    if not is_live(console):  # in a thread, because the main thread waits for XLA
        threading.Thread(target=print_lines, daemon=True).start()
    try:
        yield
    finally:
        done.set()


@final
class LiveBar(Display):
    """A progress bar, for a terminal."""

    def __init__(self, console: Console):
        self.bar = progress_bar(console)

    def start(self, total_steps: int) -> None:
        self.task = self.bar.add_task("compiling", total=total_steps, numbers="the training loop")
        self.bar.start()

    def __call__(self, progress: TrainProgress) -> None:
        numbers = (
            f"{speed(progress):,.0f} steps/s  return "
            f"[bold]{return_text(progress.measured['eval_return_mean'])}[/]"
            f"{agents_text(progress.measured)}"
        )
        self.bar.update(
            self.task, completed=progress.env_steps, description="training ", numbers=numbers
        )

    def stop(self) -> None:
        self.bar.stop()


@final
class LogDisplay(Display):
    """Prints lines for a file or a pipe: at intervals of time while the training loop compiles, and
    then at intervals of training steps.
    """

    def __init__(self, console: Console, every: float = 0.05, seconds: float = 10):
        """**Arguments:**

        - `console`: the console.
        - `every`: the share of training between two lines.
        - `seconds`: the time between two lines while the training loop compiles.
        """
        self.console, self.every, self.seconds = console, every, seconds
        self.next, self.waiting = 0.0, contextlib.ExitStack()

    def start(self, total_steps: int) -> None:
        self.console.print("compiling the training loop")
        self.waiting.enter_context(still(self.console, "compiling", self.seconds))

    def stop(self) -> None:
        self.waiting.close()

    def __call__(self, progress: TrainProgress) -> None:
        self.waiting.close()
        done = progress.env_steps / progress.num_env_steps
        if done < self.next and progress.updates < progress.num_updates:
            return
        self.next = done + self.every
        left = (progress.num_env_steps - progress.env_steps) / speed(progress)
        self.console.print(
            f"{done:4.0%}  {progress.env_steps:>10,} steps  {speed(progress):>8,.0f} steps/s  "
            f"return {return_text(progress.measured['eval_return_mean']):>6}"
            f"{agents_text(progress.measured)}  {left:5.0f} s left",
            highlight=False,
        )


def show_sum(display: Display, number: int, progress: TrainProgress) -> None:
    """A hook that shows the summed steps of runs that are trained together.

    **Arguments:**

    - `display`: the display to call.
    - `number`: the number of runs.
    - `progress`: the progress of each run.
    """
    steps = ("env_steps", "num_env_steps", "env_steps_before")
    summed = {name: number * getattr(progress, name) for name in steps}
    display(dataclasses.replace(progress, **summed))
