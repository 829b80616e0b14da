"""Kinds as values: what is refused when a world is built, and what becomes of a new kind."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import refused
from small_worlds import FLOOR, WALL, small_world

from eqgrid.envs.overcooked import ACTIONS, DYNAMICS, KINDS, Recipes, SharedDeliveryReward
from eqgrid.grid import GridWorld, Kind, KindError, Kinds, Layout, LayoutError, Planes, plane_names

ROOM = "#####\n#1 2#\n#   #\n#####"

REFUSALS = {
    "no floor": (lambda: Kinds((WALL,)), "first kind of tile must be a floor"),
    "one name": (lambda: Kinds((FLOOR, WALL), (Kind("wall"),)), "Two kinds have the name 'wall'"),
    "one character": (
        lambda: Kinds((FLOOR, WALL), (Kind("box", "#"),)),
        "Two kinds have the character '#'",
    ),
    "no character": (lambda: Kinds((FLOOR, Kind("door"))), "'door' needs a character"),
    "a digit": (lambda: Kinds((FLOOR, Kind("door", "7"))), "cannot have the character '7'"),
    "variants of a tile": (lambda: Kinds((FLOOR, Kind("door", "D", variants=2))), "its own kind"),
    "too many": (lambda: Kinds((FLOOR,), (Kind("x", variants=256),)), "has 257 codes"),
    "unknown tile": (lambda: Kinds((FLOOR, WALL)).tile("dor"), "no kind of tile 'dor'"),
    "unknown object": (lambda: Kinds((FLOOR, WALL)).code("key"), "no kind of object 'key'"),
    "no border": (lambda: Kinds((FLOOR,)).wall, "declare a kind of tile that is solid"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_used_is_refused_in_one_sentence(name):
    make, words = REFUSALS[name]
    with refused(words, KindError):
        make()


def test_a_number_that_no_kind_has_is_refused_when_the_world_is_built():
    kinds = Kinds((FLOOR, WALL), (Kind("box"),))
    layout = Layout.parse(ROOM, kinds)
    tiles = eqx.tree_at(lambda x: x.tiles, layout, layout.tiles.at[0, 0].set(8))
    lying = eqx.tree_at(lambda x: x.start.cells.object, layout, layout.tiles * 0 + jnp.uint8(9))
    held = eqx.tree_at(lambda x: x.start.bodies.held, layout, jnp.asarray([0, 2], jnp.uint8))
    for broken, words in ((tiles, "tile with the number 8"), (lying, "object with the number 9")):
        with pytest.raises(LayoutError, match=words):
            small_world(broken)
    with pytest.raises(LayoutError, match="held object with the number 2"):
        small_world(held)


def test_the_planes_of_any_game_are_named_and_one_hot():
    kinds = Kinds((FLOOR, WALL), (Kind("box", "B", carryable=True), Kind("gem", "G", variants=3)))
    layout = Layout.parse("#####\n#1B2#\n#G  #\n#####", kinds)
    gem = kinds.code("gem", 2)
    layout = eqx.tree_at(
        lambda x: x.start.cells.object, layout, layout.start.cells.object.at[2, 1].set(gem)
    )
    layout = eqx.tree_at(lambda x: x.start.bodies.held, layout, jnp.asarray([0, 1], jnp.uint8))
    env = small_world(layout, observation=Planes())
    seen = np.asarray(env.observe(layout.start))
    names = plane_names(kinds)
    marked = {
        name: {tuple(x): int(seen[0, *x, i]) for x in np.argwhere(seen[0, ..., i]).tolist()}
        for i, name in enumerate(names)
    }
    assert seen.shape == (2, 4, 5, len(names))
    assert marked["own"] == marked["own_north"] == {(1, 1): 1}
    assert marked["other"] == {(1, 3): 1}
    assert marked["box"] == {(1, 2): 1}
    assert marked["gem"] == {(2, 1): 3}
    assert marked["held_box"] == {(1, 3): 1}
    assert set(marked["wall"]) == {tuple(x) for x in np.argwhere(np.asarray(layout.tiles)).tolist()}


def test_a_carrot_is_no_soup():
    """A code behind those of the kitchen is carried, and neither cooked, delivered nor shown as
    something else."""
    kinds = dataclasses.replace(KINDS, objects=(*KINDS.objects, Kind("carrot", carryable=True)))
    layout = Layout.parse("XXPXX\nX1 2S\nX   X\nXXXXX", kinds, Recipes())
    carrot = kinds.code("carrot")
    held = jnp.full(2, carrot, jnp.uint8)
    layout = eqx.tree_at(lambda x: x.start.bodies.held, layout, held)
    env = GridWorld(
        layout, actions=ACTIONS, phases=DYNAMICS["classic"], reward=SharedDeliveryReward()
    )
    state = layout.start
    key = jax.random.key(0)
    for action in ([2, 2], [0, 5], [5, 4], [3, 4], [5, 4]):  # at the hatch, pot and counter
        timestep, state = env.step(key, state, jnp.asarray(action))
        assert timestep.reward.tolist() == [0.0, 0.0]
    assert state.bodies.held[1] == carrot
    assert not np.asarray(state.cells.object)[0, 2]
    assert env.render(state).ndim == 3
