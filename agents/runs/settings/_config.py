"""The settings of a run: command line and settings files, checked before anything is built."""

import contextlib
import dataclasses
import difflib
import io
import math
import re
import reprlib
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomli_w
import tyro
import tyro.constructors
from beartype.door import is_bearable

from agents import Hyperparameter
from agents.runs._shipped import shipped
from agents.runs.display._errors import UsageError, reason
from agents.runs.display._loggers import check_installed
from agents.runs.worlds._worlds import WORLDS, AbstractWorldConfig, Kitchen, default_world
from eqgrid import MAX_TEXT_BYTES, read_regular_text
from eqgrid.envs.overcooked import REFERENCE_NAMES

from ._experiment import Experiment
from ._limits import LARGEST_SEED, check_limits as check_limits, flags
from ._page import SHIPPED, command_of, file_of, is_shipped, page

T = TypeVar("T")

E = TypeVar("E", bound=Experiment)

CONFIGS = shipped("configs")
"""Settings that were found for a kitchen, a file for each, which `--config tuned` asks for."""
TUNED = "tuned"

_LARGEST_COUNT = 2**31 - 1
_PAGE = "page"
"""What settings files call the page that wrote them, where it is none of eqgrid's."""
_NOT_IN_FILE = ("config", "curriculum", "out", "overwrite", "resume", "max_hours", "profile")
_NOT_IN_FILE += ("sweep", "sweep_index", "distributed")
_COMMON = {"env", "ppo", "partners", "seed", "total_steps", "num_envs", "eval_every"}
OF_THE_PROCESS = ("--resume", "--total-steps", "--stop-at-return", "--patience", "--max-kl")
OF_THE_PROCESS += ("--checkpoint-every", "--log", "--max-hours", "--profile", "--devices")
OF_THE_PROCESS += ("--distributed",)
"""What may change when a run goes on: where it ends, and what is kept of it."""
_MAX_SETTINGS_BYTES = 10 * MAX_TEXT_BYTES
"""Of a `config.toml`, which has all settings, and stages in more words than their own file."""

_WITHOUT_CANDIDATES = ("--curriculum", "--sweep", "--devices", "--distributed")
"""What has no candidates."""


def parse(experiment: type[E], args: Sequence[str]) -> E:
    """Reads the command line, and the settings file that it names.

    **Raises:** `UsageError` with one sentence for what is unknown, malformed or out of range.
    """
    named, run = value_after("--config", args), value_after("--resume", args)
    default = default_settings(experiment, _world(experiment, value_after("--env.name", args)))
    # A first look, for the files with settings: what else is wrong will be said by the second.
    if named == TUNED:
        default = load(_tuned(experiment, args), experiment)
    elif named is not None:
        default = load(Path(named), experiment)
    if run is not None:
        default = load(Path(run) / "config.toml", experiment)
    config = cli(default, args, command_of(experiment), experiment.__doc__ or "")
    check(config)
    if run is not None:
        _check_resumed(default, config)
    return config


def _tuned(experiment: type[Experiment], args: Sequence[str]) -> Path:
    """The file with the settings that were found for the kitchen that a command line names.

    **Raises:** `UsageError` when there is none.
    """
    layout = value_after("--env.layout", args) or Kitchen.layout
    layout = REFERENCE_NAMES.get(layout, layout)
    found = {path.stem: path for path in sorted(CONFIGS.glob(f"{experiment.algorithm}-*.toml"))}
    name = f"{experiment.algorithm}-{layout}"
    if name not in found or value_after("--env.name", args) not in (None, Kitchen.name):
        known = ", ".join(stem.partition("-")[2] for stem in found) or "no kitchen"
        raise UsageError(
            f"--config {TUNED} is for kitchens whose settings were tuned, which are with "
            f"{experiment.algorithm}: {known}. Leave it out for the plain settings."
        )
    return found[name]


