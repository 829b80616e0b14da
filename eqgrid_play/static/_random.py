"""Rewrites JAX programs without typed random keys, for export.

Converters such as jax2onnx do not accept typed keys. `on_key_data` rewrites a function so that each
key is an array of two integers, and random numbers come from integer arithmetic (Threefry). The
rewritten function traces JAX's own implementation, so its results equal JAX's results bit for bit.
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
"""The primitives that call another program."""
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The rotation distances of Threefry-2x32."""


def as_data(tree: PyTree) -> PyTree[Shaped[Array, "..."]]:
    """The same arrays, with each key replaced by its key data, two integers."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, tree)


def on_key_data(
    function: Callable[..., PyTree], *arguments: PyTree
) -> tuple[Callable[..., list[Array]], list[jax.ShapeDtypeStruct]]:
    """Rewrites a function so that it takes and returns key data instead of keys.

    **Arguments:**

    - `function`: a function of arrays.
    - `arguments`: example arguments, whose values do not matter.

    **Returns:** the rewritten function, which maps the leaves of the arguments to the leaves of the
    result; and the shapes and dtypes of the leaves of the arguments.

    **Raises:** `ValueError` when the function uses keys in an operation that cannot be rewritten.
    """
    traced = jax.make_jaxpr(function)(*arguments)
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in jax.tree.leaves(as_data(arguments))]
    for _ in range(2):  # the second pass rewrites the calls inside JAX's own random functions
        run = functools.partial(_run_program, traced.jaxpr, traced.consts)
        traced = jax.make_jaxpr(run)(*shapes)
    return core.jaxpr_as_fun(traced), shapes


def _is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _run_program(jaxpr: core.Jaxpr, consts: Sequence[ArrayLike], *arguments: Array) -> list[Array]:
    """Evaluates a program, with key data in place of all keys."""
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
    """Evaluates one operation of a program."""
    name, params = equation.primitive.name, equation.params
    if name in _RANDOM:
        return [_RANDOM[name](*inputs, **params)]
    if name == "iota_2x32_shape":
        # 0, 1, 2, ... in the shape of an array, as upper and lower 32 bits.
        shape = params["shape"]
        numbers = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
        upper = jnp.asarray(numbers >> np.uint64(32), jnp.uint32)
        return upper, jnp.asarray(numbers, jnp.uint32)
    if name == "threefry2x32":
        return threefry(*inputs)
    if name in _CALLS:
        called = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
        consts = getattr(called, "consts", ())
        return _run_program(getattr(called, "jaxpr", called), consts, *inputs)
    if name == "cond":
        index, *rest = inputs
        branches = [functools.partial(_run_program, x.jaxpr, x.consts) for x in params["branches"]]
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
    # All other primitives treat both integers of a key alike, so map over the axis of the integers.
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
    num_fixed, num_carried = params["num_consts"], params["num_carry"]
    constants, inputs = inputs[:num_fixed], inputs[num_fixed:]
    first, sequences = inputs[:num_carried], inputs[num_carried:]
    program = params["jaxpr"]
    body = functools.partial(_run_program, program.jaxpr, program.consts, *constants)

    def step(
        carry: tuple[Array, ...], xs: tuple[Array, ...]
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        found = body(*carry, *xs)
        return tuple(found[:num_carried]), tuple(found[num_carried:])

    last, rows = jax.lax.scan(
        step, tuple(first), tuple(sequences), length=params["length"], reverse=params["reverse"]
    )
    return [*last, *rows]


def _while(equation: core.JaxprEqn, inputs: Sequence[Array]) -> Sequence[Array]:
    params = equation.params
    num_test, num_fixed = params["cond_nconsts"], params["body_nconsts"]
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    test_constants, inputs = inputs[:num_test], inputs[num_test:]
    body_constants, first = inputs[:num_fixed], inputs[num_fixed:]
    return jax.lax.while_loop(
        lambda carry: _run_program(test.jaxpr, test.consts, *test_constants, *carry)[0],
        lambda carry: tuple(_run_program(body.jaxpr, body.consts, *body_constants, *carry)),
        tuple(first),
    )


def threefry(
    key1: UInt32[Array, "..."],
    key2: UInt32[Array, "..."],
    count1: UInt32[Array, "..."],
    count2: UInt32[Array, "..."],
) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
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
    return x, y


def _map_axes(function: Callable[..., Array], axes: int, *arrays: Shaped[Array, "..."]) -> Array:
    """Maps a function over the first axes of arrays."""
    for _ in range(axes):
        function = jax.vmap(function)
    return function(*arrays)


def _bits_to_float(bits: UInt32[Array, "..."], *, new_dtype: object) -> Float32[Array, "..."]:
    """The float32 with these bits, which must not be subnormal. The result is exact: a table
    contains the signed powers of two, which are multiplied by the mantissa.
    """
    if new_dtype != jnp.float32 or bits.dtype != jnp.uint32:
        raise ValueError(f"Bits of {bits.dtype} cannot be read as {new_dtype}.")
    powers = np.arange(512, dtype=np.uint32) << np.uint32(23)
    table = jnp.asarray(powers.view(np.float32))
    mantissa = (bits & jnp.uint32(0x7FFFFF)).astype(jnp.int32).astype(jnp.float32)
    exponent = jax.lax.shift_right_logical(bits, jnp.uint32(23)).astype(jnp.int32)
    return table[exponent] * (1 + mantissa * np.float32(2**-23))


_RANDOM: dict[str, Callable[..., Array]] = {
    "random_split": lambda keys, *, shape: _map_axes(
        lambda key: threefry_prng_impl.split(key, shape), keys.ndim - 1, keys
    ),
    "random_bits": lambda keys, *, bit_width, shape: _map_axes(
        lambda key: threefry_prng_impl.random_bits(key, bit_width, shape), keys.ndim - 1, keys
    ),
    "random_fold_in": lambda keys, data: _map_axes(
        threefry_prng_impl.fold_in,
        keys.ndim - 1,
        keys,
        jnp.broadcast_to(data.astype(jnp.uint32), keys.shape[:-1]),
    ),
    "random_seed": lambda seeds, *, impl: _map_axes(threefry_prng_impl.seed, seeds.ndim, seeds),
    "stack": lambda *arrays, axis, **_: jnp.concatenate(
        [jnp.expand_dims(x, axis) for x in arrays], axis
    ),
    "bitcast_convert_type": _bits_to_float,
    "random_wrap": lambda data, *, impl: data,
    "random_unwrap": lambda keys: keys,
}
"""The primitives that need their own implementation on key data, by name."""
