"""Rewrites JAX programs without typed random keys, for export.

Converters such as jax2onnx do not accept typed keys. `on_key_data` rewrites a function so that each
key is an array of two integers, and random numbers come from integer arithmetic (Threefry). It
traces JAX's own implementation, so results are equal to JAX's bit for bit.
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
from jax.typing import ArrayLike
from jaxtyping import Array, Float32, Shaped, UInt32

from eqgrid.typing import PyTree

_CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def as_data(tree: PyTree) -> PyTree[Shaped[Array, "..."]]:
    """The same arrays, with each key replaced by its key data, two integers."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, tree)


def as_keys(data: PyTree[Shaped[Array, "..."]], like: PyTree) -> PyTree:
    """The inverse of `as_data`.

    **Arguments:**

    - `data`: what `as_data` returned.
    - `like`: a PyTree of the same structure, whose keys mark the leaves to convert.
    """
    return jax.tree.map(
        lambda x, old: jax.random.wrap_key_data(x) if _is_key(old) else x, data, like
    )


def on_key_data(
    function: Callable[..., PyTree], *arguments: PyTree
) -> tuple[Callable[..., list[Array]], list[jax.ShapeDtypeStruct]]:
    """Rewrites a function so that it takes and returns key data instead of keys.

    **Arguments:**

    - `function`: a function of arrays.
    - `arguments`: examples of its arguments, whose values do not matter.

    **Returns:** the rewritten function, from the leaves of the arguments to the leaves of the
    result; and the shapes and dtypes of the former.

    **Raises:** `ValueError` when keys are used in a way that cannot be written in this form.
    """
    traced = jax.make_jaxpr(function)(*arguments)
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in jax.tree.leaves(as_data(arguments))]
    for _ in range(2):  # the second pass rewrites the calls inside JAX's own random functions
        run = functools.partial(_run, traced.jaxpr, traced.consts)
        traced = jax.make_jaxpr(run)(*shapes)
    return core.jaxpr_as_fun(traced), shapes


