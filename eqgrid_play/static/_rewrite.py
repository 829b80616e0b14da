"""Rewrites JAX programs into operations that ONNX Runtime has.

Random keys become arrays of two integers, and random numbers come from integer arithmetic
(Threefry), because jax2onnx has random numbers of its own, which ignore the key. `rewrite` traces
JAX's implementation, so the results equal JAX's results bit for bit.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.extend.random import threefry_prng_impl
from jaxtyping import Array, Shaped, UInt32

from eqgrid.typing import PyTree

_CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
"""The primitives that only call another program."""
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The rotation distances of Threefry-2x32."""
_NARROW = (jnp.bool_, jnp.int8, jnp.int16, jnp.uint16)
_WIDENED = (
    *("argmax", "argmin", "clamp", "cumsum", "ge", "gt", "le", "lt", "max", "min", "reduce_max"),
    *("reduce_min", "reduce_sum", "scatter-max", "scatter-min", "select_n", "sort"),
)
"""The primitives without kernels for narrow types, which are therefore computed in int32."""


def as_data(tree: PyTree) -> PyTree[Shaped[Array, "..."]]:
    """The same arrays, with each key replaced by its key data, two integers."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, tree)


def rewrite(
    function: Callable[..., PyTree], *arguments: PyTree
) -> tuple[Callable[..., list[Array]], list[jax.ShapeDtypeStruct]]:
    """Rewrites a function into operations that ONNX Runtime has.

    **Arguments:**

    - `function`: a function of arrays.
    - `arguments`: example arguments, whose values do not matter.

    **Returns:** the rewritten function, which maps the leaves of the arguments to the leaves of the
    result, with key data instead of keys; and the shapes and dtypes of the leaves of the arguments.
    """
    program = _rewritten(jax.make_jaxpr(function)(*arguments))
    return core.jaxpr_as_fun(program), [_shape(x) for x in program.in_avals]


def _is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _shape(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _rewritten(program: core.ClosedJaxpr) -> core.ClosedJaxpr:
    shapes = jax.eval_shape(as_data, [_shape(x) for x in program.in_avals])
    return jax.make_jaxpr(functools.partial(_run, program))(*shapes)


def _run(program: core.ClosedJaxpr, *arguments: Array) -> list[Array]:
    """Runs a program with rewritten operations."""
    jaxpr = program.jaxpr
    values: dict[core.Var, Array] = dict(zip(jaxpr.invars, arguments, strict=True))
    consts = [as_data(jnp.asarray(x)) for x in program.consts]
    values.update(zip(jaxpr.constvars, consts, strict=True))

    def read(x: core.Var | core.Literal) -> Array:
        return (
            jnp.asarray(x.val, _shape(x.aval).dtype) if isinstance(x, core.Literal) else values[x]
        )

    for equation in jaxpr.eqns:
        found = _evaluate(equation, [read(x) for x in equation.invars])
        values.update(zip(equation.outvars, found, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _evaluate(equation: core.JaxprEqn, inputs: Sequence[Array]) -> Sequence[Array]:
    """Evaluates one operation of a program."""
    name, params = equation.primitive.name, equation.params
    if name in _RANDOM:
        return _run(jax.make_jaxpr(functools.partial(_RANDOM[name], **params))(*inputs), *inputs)
    if name in _BASIC:
        return _BASIC[name](*inputs, **params)
    if name in _CALLS:
        called = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
        return _run(called if _is_program(called) else core.ClosedJaxpr(called, ()), *inputs)
    # Loops and conditions keep their parameters, except for the programs in them.
    inner = {key: x for key, x in params.items() if any(map(_is_program, jax.tree.leaves(x)))}
    params = params | jax.tree.map(_rewritten, inner)
    narrow = (*_NARROW, jnp.uint32) if name == "select_n" else _NARROW

    dtypes = [jnp.uint32 if _is_key(x.aval) else _shape(x.aval).dtype for x in equation.outvars]

    def bind(*inputs: Array) -> list[Array]:
        if name in _WIDENED:
            inputs = tuple(x.astype(jnp.int32) if x.dtype in narrow else x for x in inputs)
        found = equation.primitive.bind(*inputs, **params)
        found = found if equation.primitive.multiple_results else [found]
        return [x.astype(y) for x, y in zip(found, dtypes, strict=True)]

    keys, outputs = (
        [-1 if _is_key(x.aval) else None for x in side]
        for side in (equation.invars, equation.outvars)
    )
    if -1 in keys and not inner:
        # All other primitives treat both integers of a key alike, so map over the axis of integers.
        bind = jax.vmap(bind, keys, outputs)
    return bind(*inputs)


def _is_program(x: object) -> bool:
    return isinstance(x, core.ClosedJaxpr)


def _threefry(
    key1: UInt32[Array, "..."],
    key2: UInt32[Array, "..."],
    count1: UInt32[Array, "..."],
    count2: UInt32[Array, "..."],
) -> list[UInt32[Array, "..."]]:
    """Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
    2011), computed with additions, shifts and exclusive ors.

    **Arguments:**

    - `key1`, `key2`: the two integers of the key.
    - `count1`, `count2`: the two integers of the counter.

    **Returns:** two random numbers.
    """
    keys = key1, key2, key1 ^ key2 ^ jnp.uint32(0x1BD11BDA)
    x, y = count1 + key1, count2 + key2
    for block in range(5):
        for distance in _ROTATIONS[block % 2]:
            left, right = jnp.uint32(distance), jnp.uint32(32 - distance)
            x = x + y
            y = jax.lax.shift_left(y, left) | jax.lax.shift_right_logical(y, right)
            y = x ^ y
        x = x + keys[(block + 1) % 3]
        y = y + (keys[(block + 2) % 3] + jnp.uint32(block + 1))
    return [x, y]


def _counts(*, shape: tuple[int, ...]) -> list[UInt32[Array, "..."]]:
    """The numbers 0, 1, 2, ... as upper and lower 32 bits."""
    numbers = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    return [jnp.asarray(x, jnp.uint32) for x in (numbers >> np.uint64(32), numbers)]


def _stack(*arrays: Shaped[Array, "..."], axis: int) -> list[Shaped[Array, "..."]]:
    return [jnp.concatenate([jnp.expand_dims(x, axis) for x in arrays], axis)]


def _map_keys(function: Callable[..., Array], *arrays: Shaped[Array, "..."]) -> Array:
    """Maps a function of one key and scalars over arrays of keys."""
    for _ in range(arrays[0].ndim - 1):
        function = jax.vmap(function)
    return function(*arrays)


_BASIC: dict[str, Callable[..., Sequence[Array]]] = {
    "threefry2x32": _threefry,
    "iota_2x32_shape": _counts,
    "stack": _stack,
    "random_wrap": lambda data, *, impl: [data],
    "random_unwrap": lambda keys: [keys],
}
"""Primitives in terms of basic operations, by name."""

_RANDOM: dict[str, Callable[..., Array]] = {
    "random_split": lambda keys, *, shape: _map_keys(
        lambda key: threefry_prng_impl.split(key, shape), keys
    ),
    "random_bits": lambda keys, *, bit_width, shape: _map_keys(
        lambda key: threefry_prng_impl.random_bits(key, bit_width, shape), keys
    ),
    "random_fold_in": lambda keys, data: _map_keys(
        threefry_prng_impl.fold_in, keys, jnp.broadcast_to(data, keys.shape[:-1]).astype(jnp.uint32)
    ),
}
"""Primitives in terms of JAX's implementation, which is a program to rewrite, by name."""
