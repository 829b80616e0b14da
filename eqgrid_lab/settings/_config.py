"""Parses the command line of a run, and checks its settings before anything is built."""

import dataclasses
import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from agents.files import shipped
from eqgrid.envs.overcooked import REFERENCE_NAMES

from ..base import RESULTS, Named, UsageError, as_usage_error, has_checkpoint, seed_folders
from ..worlds import Kitchen, world_settings
from ._experiment import Experiment
from ._flags import (
    LARGEST_SEED,
    as_given,
    at_home,
    check_limits,
    cli,
    flags,
    has_flag,
    value_after,
    values_after,
)
from ._network import check_network, with_network
from ._policy_settings import default_settings
from ._script import command_of
from ._stored import TUNED, load

E = TypeVar("E", bound=Experiment)

CONFIGS = shipped("configs")
"""The folder of the bundled settings files, for `--config tuned` and `--config people`."""
PEOPLE = "people"
"""The value of `--config` for the settings of agents that cook with people."""
_LARGEST_COUNT = 2**31 - 1
OF_THE_PROCESS = ("--resume", "--auto-resume", "--total-steps", "--stop-at-return", "--patience")
OF_THE_PROCESS += ("--max-kl", "--checkpoint-every", "--log", "--max-hours", "--profile")
OF_THE_PROCESS += ("--devices", "--distributed")
"""The flags that may change when a run is resumed: they set when it ends, what it writes, and on
which devices it runs.
"""


def parse(experiment: type[E], args: Sequence[str]) -> E:
    """Parses a command line, on top of the settings file that it names, if any.

    **Arguments:**

    - `experiment`: the class that a script defines.
    - `args`: the command line.

    **Returns:** the checked settings.

    **Raises:** `UsageError` when a setting is unknown, malformed or out of range.
    """
    args = _auto_resumed(at_home(args))
    file, run = value_after("--config", args), value_after("--resume", args)
    network, world = value_after("--network", args), value_after("--env.name", args)
    networks = (network or "", *values_after("--partners.networks", args))
    named = Named(worlds=(world or "",), networks=networks)
    before = None if run is None else load(Path(run) / "config.toml", experiment, named)
    if before is not None and world not in (None, before.env.name):
        raise _cannot_change("--env.name")
    if file is not None:
        default = load(_settings_file(experiment, args, file), experiment, named, network, world)
    elif before is not None:
        default = before
    else:
        env = experiment().env  # a script may change the defaults of its world
        env = env if world in (None, env.name) else world_settings(world, named)
        default = with_network(default_settings(experiment, env), network)
    config = cli(default, args, command_of(experiment), inspect.cleandoc(experiment.__doc__ or ""))
    if before is not None:
        config = _check_resumed(before, config)
    check(config)
    return config


def _auto_resumed(args: list[str]) -> list[str]:
    """A command line with --resume or --overwrite in addition to --auto-resume, if it is given.

    **Raises:** `UsageError` when --out is missing, when --resume is given, too, or when --out has
    results without a checkpoint, which a new run would replace.
    """
    if not has_flag("--auto-resume", args) or has_flag("--sweep", args):
        return args
    out = value_after("--out", args)
    if out is None or has_flag("--resume", args):
        raise UsageError("--auto-resume resumes the run in --out: add --out, without --resume.")
    folder = Path(out)
    if has_checkpoint(folder):
        return [*args, "--resume", out]
    found = (x / name for x in (folder, *seed_folders(folder)) for name in RESULTS)
    if (result := next(filter(os.path.lexists, found), None)) and not has_flag("--overwrite", args):
        raise UsageError(
            f"{str(result)!r} is a result without a checkpoint to resume: choose another --out, or "
            "add --overwrite to replace it."
        )
    return [*args, "--overwrite"]  # a run may have been killed before its first checkpoint


