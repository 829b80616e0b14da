"""Agents that leave for some steps: what they do, what is seen of them, and where they return."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqgrid import AutoReset, check_env
from eqgrid.grid import (
    MOVES,
    AbstractEnding,
    AbstractPhase,
    AbstractReward,
    ComeBack,
    Features,
    Go,
    GridWorld,
    Kind,
    Kinds,
    Layout,
    LocalCollision,
    Others,
    OwnAway,
    Planes,
    RuleEvents,
    StatePlanes,
    Stay,
    Use,
    WeightedEventReward,
    plane_names,
    send_away,
)

KINDS = Kinds((Kind("floor", " "), Kind("wall", "#", solid=True), Kind("bed", "B")))
ROOM = Layout.parse("######\n#12  #\n#BB  #\n######", KINDS)
STAY, ZAP = 4, 5
STEPS = 3


@final
class Zap(AbstractPhase):
    """Who zaps sends the other one away."""

    def __call__(self, step):
        hit = step.uses()[::-1] & step.world.bodies.active
        return step.then(send_away(step.world, hit, STEPS), Zap, hit)


@final
class TeamReward(AbstractReward):
    def __call__(self, step):
        return jnp.ones(step.world.num_agents, jnp.float32)


@final
class Hits(AbstractReward):
    """Every agent gets the number of agents that are hit."""

    def __call__(self, step):
        return jnp.full(step.world.num_agents, step.by(Zap).sum(dtype=jnp.float32))


@final
class EndsAtFive(AbstractEnding):
    """Everyone terminates in the fifth step."""

    def __call__(self, step):
        return jnp.broadcast_to(step.world.time >= 5, (step.world.num_agents,))


def world_of(layout=ROOM, *, back=None, last=True, **parts):
    back = ComeBack() if back is None else back
    phases = (Go(LocalCollision()), *((Zap(), back) if last else (back, Zap())))
    return GridWorld(
        layout,
        actions=(*MOVES, Stay(), Use("zap")),
        phases=phases,
        reward=parts.pop("reward", WeightedEventReward({"hit": -1.0}, ("hit",))),
        events=RuleEvents(hit=Zap),
        horizon=20,
        **parts,
    )


def play(env, actions, seed=0):
    """All worlds and time steps; the first one is the start."""
    step = eqx.filter_jit(env.step)
    _, world = env.reset(jax.random.key(seed))
    worlds, timesteps = [world], [None]
    for number, action in enumerate(actions):
        timestep, world = step(jax.random.key(100 * seed + number), world, jnp.asarray(action))
        worlds.append(world)
        timesteps.append(timestep)
    return worlds, timesteps


@pytest.mark.parametrize("last", [True, False])
def test_who_leaves_does_nothing_for_some_steps_and_comes_back(last):
    actions = [[ZAP, STAY], *[[STAY, ZAP]] * STEPS, [STAY, STAY]]
    worlds, timesteps = play(world_of(last=last), actions)
    active = [world.bodies.active.tolist() for world in worlds]
    assert active == [[True, True], *[[True, False]] * STEPS, [True, True], [True, True]]
    for timestep in timesteps[1:]:
        assert not timestep.terminated.any()
    assert [t.info["events"][:, 0].tolist() for t in timesteps[1:]] == [[0, 1], *[[0, 0]] * 4]


@pytest.mark.parametrize("last", [True, False])
def test_an_agent_that_is_back_and_leaves_again_in_the_same_step_is_counted(last):
    """As a naive loop that notes each hit and each return."""
    world = world_of(last=last)
    events = RuleEvents(hit=Zap, back=ComeBack)
    env = eqx.tree_at(lambda x: (x.events, x.reward), world, (events, Hits()))
    _, timesteps = play(env, [[ZAP, STAY]] * 2 * STEPS)
    away, expected = 0, []
    for _ in timesteps[1:]:
        comes, away = away == 1, max(away - 1, 0)
        hit = not (comes and last) and away == 0
        away = STEPS if hit else away
        expected.append([int(hit), int(comes)])
    assert [t.info["events"][1].tolist() for t in timesteps[1:]] == expected
    assert [t.reward.tolist() for t in timesteps[1:]] == [[hit, hit] for hit, _ in expected]
    assert sum(hit for hit, _ in expected) == 2


def test_nobody_bumps_into_an_agent_that_is_away_or_sees_it():
    worlds, timesteps = play(
        world_of(observation=Features((Others(), OwnAway()))), [[ZAP, STAY], [2, 0], [2, 0]]
    )
    assert worlds[2].bodies.position[0].tolist() == [1, 2]  # where agent 2 stood
    assert (timesteps[1].observation[0] == 0).all()
    assert timesteps[1].observation[1, -1] == pytest.approx(STEPS / 100)
    planes = world_of().observe(worlds[1])
    names = plane_names(KINDS)
    assert not planes[0, ..., names.index("other")].any()
    assert not planes[1, ..., names.index("own")].any()


def test_critics_see_when_an_agent_comes_back():
    env = world_of(observation=StatePlanes())
    worlds, _ = play(env, [[ZAP, STAY]])
    before, after = (np.asarray(env.observe(world)) for world in worlds)
    assert (after[0, ..., -2] == STEPS).all()  # of the other one, before the remaining steps
    assert (before[0, ..., -2] == 0).all()


@pytest.mark.parametrize(
    ("back", "seeds", "places"),
    [
        (ComeBack(), 40, {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4)}),
        (ComeBack(("bed",)), 12, {(2, 1), (2, 2)}),
    ],
    ids=["free cells", "named tiles"],
)
def test_they_come_back_to_all_cells_that_are_allowed(back, seeds, places):
    found = set()
    for seed in range(seeds):
        worlds, _ = play(world_of(back=back), [[ZAP, STAY], *[[STAY, STAY]] * STEPS], seed)
        found.add(tuple(worlds[-1].bodies.position[1].tolist()))
    assert found == places


def test_two_that_return_at_once_stand_in_two_cells():
    for seed in range(12):
        worlds, _ = play(world_of(), [[ZAP, ZAP], *[[STAY, STAY]] * STEPS], seed)
        assert worlds[1].bodies.active.tolist() == [False, False]
        position = worlds[-1].bodies.position.tolist()
        assert worlds[-1].bodies.active.all()
        assert position[0] != position[1]


def test_who_finds_no_free_cell_waits():
    one_bed = Layout.parse("#####\n#12B#\n#####", KINDS)
    env = world_of(one_bed, back=ComeBack(("bed",)))
    walk = [[2, STAY], [2, STAY], [STAY, STAY], [STAY, STAY], [3, STAY]]
    worlds, _ = play(env, [[ZAP, STAY], *walk])
    assert [bool(world.bodies.active[1]) for world in worlds] == [True, *[False] * 5, True]
    assert worlds[-1].bodies.position.tolist() == [[1, 2], [1, 3]]


def test_being_away_is_not_the_end_but_an_ending_ends_it():
    env = world_of(ending=EndsAtFive(), reward=TeamReward())
    actions = [[STAY, STAY], [STAY, STAY], [ZAP, STAY], [STAY, STAY], [STAY, STAY], [STAY, STAY]]
    worlds, timesteps = play(env, actions)
    assert [t.terminated.tolist() for t in timesteps[1:]] == [*[[False] * 2] * 4, *[[True] * 2] * 2]
    assert [t.reward.tolist() for t in timesteps[1:]] == [*[[1.0, 1.0]] * 5, [0.0, 0.0]]
    assert worlds[5].bodies.away.tolist() == [0, 0]


def test_a_world_with_agents_that_leave_follows_the_protocol():
    check_env(AutoReset(world_of(observation=Planes(radius=1))), steps=40)


def test_what_cannot_be_is_refused():
    without = GridWorld(
        ROOM,
        actions=(*MOVES, Stay(), Use("zap")),
        phases=(Zap(),),
        ending=EndsAtFive(),
        reward=WeightedEventReward({}, ()),
    )
    _, world = without.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="give the world a phase `ComeBack`"):
        without.step(jax.random.key(0), world, jnp.asarray([4, 4]))
    _, world = world_of().reset(jax.random.key(0))
    for steps in (0, 40_000):
        with pytest.raises(ValueError, match="leave for 1 to 32,767 steps"):
            send_away(world, jnp.ones(2, bool), steps)
