import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqgrid import batched_cond


def asked(flag, x, table):
    """Looks `x` up where the flag is set."""
    return batched_cond(flag, lambda x, table: table[x] * 2, lambda x, table: -x, x, table)


FLAGS = np.array([[False, True, False], [False, False, False]])
X = np.array([[3, 1, 2], [0, 1, 3]])
TABLE = np.array([[10, 20, 30, 40], [50, 60, 70, 80]])


@pytest.mark.parametrize("jit", [False, True])
def test_it_chooses_in_every_element_of_a_batch(jit):
    both = jax.vmap(jax.vmap(asked, (0, 0, None)))
    out = (jax.jit(both) if jit else both)(FLAGS, X, TABLE)
    naive = [
        [table[x] * 2 if flag else -x for flag, x in zip(flags, row, strict=True)]
        for flags, row, table in zip(FLAGS, X, TABLE, strict=True)
    ]
    np.testing.assert_array_equal(out, naive)


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0)])
def test_what_has_no_batch_is_shared(flag, axes):
    inputs = (np.asarray(flag), np.asarray(2), TABLE[0])
    batched = [
        x if axis is None else np.stack([x] * 5) for x, axis in zip(inputs, axes, strict=True)
    ]
    np.testing.assert_array_equal(jax.vmap(asked, axes)(*batched), [60 if flag else -2] * 5)


@pytest.mark.parametrize("flags", [FLAGS, FLAGS & False])
def test_what_nobody_asks_for_is_not_computed(flags):
    calls = []

    def look(x):
        jax.debug.callback(lambda x: calls.append(int(x)), x)
        return x * 2

    def one(flag, x):
        return batched_cond(flag, look, lambda x: x, x)

    jax.block_until_ready(jax.jit(jax.vmap(jax.vmap(one)))(flags, X))
    jax.effects_barrier()
    assert len(calls) == (X.size if flags.any() else 0)


def test_operands_may_hold_what_is_no_array():
    def use(flag, x):
        return batched_cond(flag, lambda f, x: f(x), lambda f, x: x, jnp.negative, x)

    np.testing.assert_array_equal(jax.vmap(use)(FLAGS[0], X[0]), [3, -1, 2])
