"""Search and rescue: a site put together from parts of the grid engine."""

from collections.abc import Mapping, Sequence
from typing import Literal

from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    AbstractInteraction,
    AbstractObservation,
    AbstractPhase,
    AbstractStart,
    Action,
    Forward,
    Go,
    GridWorld,
    Interact,
    Layout,
    LocalCollision,
    Rotate,
    Stay,
    WeightedEventReward,
)
from ._events import EVENT_NAMES, AllRescued, RescueEvents, SharedRescueReward
from ._features import rescue_features
from ._interactions import PICKUP, TOGGLE, CarryOut, Clear, Heal, Open, PickUp, PutDown
from ._lift import Lift
from ._planes import RolePlanes
from ._sites import RoleName, check_site, load_site, with_roles

SHAPING = {
    "healing": 0.2,
    "clearing": 0.2,
    "opening": 0.2,
    "victim_pickup": 0.1,
    "victim_drop": -0.1,
    "key_pickup": 0.1,
    "key_drop": -0.1,
    "red_reach": 0.3,
    "red_leave": -0.3,
}
"""What is paid for steps towards a rescue. Who drops something, or leaves a red victim, gives back
what its pick-up, or coming, paid, so that nothing is earned by going round in circles."""

ACTIONS: tuple[Action, ...] = (Rotate("left"), Rotate("right"), Forward(), Stay(), PICKUP, TOGGLE)
"""Turn left, turn right, go forward, stay, pick up or put down, and toggle."""

RULES: tuple[AbstractInteraction, ...] = (
    PickUp(),
    PutDown(),
    CarryOut(),
    Clear(),
    Open(),
    Heal(),
)
"""What each rescuer does alone, one after the other."""

PHASES: tuple[AbstractPhase, ...] = (Interact(RULES), Lift(), Go(LocalCollision()))
"""The phases of a step: what each does alone, what they lift together, and how they move."""


def Rescue(
    layout: str | Layout = "small",
    *,
    horizon: Int[ArrayLike, ""] = 250,
    radius: int | None = 3,
    observation: Literal["planes", "features"] | AbstractObservation = "planes",
    roles: Sequence[RoleName] | None = None,
    starts: tuple[AbstractStart, ...] = (),
    shaping: Mapping[str, Real[ArrayLike, ""]] = SHAPING,
) -> GridWorld:
    """Medics and engineers look for victims, and bring all of them out.

    Every rescuer has six actions: turn left, turn right, go forward, stay, pick up or put down,
    and toggle; any other number means stay. Everybody is paid 1 for every victim that anyone
    rescues. The task of all is over when no victim is left; an episode is cut after `horizon`
    steps.

    **Arguments:**

    - `layout`: the site: `"small"`, `"large"`, a text or a `Layout`; see `parse_site`.
    - `horizon`: steps in an episode.
    - `radius`: how far a rescuer sees in planes, in cells, to every side; the whole site if it is
        `None`.
    - `observation`: `"planes"`, those of `RolePlanes`; `"features"`, those of `rescue_features`; or
        a Module of your own.
    - `roles`: `"medic"` or `"engineer"` for every rescuer; those of the layout unless given.
    - `starts`: what is random about the start of an episode, applied in this order; nothing by
        default.
    - `shaping`: what each event of `EVENT_NAMES` adds to the shaped reward of the rescuer that
        caused it.

    **Raises:** `ValueError` (a `LayoutError` for the site) with one sentence that says what to do.
    """
    site = load_site(layout)
    if roles is not None:
        site = with_roles(site, roles)
    check_site(site)
    return GridWorld(
        site,
        actions=ACTIONS,
        phases=PHASES,
        reward=SharedRescueReward(),
        shaping=WeightedEventReward(shaping, EVENT_NAMES),
        events=RescueEvents(),
        ending=AllRescued(),
        observation=_choose_observation(observation, radius),
        starts=starts,
        horizon=horizon,
    )


def _choose_observation(
    observation: str | AbstractObservation, radius: int | None
) -> AbstractObservation:
    if isinstance(observation, AbstractObservation):
        return observation
    if observation == "planes":
        return RolePlanes(radius)
    if observation == "features":
        return rescue_features()
    raise ValueError(f"There is no observation {observation!r}: choose planes or features.")
