"""The settings of training partners (`--partners.*`)."""

import dataclasses
from typing import Annotated

from jaxtyping import Array, Float
from msgspec import Meta

from eqgrid import AbstractEnv, OneOf, WithPartner, iter_wrappers

from ..base import DIFFERENT, Table, UsageError
from ..partners import (
    Partners,
    Parts,
    Place,
    absolute,
    expanded,
    marks_of,
)
from ..worlds import Share


@dataclasses.dataclass(frozen=True)
class PartnerSettings:
    """The settings of partners that replace one agent in a share of the training episodes."""

    share: Share = 0.0
    """Share of training episodes in which a partner replaces one agent."""
    share_steps: Annotated[int, Meta(ge=0, le=10**15)] = 0
    """Environment steps over which the share rises from 0; 0 for a constant share."""
    pool: Annotated[tuple[str, ...], DIFFERENT] = ()
    """Partners: policy files, runs with all their seeds, clones, greedy+noise=0.2 and so on; if
    none, the agents' own policy."""
    noise: tuple[Share, Share] = (0.0, 0.0)
    """Range of the probability that an action of a partner is random; each episode samples one."""

    def check(self) -> None:
        """**Raises:** `UsageError` for settings that contradict one another or have no effect."""
        low, high = self.noise
        if low > high:
            raise UsageError(f"--partners.noise {low:g} {high:g} is no range: swap the numbers.")
        if self.is_unused and self != PartnerSettings():
            raise UsageError(
                "Partners are set, but their share of episodes is 0: add --partners.share, such "
                "as 0.5."
            )
        if not (self.is_unused or self.pool or high):
            raise UsageError(
                "--partners.share has no effect alone: add --partners.pool or --partners.noise."
            )

    def around(self, place: Place, parts: Parts) -> AbstractEnv:
        """Wraps a world in `WithPartner`.

        **Arguments:**

        - `place`: the training world, with the observations of the agents before they are
            normalised.
        - `parts`: the user's own parts of policies.

        **Raises:** `UsageError` when the world has only one agent or a partner does not fit into
        it, and `CheckpointError` when a policy cannot be read.
        """
        if place.env.num_agents < 2:
            raise UsageError(
                "--partners.share needs a world with at least two agents: leave it out."
            )
        builder = Partners(parts, place.settings.name)
        names = expanded(self.pool, place.settings.title)
        partners = [builder.build(name, place).partner for name in names]
        among = OneOf(partners) if partners else None
        return WithPartner(place.env, among, share=self.share, noise=self.noise)

    def marks(self, layout: str, parts: Parts, own_world: str) -> list[Table]:
        """Identifies the policies among the partners, for policy files: see `marks_of`.

        **Arguments:**

        - `layout`: the layout of the run, for which models of people are chosen.
        - `parts`, `own_world`: as in `Partners`.
        """
        return marks_of(expanded(self.pool, layout), Partners(parts, own_world))

    @property
    def is_unused(self) -> bool:
        """Whether no episode has a partner."""
        return self.share == 0

    def found(self) -> "PartnerSettings":
        """The same settings with absolute paths of policies, so that a resumed run has the same
        partners.

        **Raises:** `CheckpointError` when a folder has no policy.
        """
        return dataclasses.replace(self, pool=absolute(self.pool)) if self.pool else self


def share_of_partners(env: AbstractEnv) -> Float[Array, ""]:
    """The share of the `WithPartner` in a stack of wrappers."""
    return next(x for x in iter_wrappers(env) if isinstance(x, WithPartner)).share
