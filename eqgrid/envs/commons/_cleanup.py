"""Cleanup: a public good that somebody has to provide."""

from pathlib import Path
from typing import Literal

from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    AbstractObservation,
    Action,
    ComeBack,
    Go,
    GridWorld,
    Layout,
    LocalCollision,
    RandomDirections,
    RandomPositions,
    RuleEvents,
    WeightedEventReward,
    choose_observation,
)
from ._harvest import HARVEST_ACTIONS
from ._layouts import RIVERS, check_river, load_layout
from ._rules import CLEAN, BeamSize, Clean, Eat, GrowByCleanWater, Hit, Pollute, Zap
from ._state import CHANGES, as_cost, as_steps
from ._views import river_view

CLEANUP_ACTIONS: tuple[Action, ...] = (*HARVEST_ACTIONS, CLEAN)
"""The actions of Harvest, and then clean, in the order of Melting Pot."""

_EVENTS = RuleEvents(apple=Eat, zap=Zap, zapped=Hit, clean=Clean)


def Cleanup(
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
) -> GridWorld:
    """Builds a Cleanup environment: apples grow in an orchard only while a river is clean, and who
    cleans it earns nothing meanwhile.

    Whoever walks onto an apple eats it, and is paid 1. The probability that an apple grows in an
    empty cell of the orchard falls linearly with the share of the river that is polluted. Cells of
    the river are polluted at random, and cleaned by a beam. A zapping beam sends those whom it hits
    away. All else is as in `Harvest`.

    Sources: the game is that of Hughes et al. (2018). The defaults are the layout and the numbers
    of Melting Pot's `clean_up` (`configs/substrates/clean_up.py`), except that an episode always
    has 1000 steps.

    ```python
    from eqgrid.envs.commons import Cleanup

    env = Cleanup("small", shared=True)
    ```

    **Arguments:**

    - `layout`: `"river"`, `"small"`, a text, the path of a file with such a text, or a `Layout` of
        `KINDS`. In a text, `H` is a cell of the river, `F` one that is polluted at the start, and
        `S` water that stays clean; all else is as in `Harvest`.
    - `num_agents`: the number of agents; by default the number of digits in the text, or 7.
    - `shared`: whether every agent is paid what all agents earn together.
    - `growth`: the largest probability per step that an apple grows in an empty cell.
    - `depletion`: the polluted share of the river from which on no apples grow.
    - `restoration`: the share up to which they grow at the largest rate; less than `depletion`.
    - `pollution`: the probability per step that another cell of the river is polluted.
    - `delay`: the number of steps at the beginning in which nothing is polluted.
    - `beam_length`: the reach of both beams ahead, in cells; see `cast`.
    - `beam_radius`: the reach of both beams to both sides, in cells.
    - `cooldown`: the number of steps after a shot in which the agent cannot fire the zapping beam
        again.
    - `cleaning_cooldown`: the same for the cleaning beam.
    - `away`: the number of steps for which an agent that is hit is away.
    - `zap_cost`: what a shot of the zapping beam costs.
    - `zapped_cost`: what being hit by the zapping beam costs.
    - `radius`: half the side of the window that an agent sees, in cells; see `river_view`.
    - `observation`: `"planes"`, a window that is turned the way the agent faces (`river_view`), or
        an `AbstractObservation`.
    - `horizon`: the number of steps after which an episode is truncated.

    **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the layout.
    """
    valley = load_layout(layout, RIVERS, num_agents)
    check_river(valley)
    paid = {
        "apple": 1.0,
        "zap": as_cost(zap_cost, "A shot"),
        "zapped": as_cost(zapped_cost, "Being hit"),
    }
    return GridWorld(
        valley,
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
        reward=WeightedEventReward(paid, _EVENTS.names, shared=shared),
        events=_EVENTS,
        observation=choose_observation(observation, {"planes": lambda: river_view(radius)}),
        starts=(RandomPositions(), RandomDirections()),
        horizon=horizon,
        info=CHANGES,
    )