def _world(experiment: type[Experiment], name: str | None) -> AbstractWorldConfig | None:
    """The world of a name, which may be that of the page itself; nothing where none is named.

    **Raises:** `UsageError` when there is no such world.
    """
    known = name is None or name == experiment().env.name
    return None if known else default_world(name)


def default_settings(experiment: type[E], env: AbstractWorldConfig | None = None) -> E:
    """The default settings of a run.

    **Arguments:**

    - `experiment`: what is run.
    - `env`: in which world, if not in the one that it has by default. What the world has defaults
        for that the experiment does not know is left out.
    """
    world: Any = experiment().env if env is None else env
    names = {field.name for field in dataclasses.fields(experiment)}
    own = {name: value for name, value in world.run_settings.items() if name in names}
    return experiment(env=world, **own)


def changed_by_world(config: Experiment) -> str:
    """The defaults that the world of a run has of its own, as flags, as far as it keeps to them."""
    plain = dict(flags(type(config)(env=config.env)))
    own = dict(flags(default_settings(type(config), config.env)))
    now = dict(flags(config))
    changed = {flag: x for flag, x in own.items() if x != plain[flag] and now[flag] == x}
    return ", ".join(f"{flag} {x}" for flag, x in changed.items())


def value_after(flag: str, args: Sequence[str]) -> str | None:
    """What a command line says for a flag, if anything."""
    found = None  # as with every flag, the last one counts
    for i, arg in enumerate(args):
        if arg == flag and i + 1 < len(args):
            found = args[i + 1]
        if arg.startswith(f"{flag}="):
            found = arg.removeprefix(f"{flag}=")
    return found


def _check_resumed(before: Experiment, config: Experiment) -> None:
    """Refuses what would make another run of it. Only its length may change."""
    halved = 2 * before.candidate_steps > before.total_steps
    if before.candidates > 1 and halved and config.total_steps != before.total_steps:
        raise UsageError(
            "--total-steps cannot change in this run, since its candidates had half of it."
        )
    for flag, value in flags(config):
        if flag not in OF_THE_PROCESS and value != dict(flags(before))[flag]:
            raise UsageError(
                f"{flag} cannot be given with --resume: a run goes on with its own settings, and "
                f"only {', '.join(OF_THE_PROCESS[1:])} may change."
            )


_FLAG_TYPES = tyro.constructors.ConstructorRegistry()


@_FLAG_TYPES.primitive_rule
def _hyperparameter(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec | None:
    """A setting of `PPO` that may be an array is a number on the command line."""
    if info.type != Hyperparameter:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT",
        instance_from_str=lambda args: float(args[0]),
        is_instance=lambda value: isinstance(value, float),
        str_from_instance=lambda value: [str(value)],
    )


def cli(default: T, args: Sequence[str], prog: str, description: str) -> T:
    """`tyro.cli`, with its box of an error made one sentence.

    **Raises:** `UsageError`.
    """
    _check_paths(type(default), args)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                type(default),
                prog=prog,
                description=description,
                args=args,
                default=default,
                config=(tyro.conf.FlagCreatePairsOff,),
                registry=_FLAG_TYPES,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UsageError(_one_sentence(said.getvalue())) from None


def _check_paths(kind: type, args: Sequence[str]) -> None:
    """Refuses paths without a letter, such as a variable of a shell that is not set: they would
    mean the current folder.
    """
    for name, hint in typing.get_type_hints(kind).items():
        flag = "--" + name.replace("_", "-")
        if Path in (hint, *typing.get_args(hint)) and value_after(flag, args) == "":
            raise UsageError(f"{flag} is empty: name a path, or leave it out.")


def _must_be(found: re.Match[str]) -> str:
    """For a flag that takes values of several kinds, such as `{None}|FLOAT` or `INT|{all}`."""
    flag, kinds, value = found.groups()
    kinds = sorted(kinds.split("|"), key=lambda kind: kind == "{None}")  # it comes last
    words = [_KINDS.get(kind, kind.strip("{}")) for kind in kinds]
    return f"{flag} must be {' or '.join(words)}, but is {value}"


