"""Parses the command line of a run, and checks its settings before anything is built."""

import dataclasses
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agents.files import shipped
from eqgrid.envs.overcooked import REFERENCE_NAMES

from ..base import SETTINGS_FILE, UsageError, as_usage_error, print_error
from ..worlds import Kitchen, world_settings
from ._experiment import Experiment
from ._flags import (
    LARGEST_SEED,
    as_given,
    at_home,
    check_limits,
    cli,
    flags,
    given,
)
from ._policy_settings import PolicySettings, default_settings
from ._script import command_of
from ._stored import TUNED, load

S = TypeVar("S", bound=PolicySettings)
E = TypeVar("E", bound=Experiment)

CONFIGS = shipped("configs")
"""The folder of the bundled settings files, for `--config tuned` and `--config people`."""
PEOPLE = "people"
"""The value of `--config` for the settings of agents that cook with people."""
_LARGEST_COUNT = 2**31 - 1
OF_THE_PROCESS = ("--resume", "--resume-changed", "--out", "--total-steps", "--log", "--devices")
"""The flags that may change when a run is resumed: they set when it ends, what it writes, and on
which devices it runs.
"""


def parse(experiment: type[S], args: Sequence[str] | None = None) -> S:
    """Parses the command line of a script. If a flag, a value or a file is wrong, it prints one
    sentence and exits with code 2.

    **Arguments:**

    - `experiment`: the class that the script defines.
    - `args`: the command line; by default, that of the process.

    **Returns:** the checked settings.
    """
    try:
        return read_settings(experiment, sys.argv[1:] if args is None else args)
    except UsageError as error:
        sys.exit(print_error(str(error), 2))


def read_settings(experiment: type[S], args: Sequence[str]) -> S:
    """Parses a command line. The defaults are those of the script, then of its world, then of the
    run that `--resume` continues or of the file `--config`.

    **Arguments:** as in `parse`.

    **Returns:** the checked settings.

    **Raises:** `SystemExit` as in `cli`, and `UsageError` when a file or a setting is wrong.
    """
    args = at_home(args)
    words = given(args)
    file, world = words.get("--config"), words.get("--env.name")
    run = _resumed(words)
    before = None if run is None else load(run / SETTINGS_FILE, experiment, world)
    if run and before and world not in (None, before.env.name):
        raise _differs(run, [("--env.name", before.env.name, world)])
    if file is not None:
        path = _settings_file(experiment, file, world, words.get("--env.layout"))
        default = load(path, experiment, world, world)
    elif before is not None:
        default = before
    else:
        env = experiment().env  # a script may change the defaults of its world
        env = env if world in (None, env.name) else world_settings(world)
        default = default_settings(experiment, env)
    config = cli(default, args, command_of(experiment), inspect.cleandoc(experiment.__doc__ or ""))
    if run and isinstance(config, Experiment) and isinstance(before, Experiment):
        config = _check_resumed(run, before, config)
    check(config)
    return config


def _resumed(words: Mapping[str, str]) -> Path | None:
    """The folder of the run that a command line resumes; `None` for a new run.

    **Raises:** `UsageError` when --resume is given without --out.
    """
    if "--resume" not in words:
        return None
    if "--out" not in words:
        raise UsageError("--resume continues the run in --out: add --out.")
    out = Path(words["--out"])
    return out if (out / SETTINGS_FILE).exists() else None


def _settings_file(
    experiment: type[PolicySettings], name: str, world: str | None, layout: str | None
) -> Path:
    """The file that `--config` names: a path, or the name of a bundled file.

    **Raises:** `UsageError` when there are no tuned settings for the kitchen of a command line.
    """
    if name == PEOPLE and not Path(name).exists():
        return CONFIGS / f"{PEOPLE}.toml"
    if name != TUNED:
        return Path(name)
    layout = layout or Kitchen.layout
    stem = f"{experiment.algorithm}-{REFERENCE_NAMES.get(layout, layout)}"
    files = {path.stem: path for path in sorted(CONFIGS.glob(f"{experiment.algorithm}-*.toml"))}
    if stem not in files or world not in (None, Kitchen.name):
        known = ", ".join(stem.partition("-")[2] for stem in files) or "no kitchen"
        raise UsageError(
            f"--config {TUNED} is for kitchens with tuned settings. For {experiment.algorithm}, "
            f"these are: {known}. Leave it out for the plain settings."
        )
    return files[stem]


