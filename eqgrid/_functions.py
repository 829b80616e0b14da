"""Partial functions that are compared by value, conditionals of whole batches, random numbers."""

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from .typing import PyTree

_Result = TypeVar("_Result")


@final
class Partial(Generic[_Result]):
    """A function with its first arguments given, such as `Partial(plane_of, "pot")`.

    A `Partial` is compared by value, and can be pickled. A world with a `Partial` in a static field
    therefore equals its copies, also in other processes, and all copies share one compiled program.
    `functools.partial` and closures are compared by identity, and closures cannot be pickled.

    **Arguments:**

    - `function`: a function that is defined at the top level of a Python module.
    - `arguments`: its first arguments, which must be hashable.
    """

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., _Result], *arguments: Hashable):
        self.function, self.arguments = function, arguments

    def __call__(self, *rest: object) -> _Result:
        """Calls the function with its first arguments, followed by `rest`."""
        return self.function(*self.arguments, *rest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partial):
            return NotImplemented
        return (self.function, self.arguments) == (other.function, other.arguments)

    def __hash__(self) -> int:
        return hash((self.function, self.arguments))

    def __repr__(self) -> str:
        return f"Partial({', '.join(map(repr, (self.function, *self.arguments)))})"


def sample_uniform(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """The same numbers as `jax.random.uniform(key, shape)`, in programs that compile faster.

    **Arguments:**

    - `key`: the source of randomness.
    - `shape`: the shape of the result.

    **Returns:** uniform random numbers in [0, 1).
    """
    # XLA takes five times longer to compile a sample over three axes than over one axis.
    return jax.random.uniform(key, (math.prod(shape),)).reshape(shape)


def batched_cond(
    pred: Bool[ArrayLike, ""],
    true_fn: Callable[..., PyTree],
    false_fn: Callable[..., PyTree],
    *operands: PyTree,
) -> PyTree:
    """`jax.lax.cond` that skips `true_fn` if `pred` is false in the whole batch.

    Under `jax.vmap`, `lax.cond` computes both branches for every element. `batched_cond` does so
    only if `pred` is true for some element, under any number of nested `vmap`s; otherwise it
    computes only `false_fn`. It is useful if `true_fn` is expensive and rarely needed, as a reset
    is when all episodes end on the same step.

    **Arguments:**

    - `pred`: the condition.
    - `true_fn`, `false_fn`: called with `operands`; they return arrays of the same structure,
        shapes and dtypes. They must not close over traced arrays: pass those as operands.
    - `operands`: PyTrees; leaves that are not arrays are static.

    **Returns:** the output of `true_fn` where `pred` is true, of `false_fn` elsewhere.
    Reverse-mode differentiation is not supported, because of `jax.custom_batching.custom_vmap`.
    """
    arrays, rest = eqx.partition(operands, eqx.is_array)

    def both(pred: PyTree, arrays: PyTree) -> PyTree:
        return select(pred, true_fn, false_fn, *eqx.combine(arrays, rest))

    def skip(_: PyTree, arrays: PyTree) -> PyTree:
        return false_fn(*eqx.combine(arrays, rest))

    return _batched(both, skip)(jnp.asarray(pred), arrays)


def select(
    pred: Bool[ArrayLike, ""],
    true_fn: Callable[..., PyTree],
    false_fn: Callable[..., PyTree],
    *operands: PyTree,
) -> PyTree:
    """Like `batched_cond`, but always computes both branches."""
    # Unlike `jax.lax.select`, `jnp.where` also accepts typed PRNG keys.
    if_true, if_false = true_fn(*operands), false_fn(*operands)
    return jax.tree.map(lambda yes, no: jnp.where(pred, yes, no), if_true, if_false)


def _batched(both: Callable[..., PyTree], skip: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """The conditional for branches that are already mapped over some batch axes.

    Each further `vmap` adds an axis by mapping both branches, and calls `_batched` again.
    """

    @jax.custom_batching.custom_vmap
    def call(pred: PyTree, arrays: PyTree) -> PyTree:
        return jax.lax.cond(pred.any(), both, skip, pred, arrays)

    @call.def_vmap
    def _(
        axis_size: int, in_batched: list[PyTree], pred: PyTree, arrays: PyTree
    ) -> tuple[PyTree, PyTree]:
        axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(in_batched))
        mapped = (jax.vmap(branch, axes, axis_size=axis_size) for branch in (both, skip))
        out = _batched(*mapped)(pred, arrays)
        return out, jax.tree.map(lambda _: True, out)

    return call
