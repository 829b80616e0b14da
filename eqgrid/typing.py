"""The type of PyTrees in signatures."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeAliasType, TypeVar

    # To type checkers, the PyTree of jaxtyping is an unknown type. Strict type checkers would
    # report every use of a function with a PyTree in its signature.
    _T = TypeVar("_T", default=Any)
    PyTree = TypeAliasType("PyTree", Any, type_params=(_T,))
else:
    from jaxtyping import PyTree as PyTree
