"""The type of PyTrees in signatures."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeAliasType, TypeVar

    # jaxtyping shows its PyTree to type checkers as an unknown type, which strict ones report
    # wherever a function that has one is used.
    _T = TypeVar("_T", default=Any)
    PyTree = TypeAliasType("PyTree", Any, type_params=(_T,))
else:
    from jaxtyping import PyTree as PyTree
