"""Lazy imports of the adapters, with a check of the libraries that they need."""

import importlib
import importlib.metadata
import re
import warnings

from ..errors import missing_library

_ADAPTERS = {
    "from_gymnax": "._gymnax",
    "from_jaxmarl": "._jaxmarl",
    "from_jaxnasium": "._jaxnasium",
    "to_gymnasium": "._gymnasium",
    "to_gymnasium_vector": "._gymnasium",
    "to_gymnax": "._gymnax",
    "to_jaxmarl": "._jaxmarl",
    "to_jaxnasium": "._jaxnasium",
    "to_pettingzoo": "._pettingzoo",
}
"""The module of each adapter."""

_NEEDED = {
    "._gymnasium": ("gymnasium",),
    "._gymnax": ("gymnax",),
    "._jaxmarl": ("jaxmarl",),
    "._jaxnasium": ("jaxnasium",),
    "._pettingzoo": ("pettingzoo", "gymnasium"),
}
"""The libraries that each module imports."""

_EXTRAS = {"gymnax": "gymnax", "jaxmarl": "jaxmarl"}
"""The pip extra that installs a library. For all other libraries, the extra is `interop`."""

TESTED = {
    "gymnasium": ((1, 1), (1, 4)),
    "gymnax": ((0, 0), (1, 0)),
    "jaxmarl": ((0, 2), (0, 2)),
    "jaxnasium": ((0, 1), (0, 1)),
    "pettingzoo": ((1, 25), (1, 27)),
}
"""The oldest and the newest tested version of each library."""


def __getattr__(name: str) -> object:
    """Imports an adapter and its library on first use, and warns if the version of the library is
    outside the range of tested versions.

    **Raises:** `ImportError` when the library is not installed.
    """
    if name not in _ADAPTERS:
        raise AttributeError(f"module {__package__!r} has no attribute {name!r}")
    for library in _NEEDED[_ADAPTERS[name]]:
        try:
            installed = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError as error:
            extra = _EXTRAS.get(library, "interop")
            raise missing_library(f"{name} needs {library}", extra) from error
        oldest, newest = TESTED[library]
        numbers = tuple(int(number) for number in re.findall(r"\d+", installed)[:2])
        if not oldest <= numbers <= newest:
            warnings.warn(
                f"{library} {installed} is installed, but eqgrid was tested with "
                f"{_dotted(oldest)} to {_dotted(newest)}.",
                stacklevel=2,
            )
    return getattr(importlib.import_module(_ADAPTERS[name], __package__), name)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(str(number) for number in version)