def _is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _run(jaxpr: core.Jaxpr, consts: Sequence[ArrayLike], *arguments: Array) -> list[Array]:
    """Evaluates a program on key data."""
    values: dict[core.Var, Array] = {}

    def read(x: core.Var | core.Literal) -> Array:
        return as_data(x.val) if isinstance(x, core.Literal) else values[x]

    values.update(zip(jaxpr.constvars, [as_data(jnp.asarray(x)) for x in consts], strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        found = _evaluate(equation, [read(x) for x in equation.invars])
        values.update(zip(equation.outvars, found, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _evaluate(equation: core.JaxprEqn, inputs: Sequence[Array]) -> Sequence[Array]:
    """The results of one operation."""
    name, params = equation.primitive.name, equation.params
    if name in _RANDOM:
        return [_RANDOM[name](*inputs, **params)]
    if name == "iota_2x32_shape":
        # The numbers of the entries of an array, as their upper and lower 32 bits.
        shape = params["shape"]
        numbers = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
        upper = jnp.asarray(numbers >> np.uint64(32), jnp.uint32)
        return upper, jnp.asarray(numbers, jnp.uint32)
    if name == "threefry2x32":
        return threefry(*inputs)
    if name in _CALLS:
        called = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
        return _run(getattr(called, "jaxpr", called), getattr(called, "consts", ()), *inputs)
    if name == "cond":
        index, *rest = inputs
        branches = [functools.partial(_run, x.jaxpr, x.consts) for x in params["branches"]]
        return jax.lax.switch(index, branches, *rest)
    if name == "scan":
        return _scan(equation, inputs)
    if name == "while":
        return _while(equation, inputs)

    def bind(*inputs: Array) -> list[Array]:
        found = equation.primitive.bind(*inputs, **params)
        return list(found) if equation.primitive.multiple_results else [found]

    keys = [_has_keys(x) for x in equation.invars]
    if not any(keys):
        return bind(*inputs)
    # Other primitives act on both integers of a key alike, so map over their axis.
    outputs = [-1 if _has_keys(x) else None for x in equation.outvars]
    try:
        return jax.vmap(bind, [-1 if key else None for key in keys], outputs)(*inputs)
    except ValueError as error:
        raise ValueError(
            f"The program uses random keys in a way ({name}) that cannot be exported."
        ) from error


def _has_keys(x: core.Var | core.Literal) -> bool:
    return _is_key(x.val if isinstance(x, core.Literal) else x.aval)


def _scan(equation: core.JaxprEqn, inputs: Sequence[Array]) -> Sequence[Array]:
    params = equation.params
    fixed, carried = params["num_consts"], params["num_carry"]
    own, first = inputs[:fixed], inputs[fixed : fixed + carried]
    body = functools.partial(_run, params["jaxpr"].jaxpr, params["jaxpr"].consts, *own)

    def step(
        carry: tuple[Array, ...], xs: tuple[Array, ...]
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        found = body(*carry, *xs)
        return tuple(found[:carried]), tuple(found[carried:])

    rest = tuple(inputs[fixed + carried :])
    last, rows = jax.lax.scan(
        step, tuple(first), rest, length=params["length"], reverse=params["reverse"]
    )
    return [*last, *rows]


def _while(equation: core.JaxprEqn, inputs: Sequence[Array]) -> Sequence[Array]:
    params = equation.params
    asked, fixed = params["cond_nconsts"], params["body_nconsts"]
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    of_test, of_body, first = inputs[:asked], inputs[asked : asked + fixed], inputs[asked + fixed :]
    return jax.lax.while_loop(
        lambda carry: _run(test.jaxpr, test.consts, *of_test, *carry)[0],
        lambda carry: tuple(_run(body.jaxpr, body.consts, *of_body, *carry)),
        tuple(first),
    )


def threefry(
    key1: UInt32[Array, "..."],
    key2: UInt32[Array, "..."],
    count1: UInt32[Array, "..."],
    count2: UInt32[Array, "..."],
) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
    2011), in additions, shifts and exclusive ors.

    **Arguments:**

    - `key1`, `key2`: the key.
    - `count1`, `count2`: the block of the counter.

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
    return x, y


def _each(function: Callable[..., Array], axes: int, *arrays: Shaped[Array, "..."]) -> Array:
    """Maps a function over the first axes of arrays."""
    for _ in range(axes):
        function = jax.vmap(function)
    return function(*arrays)


def _as_float(bits: UInt32[Array, "..."], *, new_dtype: object) -> Float32[Array, "..."]:
    """The float32 with these bits, exactly; it must not be subnormal. A table has the sign and
    power of two, which are multiplied by the mantissa.
    """
    if new_dtype != jnp.float32 or bits.dtype != jnp.uint32:
        raise ValueError(f"Bits of {bits.dtype} cannot be read as {new_dtype}.")
    powers = np.arange(512, dtype=np.uint32) << np.uint32(23)
    table = jnp.asarray(powers.view(np.float32))
    mantissa = (bits & jnp.uint32(0x7FFFFF)).astype(jnp.int32).astype(jnp.float32)
    which = jax.lax.shift_right_logical(bits, jnp.uint32(23)).astype(jnp.int32)
    return table[which] * (1 + mantissa * np.float32(2**-23))


_RANDOM: dict[str, Callable[..., Array]] = {
    "random_split": lambda keys, *, shape: _each(
        lambda key: threefry_prng_impl.split(key, shape), keys.ndim - 1, keys
    ),
    "random_bits": lambda keys, *, bit_width, shape: _each(
        lambda key: threefry_prng_impl.random_bits(key, bit_width, shape), keys.ndim - 1, keys
    ),
    "random_fold_in": lambda keys, data: _each(
        threefry_prng_impl.fold_in,
        keys.ndim - 1,
        keys,
        jnp.broadcast_to(data.astype(jnp.uint32), keys.shape[:-1]),
    ),
    "random_seed": lambda seeds, *, impl: _each(threefry_prng_impl.seed, seeds.ndim, seeds),
    "stack": lambda *arrays, axis, **_: jnp.concatenate(
        [jnp.expand_dims(x, axis) for x in arrays], axis
    ),
    "bitcast_convert_type": _as_float,
    "random_wrap": lambda data, *, impl: data,
    "random_unwrap": lambda keys: keys,
}
