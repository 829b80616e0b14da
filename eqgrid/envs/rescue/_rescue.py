"""Search and rescue, composed of parts of the grid engine."""

from collections.abc import Mapping, Sequence
from typing import Literal, final

from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    AbstractGridWorld,
    AbstractInteraction,
    AbstractObservation,
    AbstractPhase,
    AbstractStart,
    Action,
    Forward,
    Go,
    Interact,
    Layout,
    LocalCollision,
    Rotate,
    Stay,
    WeightedEventReward,
    choose_observation,
)
from ._observations import RolePlanes, rescue_features
from ._rules import (
    EVENT_NAMES,
    PICKUP,
    TOGGLE,
    AllRescued,
    CarryOut,
    Clear,
    Heal,
    Lift,
    Open,
    PickUp,
    PutDown,
    RescueEvents,
    SharedRescueReward,
)
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
"""The default shaping rewards for steps towards a rescue. Dropping an object, or leaving a red
victim, costs the reward for picking it up, or reaching it, so that repeating both gives nothing.
"""

ACTIONS: tuple[Action, ...] = (Rotate("left"), Rotate("right"), Forward(), Stay(), PICKUP, TOGGLE)
"""Turn left, turn right, go forward, stay, pick up or put down, and toggle, in this order."""

RULES: tuple[AbstractInteraction, ...] = (
    PickUp(),
    PutDown(),
    CarryOut(),
    Clear(),
    Open(),
    Heal(),
)
"""The interaction rules, which each rescuer applies on its turn."""

PHASES: tuple[AbstractPhase, ...] = (Interact(RULES), Lift(), Go(LocalCollision()))
"""The phases of a step: interactions one after the other, joint lifting, and movement."""


@final
class Rescue(AbstractGridWorld):
    """A building in which medics and engineers look for victims and bring all of them out.

    Every rescuer has six actions: turn left, turn right, go forward, stay, pick up or put down, and
    toggle; any other number means stay. All rescuers get a reward of 1 for every victim that any of
    them rescues. They terminate when no victim is left, and an episode is truncated after `horizon`
    steps.

    ```python
    from eqgrid.envs.rescue import Rescue

    env = Rescue("small")
    ```
    """

    def __init__(
        self,
        layout: str | Layout = "small",
        *,
        horizon: Int[ArrayLike, ""] = 250,
        radius: int | None = 3,
        observation: Literal["planes", "features"] | AbstractObservation = "planes",
        roles: Sequence[RoleName] | None = None,
        starts: tuple[AbstractStart, ...] = (),
        shaping: Mapping[str, Real[ArrayLike, ""]] = SHAPING,
    ):
        """**Arguments:**

        - `layout`: the site: `"small"`, `"large"`, a text or a `Layout`; see `parse_site`.
        - `horizon`: the number of steps after which an episode is truncated.
        - `radius`: the range of sight in cells for `"planes"`; the whole site if it is `None`.
        - `observation`: `"planes"` (`RolePlanes`), `"features"` (`rescue_features`), or an
            `AbstractObservation`.
        - `roles`: `"medic"` or `"engineer"` for every rescuer; by default as in the layout.
        - `starts`: random changes to the initial state, applied in this order; none by default.
        - `shaping`: the amount that each event of `EVENT_NAMES` adds to the shaping reward of the
            rescuer that caused it.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        site = load_site(layout)
        if roles is not None:
            site = with_roles(site, roles)
        check_site(site)
        views = {"planes": lambda: RolePlanes(radius), "features": rescue_features}
        super().__init__(
            site,
            actions=ACTIONS,
            phases=PHASES,
            reward=SharedRescueReward(),
            shaping=WeightedEventReward(shaping, EVENT_NAMES),
            events=RescueEvents(),
            ending=AllRescued(),
            observation=choose_observation(observation, views),
            starts=starts,
            horizon=horizon,
        )
