"""The interface of observations."""

import abc

import equinox as eqx
from jaxtyping import Array, Int32, Shaped

from ..._types import PyTree
from .._world import World
from ..layouts._layout import Layout


class AbstractObservation(eqx.Module):
    """A function from the state to the observations of all agents."""

    @abc.abstractmethod
    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> PyTree[Shaped[Array, "agents ..."]]:
        """The observation of every agent; each array has a leading `agents` axis.

        **Arguments:**

        - `layout`: the tiles and parameters.
        - `world`: the state.
        - `steps_left`: the remaining steps of the episode.
        """
