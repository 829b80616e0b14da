"""Lazy imports of the adapters, with an error about a missing library."""

import importlib
import importlib.util

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


def __getattr__(name: str) -> object:
    """Imports an adapter and its library on first use.

    **Raises:** `ImportError` when the library is not installed.
    """
    if name not in _ADAPTERS:
        raise AttributeError(f"module {__package__!r} has no attribute {name!r}")
    for library in _NEEDED[_ADAPTERS[name]]:
        if importlib.util.find_spec(library) is None:
            raise missing_library(f"{name} needs {library}", _EXTRAS.get(library, "interop"))
    return getattr(importlib.import_module(_ADAPTERS[name], __package__), name)