_KINDS = {"INT": "a whole number", "FLOAT": "a number"}
_PLAIN_WORDS: tuple[tuple[str, Any], ...] = (
    (r"Error parsing (\S+): invalid literal for int.*: ", r"\1 must be a whole number, but is "),
    (r"Error parsing (\S+): could not convert .*: ", r"\1 must be a number, but is "),
    (r"Error parsing (\S+): Exceeds the limit .*", r"\1 has too many digits"),
    (r"Error parsing (\S+): no type matching (\S+) could .* from \[(.*?)\]\. .*", _must_be),
    (r"Error parsing ppo: (\w+)", lambda found: "--ppo." + found[1].replace("_", "-")),
    (r"invalid choice (.*) for argument '(\S+)'.*\((.*)\)", r"\2 must be one of \3, but is \1"),
    (r"Missing value for argument '(\S+)'.*", r"\1 needs a value"),
)
"""Messages of Python and tyro, and plain sentences in their place."""


def _one_sentence(box: str) -> str:
    # The box is drawn with lines or, where a terminal knows ASCII alone, with dashes and bars.
    lines = [line.strip(" │╭╮╰╯|+") for line in box.splitlines()]
    parts = re.split(r" ?[─-]{5,} ?", " ".join(line for line in lines[1:] if line))
    parts = [part for part in parts if part]
    sentence = parts[0].strip().rstrip(".")
    for pattern, plain in _PLAIN_WORDS:
        sentence, found = re.subn(pattern, plain, sentence)
        if found:
            return f"{sentence}."
    near = re.findall(r"--[\w.-]+", parts[1]) if "Perhaps" in "".join(parts[1:2]) else []
    hint = (
        f"; did you mean {' or '.join(dict.fromkeys(near))}?"
        if near
        else "; --help lists all flags."
    )
    return sentence + hint


def load(path: Path, experiment: type[E]) -> E:
    """Reads a settings file (TOML): the keys are the flags, the tables their prefixes.

    **Arguments:**

    - `path`: the file.
    - `experiment`: who asks; a file that another algorithm wrote is refused.

    **Raises:** `UsageError` when the file is missing, malformed or another algorithm's, or has an
    unknown key or a value of a wrong type.
    """
    own = experiment.algorithm
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        written_by = table.get("algorithm", own)
        if written_by != own and written_by not in SHIPPED:
            raise UsageError(
                f"has {reprlib.repr(written_by)} for 'algorithm', which must be {own!r}."
            )
        if written_by != own:
            raise UsageError(
                f"is for {written_by}: use {command_of(page(written_by)).removeprefix('python ')}, "
                f"or take the line 'algorithm' out of it to train with {own}."
            )
        return config_from(table, experiment)
    except UsageError as error:
        raise UsageError(f"The settings file {str(path)!r} {error}") from error


def is_written_by_a_run(path: Path) -> bool:
    """Whether a file is what `dump` writes: every setting of a run, and nothing else. Of a page of
    one's own, whose settings are not known, all those that every experiment has.
    """
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        if path.is_symlink() or "algorithm" not in table:
            return False
        if _PAGE in table:
            return table.keys() >= _COMMON
        algorithm = table["algorithm"]
        known = algorithm in SHIPPED
        return known and tomllib.loads(dump(config_from(table, page(algorithm)))) == table
    except UsageError:
        return False


