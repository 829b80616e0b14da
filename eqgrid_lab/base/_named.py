"""Imports worlds of the user that a command line names as MODULE:NAME, and makes settings from the
signatures of functions.

A module is imported only if the command line itself names it. A name in a settings file, a policy
or a folder is not enough, since these may come from someone else.
"""

import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeGuard, TypeVar, Union, final

import msgspec
import tyro

from ._errors import UsageError, with_note

Hint: TypeAlias = Any
"""A type annotation at run time, such as `int | None`."""
Table: TypeAlias = dict[str, Any]
"""A table of a TOML or JSON file, or the metadata of a checkpoint."""
_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
T = TypeVar("T")
_SCALARS = (bool, int, float, str)
DIFFERENT = "different"
"""Annotation of a field with several values, such as names, which must all be different."""


def is_own(name: object) -> TypeGuard[str]:
    """Whether a name has the form `MODULE:NAME`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def file_named(name: str) -> Path | None:
    """The file of the module of a name that was imported; `None` if the module has none."""
    file = getattr(sys.modules.get(name.partition(":")[0]), "__file__", None)
    return None if file is None else Path(file)


def import_named(name: str) -> Callable[..., Any]:
    """Imports a function or a class from an installed package, or from the current folder.

    **Arguments:**

    - `name`: the value of `--env.name`, as `MODULE:NAME`.

    **Raises:** `UsageError` when there is no such module, or it has no such function or class, and
    the errors that the module raises.
    """
    flag = f"--env.name {name}"
    module_name, _, attribute = name.partition(":")
    try:
        with folder_first(os.getcwd()), with_note(f"{flag}: its module cannot be imported."):
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not error.name or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module imports another one, which is missing
        raise UsageError(
            f"{flag}: there is no module {error.name!r} in the current folder, and no installed "
            "package has this name. Go to the folder of its file, or set PYTHONPATH to this folder."
        ) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        place = getattr(module, "__file__", None) or "which is built in"
        raise UsageError(f"{flag}: its module ({place}) has no function or class {attribute!r}.")
    return found


def import_file(path: Path) -> ModuleType:
    """Runs a Python file as a module with a name of its own.

    The path must come from the user, never from a file.

    **Raises:** `UsageError` when it is not a Python file, and the errors of the file.
    """
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(f"{str(path)!r} is not a Python file.")
    name = f"eqgrid_script_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses resolve annotations through `sys.modules`
    with folder_first(str(path.parent.resolve())):  # imports resolve as if the file were run
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def folder_first(folder: str) -> Iterator[None]:
    """Context manager in which modules of a folder take precedence over installed modules.

    Afterwards, installed modules take precedence, so that no library imports a module of the folder
    by mistake.

    **Arguments:**

    - `folder`: the folder.
    """
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)


@final
class Setting(NamedTuple):
    """A parameter that becomes a flag: its name, its type with the help text, and its default."""

    name: str
    hint: Hint
    default: object


def settings_of(
    function: Callable[..., object],
    what: str,
    *,
    given: Collection[str] = (),
    taken: Collection[str] = (),
) -> list[Setting]:
    """The parameters of a function or a class that become flags.

    A flag has one of these types: `int`, `float`, `bool`, `str`, a `Literal`, a tuple or sequence
    of these, or one of these or `None`. A parameter with the hint of an array becomes a number if
    its default is a number. A parameter with a union, such as `str | Path`, becomes a flag with the
    simple type. Other parameters are left out, and keep their defaults.

    **Arguments:**

    - `function`: the function or the class.
    - `what`: its name in messages.
    - `given`: the parameters to leave out, because the caller sets them.
    - `taken`: the names that no setting may have.

    **Raises:** `UsageError` when a parameter has no default or a name that is taken, and the errors
    of type hints that cannot be evaluated.
    """
    with with_note(f"The type hints of {what} cannot be read."):
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    help_texts, found = _arguments_in_docstring(function), []
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        if name in given or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if default is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(
                f"The parameter {name!r} of {what} must be a keyword parameter with a default to "
                "become a flag."
            )
        hint = _hint_of(parameter.annotation, default)
        if hint is None:
            continue
        try:
            default = msgspec.convert(default, hint)
        except (msgspec.ValidationError, TypeError):
            continue  # the default is of another type than the hint, or the hint is too complex
        if name in taken:
            raise UsageError(
                f"The parameter {name!r} of {what} cannot be a flag, since another setting has "
                "this name: rename it."
            )
        hint = Annotated[hint, tyro.conf.arg(help=help_texts.get(name, ""))]
        found.append(Setting(name, hint, default))
    return found


def dataclass_of(
    name: str, settings: Sequence[Setting], base: type[T], **namespace: object
) -> type[T]:
    """Makes a frozen dataclass with a field for each setting.

    **Arguments:**

    - `name`: the name of the class.
    - `settings`: the settings.
    - `base`: its base class.
    - `namespace`: further attributes of the class.
    """
    fields = [(x.name, x.hint, dataclasses.field(default=x.default)) for x in settings]
    return dataclasses.make_dataclass(name, fields, bases=(base,), namespace=namespace, frozen=True)


def _hint_of(hint: Hint, default: object) -> Hint:
    """The type of the flag of a parameter; `None` if the parameter cannot become a flag. The flag
    of a union, such as `str | Path`, has one of its simple types.
    """
    if typing.get_origin(hint) is Sequence:
        hint = tuple[typing.get_args(hint)[0], ...]
    is_union = typing.get_origin(hint) in (Union, UnionType)
    simple = [x for x in (typing.get_args(hint) if is_union else (hint,)) if _is_simple(x)]
    if default is None:
        return simple[-1] | None if simple else None
    if type(default) in (bool, int, float) and not simple:  # no hint, or the hint of an array
        return float if type(default) is int and _has_floats(hint) else type(default)
    if type(default) is str and hint is inspect.Parameter.empty:
        return str
    return next((without_none(x) for x in simple if _has_type(default, x)), None)


def without_none(hint: Hint) -> Hint:
    """Removes `None` from the type of a flag whose default is not `None`, because a settings file
    cannot store `None`.

    **Arguments:**

    - `hint`: a simple type, possibly in `Annotated`.
    """
    if typing.get_origin(hint) is Annotated:
        kind, *others = typing.get_args(hint)
        return Annotated[without_none(kind), *others]
    if typing.get_origin(hint) not in (Union, UnionType):
        return hint
    return next(x for x in typing.get_args(hint) if x is not NoneType)


def _has_type(value: object, hint: Hint) -> bool:
    try:
        msgspec.convert(value, hint)
    except (msgspec.ValidationError, TypeError):
        return False
    return True


def _is_simple(hint: Hint) -> bool:
    """Whether a flag can have a type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _is_simple(args[0])
    if origin is Literal:
        return all(type(arg) in _SCALARS for arg in args)
    if origin is tuple:
        return bool(args) and all(_is_simple(arg) for arg in args if arg is not ...)
    if origin in (Union, UnionType):
        return len(args) == 2 and NoneType in args and any(map(_is_simple, args))
    return hint in _SCALARS