def _settings_file(experiment: type[Experiment], args: Sequence[str], name: str) -> Path:
    """The file that `--config` names: a path, or the name of a bundled file.

    **Raises:** `UsageError` when there are no tuned settings for the kitchen of a command line.
    """
    if name == PEOPLE and not Path(name).exists():
        return CONFIGS / f"{PEOPLE}.toml"
    if name != TUNED:
        return Path(name)
    layout = value_after("--env.layout", args) or Kitchen.layout
    stem = f"{experiment.algorithm}-{REFERENCE_NAMES.get(layout, layout)}"
    files = {path.stem: path for path in sorted(CONFIGS.glob(f"{experiment.algorithm}-*.toml"))}
    if stem not in files or value_after("--env.name", args) not in (None, Kitchen.name):
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


def _check_resumed(before: E, config: E) -> E:
    """Checks that a resumed run keeps its settings. All flags of the command that started the run
    may be given again.

    **Arguments:**

    - `before`: the settings in the folder of the run.
    - `config`: the settings of the command line.

    **Returns:** the settings of the resumed run.

    **Raises:** `UsageError` when a setting differs that a resumed run cannot change.
    """
    run = config.resume or Path()
    if (config.out or run).resolve() != run.resolve():
        raise _cannot_change("--out")
    changes = {"config": before.config, "out": None, "overwrite": False}
    if config.seeds_at_once is None:  # the run may have chosen a number itself
        changes["seeds_at_once"] = before.seeds_at_once
    config = dataclasses.replace(config, **changes, partners=config.partners.found())
    may_change = {*OF_THE_PROCESS, *(["--curriculum"] if before.stage else [])}
    values_before = dict(flags(before))
    for flag, value in flags(config):
        if flag not in may_change and value != values_before.get(flag):
            raise _cannot_change(flag)
    return config


def _cannot_change(flag: str) -> UsageError:
    return UsageError(
        f"{flag} cannot change with --resume: a run continues with its own settings, and only "
        f"{', '.join(OF_THE_PROCESS[2:])} may change."
    )


def check(config: Experiment) -> None:
    """Checks the ranges of settings, and their combinations.

    **Arguments:**

    - `config`: the settings.

    **Raises:** `UsageError` with a message that names the flag.
    """
    check_limits(config)
    config.partners.check()
    check_network(config)
    with as_usage_error(script=type(config).__module__):
        config.env.check()
        config.check()
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
    for sentence, is_wrong in _conflicts(config).items():
        if is_wrong:
            raise UsageError(sentence)


def _conflicts(config: Experiment) -> dict[str, bool]:
    """Error messages about flags that are not supported together, and whether each applies."""
    sweep, many = config.sweep is not None, config.num_seeds > 1
    flag, alone = "--sweep" if sweep else "--num-seeds", not (sweep or many)
    curriculum = config.curriculum is not None or bool(config.stage)
    return {
        "--num-seeds cannot be given with --sweep: write 'seeds' into its file.": sweep and many,
        "--seeds-at-once needs --num-seeds.": config.seeds_at_once is not None and not many,
        "--overwrite cannot be given with --sweep: choose another --out.": (
            sweep and config.overwrite
        ),
        "--auto-resume cannot be given with --sweep, which always continues.": (
            sweep and config.auto_resume
        ),
        "--curriculum cannot be given with --sweep, which has no stages.": sweep and curriculum,
        "--devices cannot be given with --sweep, except --devices 1.": (
            sweep and config.devices not in (None, 1)
        ),
        "--log wandb cannot be given with --sweep: use optuna-dashboard.": (
            sweep and "wandb" in config.log
        ),
        "--distributed cannot be given with --sweep: start the same command on each host.": (
            config.distributed and sweep
        ),
        f"--max-kl cannot be given with {flag}, where runs end together.": (
            config.max_kl is not None and not alone
        ),
        f"--seed {config.seed} is too large for --num-seeds {config.num_seeds}.": (
            config.seed + config.num_seeds - 1 > LARGEST_SEED
        ),
        "--distributed trains on all devices of all processes: leave out --devices, or give "
        "--devices all.": config.distributed and config.devices not in (None, 1, "all"),
    }