def read_toml(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> dict[str, Any]:
    """**Raises:** `UsageError` with half a sentence, to follow the name of the file."""
    try:
        return tomllib.loads(_read_text(path, max_bytes))
    except RecursionError as error:
        raise UsageError("is nested too deeply.") from error
    except ValueError as error:
        digits = "a number has too many digits" if "digits" in str(error) else str(error)
        raise UsageError(f"is no TOML: {digits:.200}.") from error


def config_from(table: dict[str, Any], experiment: type[E]) -> E:
    """The settings in a table, as `dump` writes it.

    **Raises:** `UsageError` with half a sentence for an unknown key or a value of a wrong type.
    """
    about = ("algorithm", _PAGE, *(("config",) if table.get("config") == TUNED else ()))
    own = {key: value for key, value in table.items() if key not in about}
    config = fill(default_settings(experiment, _world_in(own, experiment)), own, "")
    return dataclasses.replace(config, config=Path(TUNED)) if "config" in about else config


def world_from(table: dict[str, Any]) -> AbstractWorldConfig:
    """The settings of the world in such a table, whatever else there is in it.

    **Raises:** as `config_from`.
    """
    own = table.get("env", {})
    default = _world_in(table) or Kitchen()
    return fill(default, own, "env.") if isinstance(own, dict) else default


def page_of(table: Mapping[str, Any]) -> str | None:
    """The name of the page that wrote such a table, where it is none of eqgrid's."""
    return table.get(_PAGE)


def _world_in(
    table: dict[str, Any], experiment: type[Experiment] | None = None
) -> AbstractWorldConfig | None:
    env = table.get("env")
    name = env.get("name") if isinstance(env, dict) else None
    if experiment is not None and name == experiment().env.name:
        return None
    if isinstance(name, str) and ":" in name:
        with _half_a_sentence():
            return default_world(name)
    if name is not None and not (isinstance(name, str) and name in WORLDS):
        raise UsageError(
            f"has {reprlib.repr(name)} for 'env.name', which must be one of "
            f"{', '.join(map(repr, WORLDS))}."
        )
    return None if name is None else default_world(name)


@contextlib.contextmanager
def _half_a_sentence() -> Iterator[None]:
    """Around what says in a whole sentence why a settings file cannot be used."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"cannot be used: {error}") from error


def _read_text(path: Path, max_bytes: int) -> str:
    try:
        return read_regular_text(path, max_bytes)
    except OSError as error:
        raise UsageError(f"cannot be read: {reason(error)}.") from error


def fill(default: T, table: dict[str, Any], prefix: str) -> T:
    """Puts the entries of a table in the place of fields.

    **Arguments:**

    - `default`: a dataclass.
    - `table`: values by the names of fields; a table for a field that is a dataclass.
    - `prefix`: what the table is called in the file, with a dot behind it.

    **Raises:** `UsageError` with half a sentence for an unknown key or a value of a wrong type.
    """
    return _fill(default, table, prefix)


def _fill(default: Any, table: dict[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(type(default))
    names = [field.name for field in dataclasses.fields(default) if field.name not in _NOT_IN_FILE]
    changes = {}
    for key, value in table.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
            known = f"did you mean {prefix + near[0]!r}?" if near else f"known: {', '.join(names)}."
            raise UsageError(f"has an unknown key {reprlib.repr(prefix + key)}; {known}")
        old = getattr(default, key)
        hint = float if hints[key] == Hyperparameter else hints[key]
        if dataclasses.is_dataclass(old) and isinstance(value, dict):
            changes[key] = _fill(old, value, f"{prefix}{key}.")
            continue
        if hint in (float, float | None) and type(value) is int:
            value = float(value) if abs(value) < 10**300 else math.inf
        if typing.get_origin(hint) is tuple and isinstance(value, list):
            value = tuple(value)
        if not is_bearable(value, hint) or (hint is int and type(value) is bool):
            raise UsageError(
                f"has {reprlib.repr(table[key])} for {prefix + key!r}, which must be "
                f"{_type_name(hint)}."
            )
        changes[key] = value
    return _rebuild(default, changes)


def _rebuild(default: Any, changes: dict[str, Any]) -> Any:
    try:
        return dataclasses.replace(default, **changes)
    except ValueError as error:
        raise UsageError(f"cannot be used: {error}") from error


def _type_name(hint: Any) -> str:
    """What a value of a settings file must be, in words; TOML has none for `None`."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) or hint is AbstractWorldConfig or origin is dict:
        return "a table"
    if origin is Literal:
        return "one of " * (len(args) > 1) + ", ".join(map(repr, args))
    if origin is tuple:
        return f"a list, of which each entry is {_type_name(args[0])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(arg) for arg in args if arg is not type(None))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(
        hint, str(hint)
    )


