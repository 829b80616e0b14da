import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqgrid import Box, Discrete


def test_discrete_samples_every_choice_and_nothing_else(key):
    space = Discrete(4)
    samples = jax.vmap(space.sample)(jax.random.split(key, 200))
    assert set(np.asarray(samples)) == {0, 1, 2, 3}
    assert jax.vmap(space.contains)(samples).all()


@pytest.mark.parametrize(("x", "inside"), [(-1, False), (0, True), (3, True), (4, False)])
def test_discrete_contains_its_bounds(x, inside):
    assert bool(Discrete(4).contains(jnp.asarray(x))) == inside


def test_box_samples_fill_the_box(key):
    space = Box(jnp.array([-1.0, 0.0]), 2.0, (2,))
    samples = jax.vmap(space.sample)(jax.random.split(key, 1000))
    assert samples.shape == (1000, 2)
    assert jax.vmap(space.contains)(samples).all()
    np.testing.assert_allclose(samples.min(axis=0), [-1.0, 0.0], atol=0.05)
    np.testing.assert_allclose(samples.max(axis=0), [2.0, 2.0], atol=0.05)


@pytest.mark.parametrize(
    ("x", "inside"),
    [([-1.0, 1.0], True), ([0.0, 0.0], True), ([0.0, 1.1], False), ([-1.1, 1.1], False)],
)
def test_box_contains_its_bounds(x, inside):
    assert bool(Box(-1.0, 1.0, (2,)).contains(jnp.array(x))) == inside


def test_box_refuses_bounds_of_another_shape():
    with pytest.raises(ValueError, match=r"broadcast to shape \(2,\): low has shape \(3,\)"):
        Box(jnp.zeros(3), 1.0, (2,))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(-np.inf, 1.0, "finite"), (0.0, np.nan, "finite"), (2.0, 1.0, "above the high one")],
)
def test_box_refuses_bounds_that_hold_nothing(low, high, words):
    with pytest.raises(ValueError, match=words):
        Box(low, high, (2,))


def test_the_widest_box_has_finite_samples(key):
    widest = float(np.finfo(np.float32).max)
    space = Box(-widest, widest, (100,))
    sample = space.sample(key)
    assert jnp.isfinite(sample).all()
    assert space.contains(sample)
    assert sample.min() < -widest / 2 < widest / 2 < sample.max()


def test_bounds_are_leaves_and_a_number_of_choices_is_not(key):
    highs = jnp.array([1.0, 10.0])
    boxes = eqx.filter_vmap(lambda high: Box(0.0, high, (100,)))(highs)
    samples = eqx.filter_vmap(lambda box: box.sample(key))(boxes)
    np.testing.assert_allclose(10 * samples[0], samples[1], rtol=1e-5)
    assert jax.tree.leaves(Discrete(3)) == []