def _has_floats(hint: Hint) -> bool:
    """Whether a hint is the type of an array of real numbers, or contains such a type."""
    dtypes = getattr(hint, "dtypes", ())
    return any("float" in str(x) for x in dtypes) or any(map(_has_floats, typing.get_args(hint)))


def _arguments_in_docstring(function: Callable[..., object]) -> dict[str, str]:
    """The descriptions of parameters in the list `**Arguments:**` of a docstring, by name."""
    texts = [inspect.getdoc(x) or "" for x in (function, getattr(function, "__init__", None))]
    entry = re.compile(r"^- ((?:`\w+`(?:, )?)+): (.+?)(?=^- |^$|\Z)", re.M | re.S)
    found: dict[str, str] = {}
    for names, words in entry.findall("\n\n".join(texts)):
        text = " ".join(words.replace("`", "").split())
        found |= dict.fromkeys(re.findall(r"\w+", names), text[:1].upper() + text[1:])
    return found


def check_storable(config: object, settings: Sequence[Setting], flag: str) -> None:
    """Checks that a settings file can store the values, since TOML has no `None`.

    **Arguments:**

    - `config`: the dataclass with the values.
    - `settings`: its settings.
    - `flag`: the prefix of their flags, such as `"--env."`.

    **Raises:** `UsageError` when a value is `None` and the default is not.
    """
    for name, _, default in settings:
        if getattr(config, name) is None and default is not None:
            raise UsageError(
                f"{flag}{name.replace('_', '-')} cannot be None, since a settings file cannot "
                "store None: make None the default."
            )