def dump(config: Experiment) -> str:
    """The text of a settings file with every setting in it, which `load` reads back.

    TOML has no word for "none", so what is none is left out.

    **Raises:** `UsageError` when `load` would refuse that file.
    """
    table = dataclasses.asdict(
        config, dict_factory=lambda items: {k: v for k, v in items if v is not None}
    )
    for name in _NOT_IN_FILE:
        table.pop(name, None)
    if not config.stage:
        del table["stage"]
    experiment = type(config)
    about = {"algorithm": experiment.algorithm}
    if not is_shipped(experiment):
        about[_PAGE] = file_of(experiment).name
    if config.config == Path(TUNED):
        about["config"] = TUNED
    text = tomli_w.dumps({**about, **table})
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            "The settings cannot be stored, since a name in them is no UTF-8: rename the file."
        ) from error
    if length > _MAX_SETTINGS_BYTES:
        raise UsageError(
            f"The settings fill {length:,} bytes, and a config.toml has at most "
            f"{_MAX_SETTINGS_BYTES:,}: use fewer stages, fewer partners or a smaller layout."
        )
    return text


def check(config: Experiment) -> None:
    """Refuses numbers that are out of range, and what cannot go together.

    **Raises:** `UsageError` with one sentence that names the flag.
    """
    check_limits(config)
    check_installed(config.log)
    config.env.check()
    config.partners.check()
    try:
        config.check()
    except ValueError as error:
        raise UsageError(str(error)) from error
    try:
        config.env.title.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"--env.layout {config.env.title!r} cannot be stored, since its name is no UTF-8: "
            "rename the file."
        ) from error
    _check_counts(config)
    _check_candidates(config)
    _check_many(config)
    if config.distributed and config.devices not in (1, "all"):
        raise UsageError(
            "--distributed trains on all devices of all processes: leave out --devices, or say "
            "--devices all."
        )


def _check_candidates(config: Experiment) -> None:
    """Refuses candidates where they are not supported. A resumed run may have more devices."""
    if config.candidates == 1 or config.resume is not None:
        return
    others = (
        config.curriculum is not None or bool(config.stage),
        config.sweep is not None,
        config.devices != 1,
        config.distributed,
    )
    for flag, given in zip(_WITHOUT_CANDIDATES, others, strict=True):
        if given:
            raise UsageError(f"--candidates cannot be given with {flag}: leave one of them out.")


def _check_many(config: Experiment) -> None:
    """Refuses what is not supported where many runs are trained together."""
    if config.sweep_index is not None and config.sweep is None:
        raise UsageError("--sweep.index is a point of a sweep: add --sweep FILE.toml.")
    if config.num_seeds == 1 and config.sweep is None:
        return
    flag = "--num-seeds" if config.sweep is None else "--sweep"
    if config.sweep is not None and config.num_seeds > 1:
        raise UsageError("--num-seeds cannot be given with --sweep: add a list of seeds to it.")
    if config.sweep is not None and config.overwrite:
        raise UsageError("--overwrite cannot be given with --sweep: choose another --out.")
    if config.curriculum is not None or config.stage:
        raise UsageError(f"--curriculum cannot be given with {flag}, where runs go on together.")
    if config.devices != 1:
        raise UsageError(f"--devices cannot be given with {flag}, which trains on one device.")
    if config.distributed:
        raise UsageError(f"--distributed cannot be given with {flag}, which trains on one device.")
    if config.max_kl is not None:
        raise UsageError(f"--max-kl cannot be given with {flag}, where runs end together.")
    if "wandb" in config.log:
        raise UsageError(f"--log wandb cannot be given with {flag}: it logs one run of a process.")
    if config.seed + config.num_seeds - 1 > LARGEST_SEED:
        raise UsageError(f"--seed {config.seed} is too large for --num-seeds {config.num_seeds}.")


def _check_counts(config: Experiment) -> None:
    """Refuses products of settings that are too large to be counted in 32 bits."""
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
