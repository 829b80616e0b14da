"""The next steps of a game, which slow pages get in advance: they show what a key does before the
server has heard of it.
"""

import operator

import jax
import numpy as np
from jaxtyping import Bool

from agents.files import is_key
from eqgrid.typing import PyTree

from ._live_game import LiveGame
from ._menu import Place
from ._messages import Ahead, Effect, TileSheet, layout_and_world, whole_frame


def steps_ahead(place: Place, game: LiveGame, tiles: TileSheet) -> list[Ahead]:
    """The next steps of a game.

    **Arguments:**

    - `place`: the world.
    - `game`: the game.
    - `tiles`: the pictures of cells.

    **Returns:** the steps; none if several people play, or if the steps are not compiled yet. The
    first call begins to compile them.
    """
    actions = np.stack([place.idle] * (1 + len(place.controls)))
    for own, control in zip(actions.reshape(len(actions), -1)[1:], place.controls, strict=True):
        own[control.choice] = control.action
    if (states := game.ahead(actions)) is None:
        return []
    (seat,) = (i for i, hands in enumerate(game.hands) if hands is not None)
    _, world = layout_and_world(place.drawn_layout, states)
    width = place.grid.shape[1]
    places = np.asarray(world.bodies.position) @ np.asarray([width, 1])
    poses = np.stack([places, world.bodies.direction], axis=-1).tolist()
    # Pictures are looked up for actions that change more than the pose of the agent.
    changed = _changed(world)
    worked = _changed((world.cells, world.bodies.held, world.bodies.extra, world.extra))
    found = []
    for step, (expected, _, *others) in enumerate(poses):
        effects = {}
        for i in np.flatnonzero(changed[step]).tolist():
            cell, direction = own = others[i][seat]
            effects[i] = Effect(own)
            if worked[step, i]:
                state = jax.tree.map(operator.itemgetter((step, 2 + i)), states)
                after = whole_frame(place.drawn_layout, state, 0, (), tiles, (), [seat])
                faced = cell + (-width, width, 1, -1)[direction]
                cells, _ = after.views.get(seat, (after.cells, ()))
                effects[i] = Effect(own, after.turned[seat], cells[faced])
        found.append(Ahead(expected, effects))
    return found


def _changed(tree: PyTree) -> Bool[np.ndarray, "steps actions"]:
    """Whether each action changes a tree, compared with staying."""
    leaves = [x[:, 1:] for x in jax.tree.leaves(tree) if not is_key(x)]
    differ = [(x[:, 1:] != x[:, :1]).reshape(*x[:, 1:].shape[:2], -1).any(-1) for x in leaves]
    return np.logical_or.reduce(differ)
