"""Harvest, a common-pool resource that is lost if it is used up, and Cleanup, a public good."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, final

import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, Real

from ..._functions import Partial
from ...grid import (
    AbstractGridWorld,
    AbstractObservation,
    Action,
    ComeBack,
    Direction,
    Egocentric,
    Forward,
    Go,
    Layout,
    LocalCollision,
    Planes,
    RandomDirections,
    RandomPositions,
    Rotate,
    RuleEvents,
    Sight,
    Stay,
    Strafe,
    Views,
    WeightedEventReward,
    choose_observation,
    faces,
    lying_cell,
    other_cell,
    tile_cell,
)
from ._kinds import CLEANING_BEAM, ZAP_BEAM
from ._layouts import ORCHARDS, RIVERS, check_orchard, check_river, load_layout
from ._rules import CLEAN, ZAP, BeamSize, Clean, Eat, GrowByCleanWater, Hit, Pollute, Regrow, Zap
from ._state import CHANGES, as_penalty, as_steps

HARVEST_ACTIONS: tuple[Action, ...] = (
    Stay(),
    Forward(),
    Strafe("back"),
    Strafe("left"),
    Strafe("right"),
    Rotate("left"),
    Rotate("right"),
    ZAP,
)
"""Stay, forward, back, left, right, turn left, turn right and zap, in the order of Melting Pot."""

REGROWTH = (0.0, 0.0025, 0.005, 0.025)
"""The probabilities per step that an apple grows, with 0, 1, 2, and 3 or more apples nearby, as in
Melting Pot's `commons_harvest__open`.
"""

_HARVEST_EVENTS = RuleEvents(apple=Eat, zap=Zap, zapped=Hit)


@final
class Harvest(AbstractGridWorld):
    """Harvest: apples grow again only where other apples are near. If agents eat all
    apples of a patch, no apples grow there again.

    An agent on an apple eats it and gets a reward of 1. A zapping beam sends the agents that it
    hits away for some steps. Agents start, and come back, at random places among the start cells,
    and start in random directions. Collisions are resolved by `LocalCollision`.

    Sources: the game was introduced by Janssen et al. (2010), Perolat et al. (2017) and Hughes et
    al. (2018). The defaults are the layout and the numbers of Melting Pot's `commons_harvest__open`
    (`configs/substrates/commons_harvest__open.py`), except that an episode always has 1000 steps.

    ```python
    from eqgrid.envs.commons import Harvest

    env = Harvest("small", shared=True)
    ```
    """

    def __init__(
        self,
        layout: str | Path | Layout = "open",
        *,
        num_agents: int | None = None,
        shared: bool = False,
        regrowth: Sequence[Real[ArrayLike, ""]] = REGROWTH,
        beam_length: int = 3,
        beam_radius: int = 1,
        cooldown: Int[ArrayLike, ""] = 2,
        away: Int[ArrayLike, ""] = 4,
        zap_cost: Real[ArrayLike, ""] = 0.0,
        zapped_cost: Real[ArrayLike, ""] = 0.0,
        radius: int = 5,
        observation: Literal["planes"] | AbstractObservation = "planes",
        horizon: Int[ArrayLike, ""] = 1000,
    ):
        """**Arguments:**

        - `layout`: `"open"`, `"small"`, a text, the path of a file with such a text, or a `Layout`
            of `KINDS`. In a text, `#` is a wall, `A` an orchard cell with an apple, `B` an orchard
            cell without an apple, and `P` or a digit a cell in which agents start.
        - `num_agents`: the number of agents; by default the number of digits in the text. Without
            digits, it is 7, or the number of start cells if that is smaller.
        - `shared`: whether every agent gets the sum of the rewards of all agents.
        - `regrowth`: the probability per step that an apple grows in an empty cell of the orchard,
            with 0, 1, 2... apples within a Euclidean distance of 2 cells. The last entry also
            applies to more apples.
        - `beam_length`: the reach of the beam ahead, in cells; see `cast`.
        - `beam_radius`: the reach of the beam to both sides, in cells.
        - `cooldown`: the number of steps after a shot in which the agent cannot fire again.
        - `away`: the number of steps for which an agent that is hit is away.
        - `zap_cost`: the cost of a shot.
        - `zapped_cost`: the cost of being hit.
        - `radius`: the window that an agent sees has `2 * radius + 1` rows and columns; see
            `orchard_view`.
        - `observation`: `"planes"`, a window that is turned the way the agent faces
            (`orchard_view`), or an `AbstractObservation`.
        - `horizon`: the number of steps after which an episode is truncated.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        orchard = load_layout(layout, ORCHARDS, num_agents)
        check_orchard(orchard)
        zap = Zap(BeamSize(beam_length, beam_radius, cooldown), as_steps(away, 1, "Being away"))
        super().__init__(
            orchard,
            actions=HARVEST_ACTIONS,
            phases=(Go(LocalCollision()), Regrow(regrowth), Eat(), zap, ComeBack()),
            reward=_reward(_HARVEST_EVENTS, zap_cost, zapped_cost, shared),
            events=_HARVEST_EVENTS,
            observation=choose_observation(observation, {"planes": lambda: orchard_view(radius)}),
            starts=(RandomPositions(), RandomDirections()),
            horizon=horizon,
            info=CHANGES,
        )


