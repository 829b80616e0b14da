"""The adapters to Gymnasium, for environments with one agent."""

from typing import final

import gymnasium
import jax
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, UInt8

from .._env import Environment, VectorEnvironment, unwrap
from .._env_checks import check_single_env
from .._spaces import split_mask
from ..wrappers import AbstractAutoReset, AutoReset, Vectorize, contains_wrapper
from ._episode import (
    Action,
    Episode,
    Info,
    Screen,
    action_mask,
    action_space,
    observation_space,
    read_action,
    read_timestep,
    to_numpy,
)
from ._foreign import check_episodes, entries_by_agent


@final
class GymnasiumEnv(gymnasium.Env[np.ndarray, Action]):
    """An environment with one agent as a `gymnasium.Env`, made by `to_gymnasium`.

    - `world`: the wrapped environment of eqgrid.
    """

    def __init__(self, world: Environment, screen: Screen):
        self.world, self._episode = world, Episode(world)
        self._per_agent = entries_by_agent(world)
        self._screen, self.render_mode, self.metadata = screen, screen.mode, screen.metadata
        self.action_space = action_space(world)
        self.observation_space = observation_space(world)
        # Gymnasium builds the environment again from its spec, for example in its checks. A world
        # cannot become JSON. With a function as the entry point, `spec.to_json()` raises an error
        # that says so.
        name = f"eqgrid/{type(unwrap(world)).__name__}-v0"
        self.spec = EnvSpec(name, entry_point=to_gymnasium, kwargs={"env": world})  # pyright: ignore[reportArgumentType]
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[np.ndarray, Info]:
        """Starts an episode.

        **Arguments:**

        - `seed`: the seed of this episode and, until the next seed, of all later ones.
        - `options`: not used.

        **Returns:** the first observation, and an info that is empty except for an `action_mask`.
        """
        super().reset(seed=seed)
        observation, allowed = split_mask(self._episode.reset(self.np_random))
        self._over = False
        return observation[0], self._mask(allowed)

    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, Info]:
        """Advances by one action.

        **Returns:** observation, reward, terminated, truncated and info. Entries of `TimeStep.info`
        with a row for each agent have no axis of agents here. If observations are `Masked`,
        `info["action_mask"]` is the mask for `self.action_space.sample(mask)`.

        **Raises:** `gymnasium.error.ResetNeeded` when no episode is running; `ValueError` for an
        action outside the action space.
        """
        if self._over:
            raise gymnasium.error.ResetNeeded("No episode is running: call reset() first.")
        timestep = self._episode.step(read_action(self.action_space, action, "The agent")[None])
        observation, reward, terminated, truncated, info = read_timestep(timestep)
        observation, allowed = split_mask(observation)
        terminated, truncated = bool(terminated[0]), bool(truncated)
        self._over = terminated or truncated
        info = {name: x[0] if name in self._per_agent else x for name, x in info.items()}
        info |= self._mask(allowed)
        return observation[0], float(reward[0]), terminated, truncated, info

    def render(self) -> UInt8[np.ndarray, "rows columns 3"]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The picture of the state."""
        return self._screen.draw(self._episode.state)

    def _mask(self, allowed: Bool[np.ndarray, "1 options"] | None) -> Info:
        if allowed is None:
            return {}
        return {"action_mask": action_mask(self.action_space, allowed[0])}


@final
class GymnasiumVectorEnv(VectorEnv[np.ndarray, Action, np.ndarray]):
    """A batch of environments with one agent as a `gymnasium.vector.VectorEnv`, made by
    `to_gymnasium_vector`.

    - `world`: the wrapped vector environment of eqgrid.
    """

    def __init__(self, world: Vectorize, screen: Screen):
        single = world.env
        self._per_agent = entries_by_agent(single)
        self.world, self._episode, self.num_envs = world, Episode(world), world.num_envs
        self._screen, self.render_mode = screen, screen.mode
        self.metadata = screen.metadata | {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_action_space = action_space(single)
        self.single_observation_space = observation_space(single)
        self.action_space = batch_space(self.single_action_space, world.num_envs)
        self.observation_space = batch_space(self.single_observation_space, world.num_envs)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[np.ndarray, Info]:
        """Starts an episode in every environment.

        **Arguments:**

        - `seed`: the seed of these episodes and, until the next seed, of all later ones.
        - `options`: not used.

        **Returns:** the first observations, and an info that is empty except for an `action_mask`.
        """
        super().reset(seed=seed)
        observation, allowed = split_mask(self._episode.reset(self.np_random))
        return observation[:, 0], _masked(self._masks(allowed), np.ones(self.num_envs, bool))

    def step(self, actions: Action) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Advances every environment by one action. When an episode ends, the next episode starts
        in the same step.

        **Returns:** observations, rewards, terminated, truncated and infos. When an episode ends,
        the observation is the first observation of the next episode. `infos["final_obs"]` and
        `infos["final_info"]` then belong to the episode that ended, as in Gymnasium's vector
        environments. If observations are `Masked`, `infos["action_mask"]` has the mask of each
        environment for `self.single_action_space.sample(mask)`.

        **Raises:** `gymnasium.error.ResetNeeded` before the first reset; `ValueError` for actions
        outside the action space.
        """
        actions = read_action(self.action_space, actions, "The batch")
        timestep = self._episode.step(actions[:, None])
        observation, reward, terminated, truncated, info = read_timestep(timestep)
        observation, allowed = split_mask(observation)
        ended = terminated[:, 0] | truncated
        info = {name: x[:, 0] if name in self._per_agent else x for name, x in info.items()}
        infos = _masked(info, ~ended) | _masked(self._masks(allowed), np.ones(self.num_envs, bool))
        if ended.any():
            final, allowed = split_mask(to_numpy(timestep.final_observation))
            final, info = final[:, 0], info | self._masks(allowed)
            final_obs = np.full(len(ended), None, dtype=object)  # None where no episode ended
            for i in np.flatnonzero(ended):
                final_obs[i] = final[i]
            infos |= {"final_obs": final_obs, "final_info": _masked(info, ended)}
            infos |= {"_final_obs": ended.copy(), "_final_info": ended.copy()}
        return observation[:, 0], reward[:, 0].astype(float), terminated[:, 0], truncated, infos

    def render(self) -> tuple[UInt8[np.ndarray, "rows columns 3"], ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The pictures of all environments."""
        states = self._episode.state
        separate = [jax.tree.map(lambda x, i=i: x[i], states) for i in range(self.num_envs)]
        return tuple(self._screen.draw(state) for state in separate)

    def _masks(self, allowed: Bool[np.ndarray, "envs 1 options"] | None) -> Info:
        if allowed is None:
            return {}
        masks = [action_mask(self.single_action_space, row) for row in allowed[:, 0]]
        if not isinstance(masks[0], tuple):
            return {"action_mask": np.stack(masks)}
        column = np.empty(self.num_envs, object)  # Gymnasium's format for tuples
        for i, choices in enumerate(masks):
            column[i] = choices
        return {"action_mask": column}


def _masked(info: Info, mask: Bool[np.ndarray, " envs"]) -> Info:
    """Sets each entry to 0 in the environments outside of the mask, and adds the mask as `_NAME`,
    Gymnasium's format for entries that only some environments have.
    """
    masked = {}
    for name, value in info.items():
        column = mask.reshape(-1, *[1] * (value.ndim - 1))
        masked[name] = np.where(column, value, np.zeros_like(value))
        masked[f"_{name}"] = mask.copy()
    return masked


def to_gymnasium(
    env: Environment | VectorEnvironment,
    *,
    render_mode: str | None = None,
) -> GymnasiumEnv:
    """Converts an environment with one agent to a `gymnasium.Env`.

    ```python
    from eqgrid import make
    from eqgrid.interop import to_gymnasium

    env = to_gymnasium(make("goals", num_agents=1))
    observation, info = env.reset(seed=0)
    ```

    **Arguments:**

    - `env`: a single environment, with any wrappers except `AutoReset`. Its observation must be
        one array.
    - `render_mode`: `"rgb_array"` or `None`.

    **Returns:** the Gymnasium environment.

    **Raises:** `ValueError` when the environment has several agents, when its spaces or wrappers
    are not supported, or when `render_mode` is invalid; `TypeError` when `env` is not an
    environment.
    """
    world = _check_one_agent(check_episodes(env, "to_gymnasium(env)"))
    return GymnasiumEnv(world, Screen(world, render_mode))


def to_gymnasium_vector(
    env: Environment | VectorEnvironment,
    num_envs: int,
    *,
    render_mode: str | None = None,
) -> GymnasiumVectorEnv:
    """Converts copies of an environment with one agent to a `gymnasium.vector.VectorEnv`. All
    copies are stepped by one compiled function.

    **Arguments:**

    - `env`: a single environment, whose observation must be one array. The adapter wraps it in
        `AutoReset` if it has no such wrapper.
    - `num_envs`: the number of copies, at least 1.
    - `render_mode`: `"rgb_array"` or `None`.

    **Returns:** the Gymnasium vector environment.

    **Raises:** `ValueError` when there are several agents, when `num_envs` is below 1, or when
    Gymnasium does not support the environment's spaces or `render_mode`; `TypeError` when `env` is
    not an environment.
    """
    world = _check_one_agent(check_single_env(env, "to_gymnasium_vector(env)"))
    world = world if contains_wrapper(world, AbstractAutoReset) else AutoReset(world)
    return GymnasiumVectorEnv(Vectorize(world, num_envs), Screen(world, render_mode))


def _check_one_agent(env: Environment) -> Environment:
    if env.num_agents != 1:
        raise ValueError(
            f"Gymnasium has one agent, but this environment has {env.num_agents}: use "
            "to_pettingzoo(env), or build it with one agent."
        )
    return env
