"""What a run is told: command line and settings file, checked before anything is built."""

import contextlib
import dataclasses
import difflib
import io
import re
import tomllib
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
import tyro
from _errors import UsageError
from beartype.door import is_bearable

from agents import PPO


@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """The kitchen, and how an episode goes."""

    layout: str = "cramped"
    """cramped, asymmetric, ring, forced, circuit, or the path of a layout file."""
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself, or a cook starts it."""
    horizon: int = 400
    """Length of an episode, in steps."""
    observation: Literal["features", "planes"] = "features"
    """Named features, or the reference's 26 planes."""
    random_starts: float = 0.0
    """Share of training episodes with a random start."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Trains cooks with {algorithm} and leaves a folder with results, pictures and checkpoints."""

    env: EnvConfig = EnvConfig()
    ppo: PPO = dataclasses.field(default_factory=PPO)
    seed: int = 0
    """Seed of everything that is random."""
    total_steps: int = 4_000_000
    """Length of training, in environment steps."""
    num_envs: int = 64
    """Environments side by side."""
    network: Literal["mlp", "cnn"] = "mlp"
    """Kind of network of actor and critic."""
    width: int = 64
    """Units in a hidden layer."""
    shaping: float = 1.0
    """Weight of the shaped reward at the start."""
    shaping_steps: int = 2_000_000
    """Environment steps until it has faded to 0."""
    eval_every: int = 100_000
    """Environment steps between two evaluations."""
    eval_episodes: int = 64
    """Episodes in a periodic evaluation."""
    final_episodes: int = 256
    """Episodes in the evaluation at the end."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Settings file; flags replace what it says."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the run; a new one in runs/ if none."""
    overwrite: bool = False
    """Write into a folder that is not empty."""


T = TypeVar("T")

_NOT_IN_FILE = ("config", "out", "overwrite")


def parse(algorithm: str, args: Sequence[str]) -> Config:
    """Reads the command line, and the settings file that it names.

    **Raises:** `UsageError` with one sentence for what is unknown, malformed or out of range.
    """
    doc = (Config.__doc__ or "").format(algorithm=algorithm.upper())
    prog = f"python experiments/{algorithm}.py"
    default = Config()
    # A first look, for the settings file alone: what else is wrong will be said by the second.
    if (path := _config_path(args)) is not None:
        default = load(path)
    config = cli(default, args, prog, doc)
    check(config)
    return config


def _config_path(args: Sequence[str]) -> Path | None:
    for i, arg in enumerate(args):
        if arg == "--config" and i + 1 < len(args):
            return Path(args[i + 1])
        if arg.startswith("--config="):
            return Path(arg.removeprefix("--config="))
    return None


def cli(default: T, args: Sequence[str], prog: str, description: str) -> T:
    """`tyro.cli`, with its box of an error made one sentence.

    **Raises:** `UsageError`.
    """
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
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UsageError(_one_sentence(said.getvalue())) from None


def _one_sentence(box: str) -> str:
    lines = [re.sub(r"[│╭╮╰╯]", "", line).strip() for line in box.splitlines()]
    parts = re.split(r" ?─{5,} ?", " ".join(line for line in lines[1:] if line))
    sentence = parts[0].strip().rstrip(".")
    near = re.findall(r"--[\w.-]+", parts[1]) if "Perhaps" in "".join(parts[1:2]) else []
    hint = (
        f"; did you mean {' or '.join(dict.fromkeys(near))}?"
        if near
        else "; --help lists all flags."
    )
    return sentence + hint


def load(path: Path) -> Config:
    """Reads a settings file (TOML): the keys are the flags, the tables their prefixes.

    **Raises:** `UsageError` when the file is missing or malformed, or has an unknown key or a
    value of a wrong type.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"The settings file {str(path)!r} cannot be read: {error.strerror}."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The settings file {str(path)!r} is no TOML: {error}.") from error
    table.pop("algorithm", None)
    try:
        return _fill(Config(), table, "")
    except UsageError as error:
        raise UsageError(f"The settings file {str(path)!r} {error}") from error


def _fill(default: Any, table: dict[str, Any], prefix: str) -> Any:
    """`default`, a dataclass, with the entries of a table in place of its fields."""
    hints = typing.get_type_hints(type(default))
    names = [field.name for field in dataclasses.fields(default) if field.name not in _NOT_IN_FILE]
    changes = {}
    for key, value in table.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.0)
            raise UsageError(
                f"has an unknown key {prefix + key!r}; did you mean {prefix + near[0]!r}?"
            )
        hint, old = hints[key], getattr(default, key)
        if dataclasses.is_dataclass(old) and isinstance(value, dict):
            changes[key] = _fill(old, value, f"{prefix}{key}.")
            continue
        if hint is float and type(value) is int:
            value = float(value)
        if not is_bearable(value, hint) or (hint is int and type(value) is bool):
            raise UsageError(
                f"has {value!r} for {prefix + key!r}, which must be {_type_name(hint)}."
            )
        changes[key] = value
    return _rebuild(default, changes)


def _rebuild(default: Any, changes: dict[str, Any]) -> Any:
    try:
        return dataclasses.replace(default, **changes)
    except ValueError as error:
        raise UsageError(f"cannot be used: {error}") from error


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(
        hint, str(hint)
    )


def dump(algorithm: str, config: Config) -> str:
    """The text of a settings file with every setting in it, which `load` reads back.

    TOML has no word for "none", so what is none is left out.
    """
    table = dataclasses.asdict(
        config, dict_factory=lambda items: {k: v for k, v in items if v is not None}
    )
    for name in _NOT_IN_FILE:
        table.pop(name, None)
    return tomli_w.dumps({"algorithm": algorithm, **table})


def check(config: Config) -> None:
    """Refuses numbers that are out of range, and batches that cannot be cut up.

    **Raises:** `UsageError` with one sentence that names the flag.
    """
    positive = {
        "--total-steps": config.total_steps,
        "--num-envs": config.num_envs,
        "--width": config.width,
        "--eval-every": config.eval_every,
        "--eval-episodes": config.eval_episodes,
        "--final-episodes": config.final_episodes,
        "--env.horizon": config.env.horizon,
    }
    for flag, value in positive.items():
        if value < 1:
            raise UsageError(f"{flag} must be at least 1, but is {value}.")
    not_negative = {
        "--seed": config.seed,
        "--shaping": config.shaping,
        "--shaping-steps": config.shaping_steps,
    }
    for flag, value in not_negative.items():
        if value < 0:
            raise UsageError(f"{flag} must not be negative, but is {value}.")
    if not 0 <= config.env.random_starts <= 1:
        raise UsageError(
            f"--env.random-starts is a share, between 0 and 1, but is {config.env.random_starts}."
        )
    if config.network == "cnn" and config.env.observation != "planes":
        raise UsageError("--network cnn reads images: add --env.observation planes.")
