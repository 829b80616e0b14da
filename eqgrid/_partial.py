"""Functions with some arguments given, which are equal if their functions and arguments are."""

from collections.abc import Callable
from typing import Any, final


@final
class Partial:
    """A function with its first arguments given, such as `Partial(plane_of, "pot")`.

    `functools.partial` and closures are compared by identity, and closures cannot be pickled.
    `Partial` is compared by value, so a world that has one in a static field equals its copies,
    also in other processes, and a program that was compiled for one is used for all of them.

    **Arguments:**

    - `function`: a function of a module.
    - `arguments`: its first arguments, which must be hashable.
    """

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        self.function, self.arguments = function, arguments

    def __call__(self, *rest: Any) -> Any:
        """Calls the function with its first arguments, and then those that are given here."""
        return self.function(*self.arguments, *rest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partial):
            return NotImplemented
        return (self.function, self.arguments) == (other.function, other.arguments)

    def __hash__(self) -> int:
        return hash((self.function, self.arguments))

    def __repr__(self) -> str:
        return f"Partial({', '.join(map(repr, (self.function, *self.arguments)))})"
