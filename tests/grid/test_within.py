"""Features of a window, in a game without timers whose agents leave it."""

import equinox as eqx
import jax
import numpy as np
import pytest

from eqgrid.envs.goals import Goals
from eqgrid.grid import NOTHING, Features, NearestObjects, Others

PARTS = (NearestObjects(("flag", "own_flag")), Others())


@pytest.mark.parametrize("radius", [1, 3])
def test_what_is_beyond_a_window_is_not_seen(key, radius):
    env = Goals("room", num_agents=3)

    @eqx.filter_jit
    def play(key):
        def step(world, key):
            action = jax.random.randint(key, (3,), 0, 5)
            envs = [env.with_observation(Features(PARTS, reach)) for reach in (radius, 20, None)]
            seen = [other.observe(world) for other in envs]
            return env.step(key, world, action)[1], (world, seen)

        return jax.lax.scan(step, env.reset(key)[1], jax.random.split(key, 60))[1]

    worlds, (near, far, all_seen) = jax.tree.map(
        np.asarray, jax.vmap(play)(jax.random.split(key, 8))
    )
    np.testing.assert_array_equal(far, all_seen)
    bodies, flags = worlds.bodies, worlds.cells.object != NOTHING
    gone = 0
    for game, time, agent in np.ndindex(*near.shape[:3]):
        places = bodies.position[game, time].astype(int)
        here, seen = places[agent], near[game, time, agent]
        cells = np.argwhere(flags[game, time])
        in_sight = (np.abs(cells - here) <= radius).all(axis=1)
        assert seen[[0, 3]].any() == in_sight.any()
        for k in (1, 2):
            other = (agent + k) % 3
            own = seen[6:].reshape(2, -1)[k - 1]
            active = bodies.active[game, time, other]
            gone += not active
            visible = active and (np.abs(places[other] - here) <= radius).all()
            assert own[2:6].sum() == float(visible), "the direction is one-hot"
    assert gone, "nobody has left the game"
