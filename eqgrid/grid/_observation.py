"""What the agents see."""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32, Shaped, UInt8

from ._layout import Layout
from ._world import IDLE, Fixture, Heading, Ingredient, Item, World, cell_mask


class AbstractObservation(eqx.Module):
    """A view of the world for every agent."""

    @abc.abstractmethod
    def __call__(self, layout: Layout, world: World) -> Shaped[Array, "agents ..."]:
        """What every agent sees."""


@final
class Planes(AbstractObservation):
    """The 26 planes of `lossless_state_encoding` in Overcooked-AI, here `[agents, row, col,
    plane]`.

    | plane | what it marks |
    |---|---|
    | 0, 1 | where one is, where the others are |
    | 2-5, 6-9 | the same by heading (north, south, east, west), one's own and the others' |
    | 10-15 | pots, counters, onion, tomato and dish dispensers, serving hatches |
    | 16, 17 | onions and tomatoes in pots that have not been started |
    | 18, 19 | onions and tomatoes in all other soups, held ones too |
    | 20 | steps until the soup in a pot is ready (at most 255) |
    | 21 | ready soups |
    | 22-24 | dishes, onions, tomatoes, on counters and in hands |
    | 25 | ones everywhere when fewer than 40 steps are left |

    The reference knows two cooks only; with more, the planes of "the other" mark all others.

    **Arguments:**

    - `horizon`: how many steps an episode has, for plane 25.
    """

    horizon: Int32[Array, ""]

    def __init__(self, horizon: int | Int[Array, ""] = 400):
        self.horizon = jnp.asarray(horizon, jnp.int32)

    def __call__(self, layout: Layout, world: World) -> UInt8[Array, "agents height width 26"]:
        shape, bodies = layout.fixtures.shape, world.bodies
        here = [cell_mask(shape, position) for position in bodies.position]
        common = self._common_planes(layout, world, here)
        views = []
        for agent in range(world.num_agents):
            own = _body_planes(here[agent], bodies.heading[agent])
            others = [
                _body_planes(here[i], bodies.heading[i])
                for i in range(world.num_agents)
                if i != agent
            ]
            other = [sum(planes[1:], planes[0]) for planes in zip(*others, strict=True)] or [
                jnp.zeros_like(plane) for plane in own
            ]
            views.append(jnp.stack([own[0], other[0], *own[1:], *other[1:], *common], axis=-1))
        return jnp.stack(views)

    def _common_planes(
        self, layout: Layout, world: World, here: list[Bool[Array, "height width"]]
    ) -> list[UInt8[Array, "height width"]]:
        fixtures, held, cells = layout.fixtures, world.bodies.held, world.cells
        item, contents = cells.item, cells.contents
        for agent, mask in enumerate(here):  # a body stands on floor, where nothing else can be
            item = jnp.where(mask, held.item[agent], item)
            contents = jnp.where(mask[..., None], held.contents[agent], contents)
        pot = fixtures == Fixture.POT
        soup = item == Item.SOUP
        idle = pot & (cells.timer == IDLE)
        onions, tomatoes = contents[..., Ingredient.ONION], contents[..., Ingredient.TOMATO]
        nothing = jnp.zeros_like(item)
        built = (
            Fixture.POT,
            Fixture.COUNTER,
            Fixture.ONION_DISPENSER,
            Fixture.TOMATO_DISPENSER,
            Fixture.DISH_DISPENSER,
            Fixture.SERVING,
        )
        urgent = self.horizon - world.time < 40
        planes = [
            *(fixtures == fixture for fixture in built),
            jnp.where(idle, onions, nothing),
            jnp.where(idle, tomatoes, nothing),
            jnp.where(idle, nothing, onions),
            jnp.where(idle, nothing, tomatoes),
            jnp.clip(cells.timer, 0, 255),
            soup & (~pot | (cells.timer == 0)),
            item == Item.DISH,
            item == Item.ONION,
            item == Item.TOMATO,
            jnp.broadcast_to(urgent, fixtures.shape),
        ]
        return [plane.astype(jnp.uint8) for plane in planes]


def _body_planes(
    here: Bool[Array, "height width"], heading: Int[Array, ""]
) -> list[UInt8[Array, "height width"]]:
    """Where a body is, and then the same for each heading."""
    return [
        here.astype(jnp.uint8),
        *((here & (heading == way)).astype(jnp.uint8) for way in Heading),
    ]
