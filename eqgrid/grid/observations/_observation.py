"""The interface of observations."""

import abc
from collections.abc import Callable, Mapping

import equinox as eqx
from jaxtyping import Array, Int32, Shaped

from ..._types import PyTree
from .._layout import Layout
from .._world import World


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


def choose_observation(
    observation: str | AbstractObservation,
    choices: Mapping[str, Callable[[], AbstractObservation]],
) -> AbstractObservation:
    """The observation that the user of a world has asked for.

    ```python
    from eqgrid.grid import Planes, choose_observation

    view = choose_observation("planes", {"planes": Planes})
    ```

    **Arguments:**

    - `observation`: a key of `choices`, or an observation of the user's own.
    - `choices`: the observations of the world by name, as functions that build them.

    **Raises:** `ValueError` when there is no such observation.
    """
    if isinstance(observation, AbstractObservation):
        return observation
    if isinstance(observation, str) and observation in choices:
        return choices[observation]()
    *names, last = choices
    known = f"{', '.join(names)} or {last}" if names else last
    raise ValueError(f"There is no observation {observation!r:.60}: choose {known}.")
