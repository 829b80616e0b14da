"""The adapter to PettingZoo's `ParallelEnv`, in which all agents act simultaneously."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, final

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from jaxtyping import Shaped, UInt8
from pettingzoo import ParallelEnv

from .._env import Environment, VectorEnvironment, unwrap
from .._spaces import split_mask
from ..typing import PyTree
from ._episode import (
    Action,
    Episode,
    Info,
    Screen,
    Space,
    action_mask,
    action_space,
    observation_space,
    read_action,
    read_timestep,
)
from ._foreign import check_episodes, entries_by_agent

_T = TypeVar("_T")

Observation: TypeAlias = Any
"""The observation of one agent: an array, or a dict with the array and the `action_mask`."""


@final
class PettingZooEnv(ParallelEnv[str, Observation, Action]):
    """An environment as a PettingZoo `ParallelEnv`, made by `to_pettingzoo`.

    - `world`: the wrapped environment of eqgrid.
    - `possible_agents`: the agents `agent_0`, `agent_1`, and so on. All returned dicts have this
        order.
    - `agents`: the agents that have not terminated. The list is empty before the first reset and
        after an episode.
    """

    def __init__(self, world: Environment, screen: Screen):
        self.world, self._episode = world, Episode(world)
        self._per_agent = entries_by_agent(world)
        self._screen, self.render_mode = screen, screen.mode
        name = f"eqgrid_{type(unwrap(world)).__name__}"
        self.metadata = screen.metadata | {"name": name, "is_parallelizable": True}
        self.possible_agents = [f"agent_{i}" for i in range(world.num_agents)]
        self.agents: list[str] = []
        # Each agent has its own copy of the spaces, so that they can be seeded separately.
        actions, observations = action_space(world), observation_space(world, masks=True)
        self.action_spaces = {name: copy.deepcopy(actions) for name in self.possible_agents}
        self.observation_spaces = {
            name: copy.deepcopy(observations) for name in self.possible_agents
        }
        # Agents that have terminated get an arbitrary valid action, the lowest one.
        low = actions.low if isinstance(actions, gymnasium.spaces.Box) else 0
        self._placeholder = np.full(actions.shape or (), low, actions.dtype)
        self._random: np.random.Generator | None = None

    def action_space(self, agent: str) -> Space:
        """The action space of an agent."""
        return self.action_spaces[agent]

    def observation_space(self, agent: str) -> Space:
        """The observation space of an agent."""
        return self.observation_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Starts an episode.

        **Arguments:**

        - `seed`: the seed of this episode and, until the next seed, of all later ones.
        - `options`: not used.

        **Returns:** the first observation of every agent, and an empty info for each.
        """
        if seed is not None or self._random is None:
            self._random, _ = seeding.np_random(seed)
        observation = self._episode.reset(self._random)
        self.agents = list(self.possible_agents)
        return self._observations(self.agents, observation), {name: {} for name in self.agents}

    def step(
        self, actions: Mapping[str, Action]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, Info],
    ]:
        """Advances by one action of every agent in `agents`. An agent that terminates in this step
        is in the returned dicts for the last time.

        **Returns:** observations, rewards, terminations, truncations and infos. The info of an
        agent has the entries of `TimeStep.info`. An entry with a row for each agent is reduced to
        the row of this agent.

        **Raises:** `gymnasium.error.ResetNeeded` when no episode is running; `ValueError` for an
        action that is missing or outside the action space, or for an unknown agent.
        """
        if not self.agents:
            raise gymnasium.error.ResetNeeded("No episode is running: call reset() first.")
        timestep = self._episode.step(self._read(actions))
        observation, reward, terminated, truncated, info = read_timestep(timestep)
        acted, was_truncated = self.agents, bool(truncated)
        terminations = self._by_agent(acted, terminated.tolist())
        self.agents = [] if was_truncated else [x for x in acted if not terminations[x]]
        return (
            self._observations(acted, observation),
            self._by_agent(acted, reward.tolist()),
            terminations,
            dict.fromkeys(acted, was_truncated),
            {name: self._info_of(self.possible_agents.index(name), info) for name in acted},
        )

    def render(self) -> UInt8[np.ndarray, "rows columns 3"]:
        """The picture of the state."""
        return self._screen.draw(self._episode.state)

    def _read(self, actions: Mapping[str, Action]) -> Shaped[np.ndarray, "agents ..."]:
        """The actions of all agents in order, with placeholders for terminated agents."""
        missing = [name for name in self.agents if name not in actions]
        unknown = [name for name in actions if name not in self.action_spaces]
        if missing or unknown:
            raise ValueError(
                f"step needs an action for each of {', '.join(self.agents)}, but got actions for "
                f"{', '.join(map(str, actions)) or 'no agent'}."
            )
        rows = dict.fromkeys(self.possible_agents, self._placeholder)
        for name in self.agents:
            rows[name] = read_action(self.action_spaces[name], actions[name], name)
        return np.stack(list(rows.values()))

    def _observations(self, names: Sequence[str], observation: PyTree) -> dict[str, Observation]:
        unmasked, allowed = split_mask(observation)
        by_agent = self._by_agent(names, unmasked)
        if allowed is None:
            return by_agent
        return {
            name: {
                "observation": by_agent[name],
                "action_mask": action_mask(self.action_spaces[name], mask),
            }
            for name, mask in self._by_agent(names, allowed).items()
        }

    def _by_agent(self, names: Iterable[str], values: Iterable[_T]) -> dict[str, _T]:
        by_agent = dict(zip(self.possible_agents, values, strict=True))
        return {name: by_agent[name] for name in names}

    def _info_of(self, agent: int, info: Info) -> Info:
        return {
            name: value[agent] if name in self._per_agent else value.copy()
            for name, value in info.items()
        }


def to_pettingzoo(
    env: Environment | VectorEnvironment,
    *,
    render_mode: str | None = None,
) -> PettingZooEnv:
    """Converts an environment to a PettingZoo `ParallelEnv`.

    ```python
    from eqgrid import make
    from eqgrid.interop import to_pettingzoo

    env = to_pettingzoo(make("overcooked", layout="ring"))
    observations, infos = env.reset(seed=0)
    ```

    If observations are `Masked`, an agent observes a dict as in PettingZoo's own environments:
    `"observation"`, and the `"action_mask"` for `env.action_space(agent).sample(mask)`, which is a
    tuple of masks if an action consists of several choices.

    **Arguments:**

    - `env`: a single environment, with any wrappers except `AutoReset`. Its observation must be
        one array.
    - `render_mode`: `"rgb_array"` or `None`.

    **Returns:** the PettingZoo environment. `pettingzoo.utils.parallel_to_aec` converts it to an
    environment in which agents act in turns.

    **Raises:** `ValueError` when PettingZoo does not support the environment's spaces or nesting,
    or `render_mode`; `TypeError` when `env` is not an environment.
    """
    world = check_episodes(env, "to_pettingzoo(env)")
    return PettingZooEnv(world, Screen(world, render_mode))