def changed_by_world(config: Experiment) -> str:
    """The settings of a run whose defaults depend on its world, as flags, each with the default in
    other worlds. Settings that the user has changed are left out.
    """
    elsewhere = dict(flags(type(config)(env=config.env)))
    here, now = dict(flags(default_settings(type(config), config.env))), dict(flags(config))
    words = []
    for flag, value in here.items():
        usual = elsewhere[flag]
        if value != usual and now[flag] == value:
            text = as_given(flag, usual).removeprefix(f"{flag} ")
            text = ("on" if usual else "off") if isinstance(usual, bool) else text
            words.append(f"{as_given(flag, value)} (elsewhere {text})")
    return ", ".join(words)


def _check_resumed(run: Path, before: Experiment, config: E) -> E:
    """Checks that a resumed run keeps its settings. All flags of the command that started the run
    may be given again.

    **Arguments:**

    - `run`: the folder of the run.
    - `before`: the settings in this folder.
    - `config`: the settings of the command line.

    **Returns:** the settings of the resumed run.

    **Raises:** `UsageError` when settings differ that a resumed run cannot change.
    """
    changes: dict[str, Any] = {"config": before.config}
    config = dataclasses.replace(config, **changes, partners=config.partners.found())
    values_before = dict(flags(before))
    differ = [
        (flag, values_before.get(flag), value)
        for flag, value in flags(config)
        if flag not in OF_THE_PROCESS and value != values_before.get(flag)
    ]
    if differ and not config.resume_changed:
        raise _differs(run, differ)
    return config


def _differs(run: Path, differ: Sequence[tuple[str, object, object]]) -> UsageError:
    """The error about settings of a resumed run that differ, with the old and the new values."""
    names = (f"{flag} (was {old!r:.60}, is {new!r:.60})" for flag, old, new in differ)
    return UsageError(
        f"The run in {str(run)!r} has other settings: {', '.join(names)}. Leave out these flags, "
        "choose another --out, or add --resume-changed to continue with the new settings."
    )


def check(config: PolicySettings) -> None:
    """Checks the ranges of settings, and their combinations.

    **Arguments:**

    - `config`: the settings.

    **Raises:** `UsageError` with a message that names the flag.
    """
    check_limits(config)
    if isinstance(config, Experiment):
        config.partners.check()
    with as_usage_error(scripts={x.__module__ for x in type(config).__mro__}):
        config.env.check()
        config.check()
    if isinstance(config, Experiment):
        _check_steps(config)
    if config.seed + config.num_seeds - 1 > LARGEST_SEED:
        raise UsageError(f"--seed {config.seed} is too large for --num-seeds {config.num_seeds}.")


def _check_steps(config: Experiment) -> None:
    """**Raises:** `UsageError` when there are too many steps for 32-bit integers."""
    steps = config.num_envs * config.ppo.rollout_length
    if steps > _LARGEST_COUNT:
        raise UsageError(
            f"A rollout of {steps:,} steps is too long: lower --num-envs or --ppo.rollout-length."
        )
    updates = -(-config.total_steps // steps)
    if updates * config.ppo.num_epochs * config.ppo.num_minibatches > _LARGEST_COUNT:
        raise UsageError(
            f"{updates:,} updates exceed the limit of gradient steps: lower --total-steps, "
            "--ppo.num-epochs or --ppo.num-minibatches, or raise --num-envs."
        )
