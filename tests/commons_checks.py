"""What the tests of the orchard and the river share: playing, and comparing with plain Python."""

import equinox as eqx
import jax
import jax.numpy as jnp
import naive_commons as naive
import numpy as np

from eqgrid.envs.commons import CLEANING_BEAM, KINDS, ORCHARD_PLANES, RIVER_PLANES, ZAP_BEAM
from eqgrid.grid import ComeBack, Direction

NAMES = {1: "apple", 2: "pollution"}
BEAMS = {ZAP_BEAM: "zap", CLEANING_BEAM: "clean"}
FACING = {direction: direction.name.lower() for direction in Direction}
RULES = {
    "beam_length": 3,
    "beam_radius": 1,
    "zap_cost": 0.0,
    "zapped_cost": 0.0,
    "shared": False,
}
_CLEANUP = {
    "cooldown": 10,
    "cleaning_cooldown": 2,
    "away": 50,
    "growth": 0.05,
    "depletion": 0.4,
    "restoration": 0.0,
    "pollution": 0.5,
    "delay": 50,
}
CHUNK = 500


def rules_of(regrowth, options):
    """The rules of Harvest for the plain loop."""
    return RULES | {"cooldown": 2, "away": 4, "regrowth": regrowth} | options


def cleanup_rules(options):
    """The rules of Cleanup for the plain loop."""
    return RULES | _CLEANUP | options


@eqx.filter_jit
def play(env, world, keys, actions):
    """Every timestep, and the state after it."""

    def step(world, inputs):
        timestep, world = env.step(inputs[0], world, inputs[1])
        return world, (timestep, world)

    return jax.lax.scan(step, world, (keys, actions))[1]


def site_of(layout):
    tiles = np.asarray(layout.tiles)
    return {
        (row, col): KINDS.tiles[tiles[row, col]].name
        for row in range(tiles.shape[0])
        for col in range(tiles.shape[1])
    }


def as_plain(world):
    """A state as the plain loop has it."""
    world = jax.tree.map(np.asarray, world)
    objects, beams, bodies, tally = world.cells.object, world.cells.extra, world.bodies, world.extra
    agents = []
    for i, place in enumerate(bodies.position.tolist()):
        counts = {
            name: int(getattr(tally, name)[i])
            for name in ("zap_wait", "clean_wait", "apples", "apple_steps", "present")
        }
        assert bodies.active[i] == (bodies.away[i] == 0)
        facing = FACING[Direction(int(bodies.direction[i]))]
        agents.append(
            {"place": tuple(place), "facing": facing, "away": int(bodies.away[i]), **counts}
        )
    return {
        "objects": {tuple(x): NAMES[int(objects[tuple(x)])] for x in np.argwhere(objects).tolist()},
        "beams": {tuple(x): BEAMS[int(beams[tuple(x)])] for x in np.argwhere(beams).tolist()},
        "agents": agents,
        "time": int(world.time),
    }


def draws_of(env, keys):
    """All that is random in the steps with these keys, as NumPy arrays."""
    phases = [type(phase).__name__ for phase in env.phases]
    shape = env.shape
    grows = next(i for i, name in enumerate(phases) if name in ("Regrow", "GrowByCleanWater"))
    back = phases.index(ComeBack.__name__)
    pollutes = phases.index("Pollute") if "Pollute" in phases else len(phases)

    @jax.jit
    @jax.vmap
    def draw(key):
        return {
            "grow": jax.random.uniform(jax.random.fold_in(key, grows), shape),
            "back": jax.random.uniform(jax.random.fold_in(key, back), (shape[0] * shape[1],)),
            "pollute": jax.random.uniform(jax.random.fold_in(key, pollutes), (2,)),
        }

    drawn = {name: np.asarray(x) for name, x in draw(keys).items()}
    return drawn | {"back": drawn["back"].reshape(-1, *shape)}


def random_actions(env, steps, seed):
    """Mostly walks, some shots, and now and then a number that is no action."""
    rng, count = np.random.default_rng(seed), len(env.actions)
    weights = np.asarray([1, 4, 1, 1, 1, 2, 2, *[2] * (count - 7)], float)
    actions = rng.choice(count, (steps, env.num_agents), p=weights / weights.sum())
    return np.where(rng.random(actions.shape) < 0.02, rng.choice([-1, count, 99]), actions)


def compare(env, rules, steps, *, seed, radius):
    """Plays `steps` random steps both ways, and asserts that everything is the same."""
    reset_key, key = jax.random.split(jax.random.key(seed))
    observation, world = eqx.filter_jit(env.reset)(reset_key)
    planes = RIVER_PLANES if "pollution" in rules else ORCHARD_PLANES
    site, plain, agents = site_of(env.layout), as_plain(world), range(env.num_agents)
    looks = [naive.look(site, plain, i, radius, planes) for i in agents]
    np.testing.assert_array_equal(observation, np.stack(looks))
    keys, actions = jax.random.split(key, steps), random_actions(env, steps, seed)
    seen_events = np.zeros(len(env.event_names), int)
    for first in range(0, steps, CHUNK):
        part = slice(first, first + CHUNK)
        draws = draws_of(env, keys[part])
        timesteps, worlds = play(env, world, keys[part], jnp.asarray(actions[part]))
        world = jax.tree.map(lambda x: x[-1], worlds)
        timesteps, worlds = jax.tree.map(np.asarray, (timesteps, worlds))
        for t in range(len(timesteps.reward)):
            drawn = {name: x[t] for name, x in draws.items()}
            plain, rewards, happened = naive.step(
                site, plain, actions[first + t].tolist(), rules, drawn
            )
            assert as_plain(jax.tree.map(lambda x, t=t: x[t], worlds)) == plain
            np.testing.assert_allclose(timesteps.reward[t], rewards, rtol=1e-6)
            events = [[name in names for name in env.event_names] for names in happened]
            assert timesteps.info["events"][t].tolist() == np.asarray(events, int).tolist()
            looks = [naive.look(site, plain, i, radius, planes) for i in agents]
            np.testing.assert_array_equal(timesteps.observation[t], np.stack(looks))
            assert not timesteps.terminated[t].any()
            assert timesteps.truncated[t] == (plain["time"] >= int(env.horizon))
            seen_events += np.asarray(events, int).sum(axis=0)
    return dict(zip(env.event_names, seen_events.tolist(), strict=True))
