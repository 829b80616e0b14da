"""Parsing the command line of a run, and checking its settings before anything is built."""

import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from agents.files import shipped
from eqgrid.envs.overcooked import REFERENCE_NAMES

from ..base import Named, UsageError, as_usage_error
from ..show import check_installed
from ..worlds import Kitchen, WorldSettings, world_settings
from ._experiment import Experiment
from ._file import load
from ._flags import at_home, cli, value_after, values_after
from ._limits import LARGEST_SEED, as_given, check_limits, flags
from ._network import check_network, with_network
from ._page import command_of
from ._policy_settings import default_settings
from ._stored import TUNED

E = TypeVar("E", bound=Experiment)

CONFIGS = shipped("configs")
"""The folder of the files for `--config tuned`, each tuned for one kitchen, and of `PEOPLE`."""
PEOPLE = "people"
"""The name of the settings for agents that cook with people."""
_LARGEST_COUNT = 2**31 - 1
OF_THE_PROCESS = ("--resume", "--total-steps", "--stop-at-return", "--patience", "--max-kl")
OF_THE_PROCESS += ("--checkpoint-every", "--log", "--max-hours", "--profile", "--devices")
OF_THE_PROCESS += ("--distributed",)
"""The flags that may change when a run is resumed: when it ends, and what it writes."""


def parse(experiment: type[E], args: Sequence[str]) -> E:
    """Parses a command line, on top of the settings file that it names, if any.

    **Arguments:**

    - `experiment`: the class that a page defines.
    - `args`: the command line.

    **Returns:** the checked settings.

    **Raises:** `UsageError` when a setting is unknown, malformed or out of range.
    """
    args = at_home(args)
    file, run, named = value_after("--config", args), value_after("--resume", args), named_in(args)
    network, world = value_after("--network", args), value_after("--env.name", args)
    before = None if run is None else load(Path(run) / "config.toml", experiment, named)
    if before is not None and world not in (None, before.env.name):
        raise _cannot_change("--env.name")
    if file is not None:
        default = load(_settings_file(experiment, args, file), experiment, named, network, world)
    elif before is not None:
        default = before
    else:
        default = default_settings(experiment, _world(experiment, world, named))
        default = with_network(default, network)
    config = cli(default, args, command_of(experiment), inspect.cleandoc(experiment.__doc__ or ""))
    if before is not None:
        config = _resumed(before, config)
    check(config)
    return config


def named_in(args: Sequence[str]) -> Named:
    """What the command line of a page names, of the code of the user."""
    names = [value_after(flag, args) or "" for flag in ("--env.name", "--network")]
    partners = values_after("--partners.networks", args)
    return Named(worlds=(names[0],), networks=(names[1], *partners))


def _settings_file(experiment: type[Experiment], args: Sequence[str], name: str) -> Path:
    """The file that `--config` names: a path, or the name of one that comes with eqgrid.

    **Raises:** `UsageError` as `_tuned`.
    """
    if name == TUNED:
        return _tuned(experiment, args)
    ours = CONFIGS / f"{PEOPLE}.toml"
    return ours if name == PEOPLE and not Path(name).exists() else Path(name)


def _tuned(experiment: type[Experiment], args: Sequence[str]) -> Path:
    """The file with the tuned settings for the kitchen of a command line.

    **Raises:** `UsageError` when there is none.
    """
    layout = value_after("--env.layout", args) or Kitchen.layout
    layout = REFERENCE_NAMES.get(layout, layout)
    found = {path.stem: path for path in sorted(CONFIGS.glob(f"{experiment.algorithm}-*.toml"))}
    name = f"{experiment.algorithm}-{layout}"
    if name not in found or value_after("--env.name", args) not in (None, Kitchen.name):
        known = ", ".join(stem.partition("-")[2] for stem in found) or "no kitchen"
        raise UsageError(
            f"--config {TUNED} is for kitchens with tuned settings. With {experiment.algorithm}, "
            f"they are: {known}. Leave it out for the plain settings."
        )
    return found[name]


def _world(experiment: type[Experiment], name: str | None, named: Named) -> WorldSettings:
    """The default settings of the named world, or of the page's default world.

    **Raises:** `UsageError` when there is no such world.
    """
    own = experiment().env
    return own if name in (None, own.name) else world_settings(name, named)