CLEANUP_ACTIONS: tuple[Action, ...] = (*HARVEST_ACTIONS, CLEAN)
"""The actions of Harvest, and then clean, in the order of Melting Pot."""

_CLEANUP_EVENTS = RuleEvents(apple=Eat, zap=Zap, zapped=Hit, clean=Clean)


@final
class Cleanup(AbstractGridWorld):
    """Cleanup: apples grow in an orchard only while a river is clean, and agents get no reward for
    cleaning it.

    An agent on an apple eats it and gets a reward of 1. The probability that an apple grows in an
    empty cell of the orchard falls linearly with the share of the river that is polluted. Cells of
    the river are polluted at random, and cleaned by a beam. A zapping beam sends the agents that it
    hits away. All other rules are as in `Harvest`.

    Sources: the game was introduced by Hughes et al. (2018). The defaults are the layout and the
    numbers of Melting Pot's `clean_up` (`configs/substrates/clean_up.py`), except that an episode
    always has 1000 steps.

    ```python
    from eqgrid.envs.commons import Cleanup

    env = Cleanup("small", shared=True)
    ```
    """

    def __init__(
        self,
        layout: str | Path | Layout = "river",
        *,
        num_agents: int | None = None,
        shared: bool = False,
        growth: Real[ArrayLike, ""] = 0.05,
        depletion: Real[ArrayLike, ""] = 0.4,
        restoration: Real[ArrayLike, ""] = 0.0,
        pollution: Real[ArrayLike, ""] = 0.5,
        delay: Int[ArrayLike, ""] = 50,
        beam_length: int = 3,
        beam_radius: int = 1,
        cooldown: Int[ArrayLike, ""] = 10,
        cleaning_cooldown: Int[ArrayLike, ""] = 2,
        away: Int[ArrayLike, ""] = 50,
        zap_cost: Real[ArrayLike, ""] = 0.0,
        zapped_cost: Real[ArrayLike, ""] = 0.0,
        radius: int = 5,
        observation: Literal["planes"] | AbstractObservation = "planes",
        horizon: Int[ArrayLike, ""] = 1000,
    ):
        """**Arguments:**

        - `layout`: `"river"`, `"small"`, a text, the path of a file with such a text, or a `Layout`
            of `KINDS`. In a text, `H` is a cell of the river, `F` a cell that is polluted at the
            start, and `S` water that stays clean; other characters are as in `Harvest`.
        - `num_agents`: the number of agents; by default the number of digits in the text. Without
            digits, it is 7, or the number of start cells if that is smaller.
        - `shared`: whether every agent gets the sum of the rewards of all agents.
        - `growth`: the largest probability per step that an apple grows in an empty cell.
        - `depletion`: the polluted share of the river at and above which no apples grow.
        - `restoration`: the polluted share at and below which apples grow at the largest rate; less
            than `depletion`.
        - `pollution`: the probability per step that another cell of the river is polluted.
        - `delay`: the number of steps at the beginning in which nothing is polluted.
        - `beam_length`: the reach of both beams ahead, in cells; see `cast`.
        - `beam_radius`: the reach of both beams to both sides, in cells.
        - `cooldown`: the number of steps after a shot in which the agent cannot fire the zapping
            beam again.
        - `cleaning_cooldown`: the same for the cleaning beam.
        - `away`: the number of steps for which an agent that is hit is away.
        - `zap_cost`: the cost of a shot of the zapping beam.
        - `zapped_cost`: the cost of being hit by the zapping beam.
        - `radius`: the window that an agent sees has `2 * radius + 1` rows and columns; see
            `river_view`.
        - `observation`: `"planes"`, a window that is turned the way the agent faces (`river_view`),
            or an `AbstractObservation`.
        - `horizon`: the number of steps after which an episode is truncated.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        river = load_layout(layout, RIVERS, num_agents)
        check_river(river)
        super().__init__(
            river,
            actions=CLEANUP_ACTIONS,
            phases=(
                Go(LocalCollision()),
                GrowByCleanWater(growth, depletion, restoration),
                Eat(),
                Zap(BeamSize(beam_length, beam_radius, cooldown), as_steps(away, 1, "Being away")),
                Clean(BeamSize(beam_length, beam_radius, cleaning_cooldown)),
                Pollute(pollution, delay),
                ComeBack(),
            ),
            reward=_reward(_CLEANUP_EVENTS, zap_cost, zapped_cost, shared),
            events=_CLEANUP_EVENTS,
            observation=choose_observation(observation, {"planes": lambda: river_view(radius)}),
            starts=(RandomPositions(), RandomDirections()),
            horizon=horizon,
            info=CHANGES,
        )


def _reward(
    events: RuleEvents,
    zap_cost: Real[ArrayLike, ""],
    zapped_cost: Real[ArrayLike, ""],
    shared: bool,
) -> WeightedEventReward:
    """The reward of both worlds: 1 for an apple, and the costs of zapping."""
    weights = {
        "apple": 1.0,
        "zap": as_penalty(zap_cost, "A shot"),
        "zapped": as_penalty(zapped_cost, "Being hit"),
    }
    return WeightedEventReward(weights, events.names, shared=shared)


ORCHARD_PLANES = (
    "wall",
    "orchard",
    "apple",
    "other_north",
    "other_south",
    "other_east",
    "other_west",
    "zap_beam",
    "can_zap",
)
"""The planes of `Harvest`. Directions are relative to the agent, which faces north: an agent that
comes towards it faces south. Cells outside the grid are walls. `can_zap` is 1 in all cells of the
grid if the agent can fire in the next step.
"""

RIVER_PLANES = (
    *ORCHARD_PLANES[:7],
    "river",
    "pollution",
    *ORCHARD_PLANES[7:],
    "cleaning_beam",
    "can_clean",
)
"""The planes of `Cleanup`."""


def orchard_view(radius: int = 5) -> Egocentric:
    """The observation of `Harvest`: a window with the planes `ORCHARD_PLANES`.

    **Arguments:**

    - `radius`: the window has `2 * radius + 1` rows and columns. The agent is in the middle of the
        second row from the bottom. With the default, it sees 9 cells ahead, 1 behind, and 5 to each
        side, as in Melting Pot.
    """
    return _window(Planes(_ORCHARD, radius, layers=_ZAP))


def river_view(radius: int = 5) -> Egocentric:
    """The observation of `Cleanup`: a window with the planes `RIVER_PLANES`.

    **Arguments:**

    - `radius`: as in `orchard_view`.
    """
    return _window(Planes((*_ORCHARD, *_RIVER), radius, layers=(*_ZAP, *_CLEAN)))


def _window(planes: Planes) -> Egocentric:
    """A window in which the agent is in the second row from the bottom, if the radius is not 0."""
    return Egocentric(planes, ahead=(planes.radius or 1) - 1)


def _wall(views: Views) -> np.ndarray:
    # Cells outside the grid have negative tiles.
    return views.is_tile("wall") | (views.tile < 0)


def _beam(number: int, sight: Sight) -> Bool[Array, "height width"]:
    return sight.cells.extra == number


def _can_fire(wait: str, sight: Sight) -> Bool[Array, ""]:
    return getattr(sight.world.extra, wait)[sight.agent] == 0


# The columns and the layers of `Planes`, in the order of `ORCHARD_PLANES` and `RIVER_PLANES`.
_ORCHARD = (
    _wall,
    Partial(tile_cell, "orchard"),
    Partial(lying_cell, "apple"),
    *(Partial(faces, other_cell, direction) for direction in Direction),
)
_RIVER = (Partial(tile_cell, "river"), Partial(lying_cell, "pollution"))
_ZAP = (Partial(_beam, ZAP_BEAM), Partial(_can_fire, "zap_wait"))
_CLEAN = (Partial(_beam, CLEANING_BEAM), Partial(_can_fire, "clean_wait"))
