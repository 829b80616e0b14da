"""The adapter to PettingZoo: all agents act at once."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from jaxtyping import Shaped, UInt8
from pettingzoo import ParallelEnv

from .._env import AbstractEnv, AbstractVectorEnv, unwrap
from ._episode import Episode, Screen, prepare, read_timestep
from ._spaces import action_space, observation_space, read_action


@final
class PettingZooEnv(ParallelEnv[str, np.ndarray, Any]):
    """An environment of eqgrid as PettingZoo has it; made by `to_pettingzoo`.

    - `world`: the environment that is played.
    - `possible_agents`: `agent_0`, `agent_1`, ...; all dicts are in this order.
    - `agents`: those whose task is not over; nobody before the first reset and after an episode.
    """

    def __init__(self, world: AbstractEnv, screen: Screen):
        self.world, self._episode = world, Episode(world)
        self._screen, self.render_mode = screen, screen.mode
        name = f"eqgrid_{type(unwrap(world)).__name__}"
        self.metadata = screen.metadata | {"name": name, "is_parallelizable": True}
        self.possible_agents = [f"agent_{i}" for i in range(world.num_agents)]
        self.agents: list[str] = []
        # One space for each agent, so that each has random numbers of its own.
        does, sees = action_space(world), observation_space(world)
        self.action_spaces = {name: copy.deepcopy(does) for name in self.possible_agents}
        self.observation_spaces: dict[str, Any] = {
            name: copy.deepcopy(sees) for name in self.possible_agents
        }
        self._idle = _some_action(self.action_spaces["agent_0"])
        self._random: np.random.Generator | None = None

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """What an agent can do."""
        return self.action_spaces[agent]

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """What an agent sees."""
        return self.observation_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Starts an episode.

        **Arguments:**

        - `seed`: everything random follows from it, in the episodes after this one, too.
        - `options`: are not used.

        **Returns:** what every agent sees, and an empty info for each.
        """
        if seed is not None or self._random is None:
            self._random, _ = seeding.np_random(seed)
        observation = self._episode.reset(self._random)
        self.agents = list(self.possible_agents)
        self._show()
        return self._by_agent(self.agents, observation), {name: {} for name in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, np.ndarray],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Advances by one action of every agent in `agents`. Those whose task ends then are in the
        returned dicts, and in none after that.

        **Returns:** observations, rewards, terminations, truncations and infos. An info has the
        entries of `TimeStep.info`: the agent's own row of those that lead with `agents`.

        **Raises:** `gymnasium.error.ResetNeeded` when no episode is being played; `ValueError` for
        an action that is missing, that nobody can do, or of an unknown agent.
        """
        if not self.agents:
            raise gymnasium.error.ResetNeeded("No episode is being played: call reset() first.")
        timestep = self._episode.step(self._read(actions))
        observation, reward, terminated, truncated, info = read_timestep(timestep)
        acted, cut = self.agents, bool(truncated)
        terminations = self._by_agent(acted, terminated.tolist())
        self.agents = [] if cut else [name for name in acted if not terminations[name]]
        self._show()
        return (
            self._by_agent(acted, observation),
            self._by_agent(acted, reward.tolist()),
            terminations,
            dict.fromkeys(acted, cut),
            {name: self._info_of(self.possible_agents.index(name), info) for name in acted},
        )

    def render(self) -> UInt8[np.ndarray, "rows columns 3"] | None:
        """The picture in the mode `rgb_array`; a window in the mode `human`."""
        return self._screen.draw(self._episode.state)

    def close(self) -> None:
        """Closes the window, if there is one."""
        self._screen.close()

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _read(self, actions: Mapping[str, Any]) -> Shaped[np.ndarray, "agents ..."]:
        """The actions of all agents, in order; those whose task is over do anything."""
        missing = [name for name in self.agents if name not in actions]
        unknown = [name for name in actions if name not in self.action_spaces]
        if missing or unknown:
            raise ValueError(
                f"step needs an action of each of {', '.join(self.agents)}, but got those of "
                f"{', '.join(map(str, actions)) or 'nobody'}."
            )
        return np.stack(
            [
                read_action(space, actions[name], name) if name in self.agents else self._idle
                for name, space in self.action_spaces.items()
            ]
        )

    def _by_agent(self, names: Iterable[str], values: Any) -> dict[str, Any]:
        everybody = dict(zip(self.possible_agents, values, strict=True))
        return {name: everybody[name] for name in names}

    def _info_of(self, agent: int, info: Mapping[str, Any]) -> dict[str, Any]:
        count = (len(self.possible_agents),)
        return {
            name: value[agent] if value.shape[:1] == count else value.copy()
            for name, value in info.items()
        }


def _some_action(space: gymnasium.spaces.Space[Any]) -> Shaped[np.ndarray, "..."]:
    low = space.low if isinstance(space, gymnasium.spaces.Box) else 0
    return np.asarray(low, space.dtype)


def to_pettingzoo(
    env: AbstractEnv | AbstractVectorEnv,
    *,
    max_cycles: int | None = None,
    render_mode: str | None = None,
) -> PettingZooEnv:
    """Shows an environment to PettingZoo, as a `ParallelEnv`.

    ```python
    from eqgrid import make
    from eqgrid.interop import to_pettingzoo

    env = to_pettingzoo(make("overcooked", layout="ring"))
    observations, infos = env.reset(seed=0)
    ```

    **Arguments:**

    - `env`: one environment, with any wrappers but `AutoReset`. Its observation must be one array.
    - `max_cycles`: cuts an episode after so many steps, as `TimeLimit` does.
    - `render_mode`: `"rgb_array"`, `"human"` or `None`.

    **Returns:** the environment for PettingZoo; `pettingzoo.utils.parallel_to_aec` makes its agents
    act one after the other.

    **Raises:** `ValueError` when PettingZoo cannot be shown such an environment or pictures of it,
    `TypeError` when `env` is none.
    """
    world = prepare(env, "to_pettingzoo(env)", max_cycles)
    return PettingZooEnv(world, Screen(world, render_mode))
