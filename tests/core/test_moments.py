import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from eqgrid import RunningMoments

numbers = st.floats(-100, 100, width=32)
# Two sizes of batch only, as every new one compiles anew.
batches = st.lists(st.sampled_from([1, 5]), min_size=1, max_size=6).flatmap(
    lambda sizes: st.tuples(*(hnp.arrays(np.float32, (n, 2), elements=numbers) for n in sizes))
)


def moments_of(batches):
    moments = RunningMoments.empty((2,))
    for batch in batches:
        moments = moments.update(jnp.asarray(batch))
    return moments


def assert_moments(moments, samples):
    """The moments are NumPy's, of all samples at once in double precision."""
    samples = samples.astype(np.float64)
    assert moments.count == len(samples)
    np.testing.assert_allclose(moments.mean, samples.mean(axis=0), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(moments.variance, samples.var(axis=0), rtol=1e-3, atol=1e-2)


@settings(deadline=None, max_examples=40)
@given(batches)
def test_update_equals_numpy(batches):
    assert_moments(moments_of(batches), np.concatenate(batches))


@settings(deadline=None, max_examples=20)
@given(batches, batches)
def test_merge_equals_numpy_in_either_order(left, right):
    a, b = moments_of(left), moments_of(right)
    for merged in (a.merge(b), b.merge(a)):
        assert_moments(merged, np.concatenate([*left, *right]))


def test_merge_with_nothing_changes_nothing(key):
    some = moments_of([np.array([[1.0, 5.0], [3.0, 9.0]], np.float32)])
    empty = RunningMoments.empty((2,))
    for merged in (some.merge(empty), empty.merge(some)):
        assert_moments(merged, np.array([[1.0, 5.0], [3.0, 9.0]]))
    assert empty.merge(empty).count == 0
    assert jnp.isfinite(empty.merge(empty).mean).all()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_shapes(key, shape):
    samples = jax.random.normal(key, (50, *shape))
    moments = RunningMoments.empty(shape).update(samples)
    assert moments.mean.shape == moments.variance.shape == shape
    standardize = jax.vmap(moments.standardize, in_axes=(0, None, None))
    standard = standardize(samples, jnp.asarray(1e-8), jnp.inf)
    np.testing.assert_allclose(standard.mean(axis=0), np.zeros(shape), atol=1e-5)
    np.testing.assert_allclose(standard.std(axis=0), np.ones(shape), rtol=1e-5)


def test_a_large_offset_does_not_eat_a_small_spread(key):
    """In float32 the mean of squares less the square of the mean has no correct digit here."""
    samples = 10_000.0 + 0.1 * jax.random.normal(key, (200, 64, 1))
    moments, _ = jax.lax.scan(lambda m, x: (m.update(x), None), RunningMoments.empty((1,)), samples)
    exact = np.asarray(samples, np.float64).reshape(-1, 1)
    np.testing.assert_allclose(moments.variance, exact.var(axis=0), rtol=0.02)
    np.testing.assert_allclose(moments.mean, exact.mean(axis=0), atol=2e-3)


def test_a_constant_has_no_variance():
    samples = jnp.full((7, 1), 0.1)
    moments = RunningMoments.empty((1,))
    for _ in range(20):
        moments = moments.update(samples)
    np.testing.assert_allclose(moments.variance, [0.0], atol=1e-14)
    np.testing.assert_allclose(
        moments.standardize(samples[0], jnp.asarray(1e-8), jnp.inf), [0.0], atol=1e-3
    )


def test_samples_of_another_shape_are_named():
    moments = RunningMoments.empty((3,))
    sentence = r" must have the shape \(3,\) of the moments, but has \(2,\)"
    with pytest.raises(ValueError, match=f"Each sample{sentence}"):
        moments.update(jnp.zeros((5, 2)))
    with pytest.raises(ValueError, match=f"The sample{sentence}"):
        moments.standardize(jnp.zeros(2), jnp.asarray(1e-8), jnp.inf)
    with pytest.raises(ValueError, match=f"Each sample of `other`{sentence}"):
        moments.merge(RunningMoments.empty((2,)))


def test_empty_moments_leave_things_as_they_are():
    moments = RunningMoments.empty((2,))
    x = jnp.array([3.0, -4.0])
    np.testing.assert_array_equal(moments.standardize(x, jnp.asarray(0.0), jnp.inf), x)