def changed_by_world(config: Experiment) -> str:
    """The defaults that the world of a run replaces and that are in effect, as flags, each with the
    default of other worlds.
    """
    plain = dict(flags(type(config)(env=config.env)))
    own = dict(flags(default_settings(type(config), config.env)))
    now = dict(flags(config))
    changed = {flag: x for flag, x in own.items() if x != plain[flag] and now[flag] == x}

    def usual(flag: str) -> str:
        value = plain[flag]
        if isinstance(value, bool):
            return "on" if value else "off"
        return as_given(flag, value).removeprefix(f"{flag} ")

    return ", ".join(f"{as_given(x, changed[x])} (elsewhere {usual(x)})" for x in changed)


def _resumed(before: E, config: E) -> E:
    """The settings of a resumed run. The command that started it may be given again.

    **Arguments:**

    - `before`: the settings in its folder.
    - `config`: the settings of the command line.

    **Raises:** `UsageError` when a setting differs that a resumed run cannot change.
    """
    run = config.resume or Path()
    if (config.out or run).resolve() != run.resolve():
        raise _cannot_change("--out")
    own = {"config": before.config, "out": None, "overwrite": False}
    config = dataclasses.replace(config, **own, partners=config.partners.found())
    may_change = {*OF_THE_PROCESS, *(["--curriculum"] if before.stage else [])}
    for flag, value in flags(config):
        if flag not in may_change and value != dict(flags(before)).get(flag):
            raise _cannot_change(flag)
    return config


def _cannot_change(flag: str) -> UsageError:
    return UsageError(
        f"{flag} cannot change with --resume: a run continues with its own settings, and only "
        f"{', '.join(OF_THE_PROCESS[1:])} may change."
    )


def check(config: Experiment) -> None:
    """Checks the ranges of settings, and their combinations.

    **Arguments:**

    - `config`: the settings.

    **Raises:** `UsageError` with a message that names the flag.
    """
    check_limits(config)
    check_installed(config.log)
    config.partners.check()
    check_network(config)
    with as_usage_error():
        config.env.check()
        config.check()
    _check_counts(config)
    if config.num_seeds > 1 or config.sweep is not None:
        _check_many(config)
    if config.distributed and config.devices not in (1, "all"):
        raise UsageError(
            "--distributed trains on all devices of all processes: leave out --devices, or "
            "give --devices all."
        )


def _check_many(config: Experiment) -> None:
    """**Raises:** `UsageError` when a flag is not supported with several seeds or a sweep."""
    flag = "--num-seeds" if config.sweep is None else "--sweep"
    if config.sweep is not None and config.num_seeds > 1:
        raise UsageError("--num-seeds cannot be given with --sweep: write 'seeds' into its file.")
    if config.sweep is not None and config.overwrite:
        raise UsageError("--overwrite cannot be given with --sweep: choose another --out.")
    if config.sweep is not None:
        if config.curriculum is not None or config.stage:
            raise UsageError("--curriculum cannot be given with --sweep, which has no stages.")
        if config.devices != 1:
            raise UsageError("--devices cannot be given with --sweep, which trains on one device.")
        if "wandb" in config.log:
            raise UsageError("--log wandb cannot be given with --sweep: use optuna-dashboard.")
    if config.distributed:
        raise UsageError(f"--distributed cannot be given with {flag}: train in one process.")
    if config.max_kl is not None:
        raise UsageError(f"--max-kl cannot be given with {flag}, where runs end together.")
    if config.seed + config.num_seeds - 1 > LARGEST_SEED:
        raise UsageError(f"--seed {config.seed} is too large for --num-seeds {config.num_seeds}.")


def _check_counts(config: Experiment) -> None:
    """**Raises:** `UsageError` when counts of steps or updates do not fit in 32 bits."""
    steps = config.num_envs * config.ppo.rollout_length
    if steps > _LARGEST_COUNT:
        raise UsageError(
            f"A rollout of {steps:,} steps is too long: lower --num-envs or --ppo.rollout-length."
        )
    updates = -(-config.total_steps // steps)
    if updates * config.ppo.num_epochs * config.ppo.num_minibatches > _LARGEST_COUNT:
        raise UsageError(
            f"{updates:,} updates are too many gradient steps to be counted: lower --total-steps, "
            "--ppo.num-epochs or --ppo.num-minibatches, or raise --num-envs."
        )
