"""DesignPartners: partners from whom the most can be learned, by the variance of returns."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from .._checks import as_count
from .._env import (
    AbstractEnv,
    AbstractVectorEnv,
    AbstractVectorWrapper,
    AbstractWrapperState,
    TimeStep,
    unwrap,
)
from .._moments import RunningMoments
from .._spaces import Discrete
from .._types import PyTree
from ._nesting import check_vector_env, iter_wrappers
from ._vectorize import Vectorize
from ._with_partner import WithPartner, WithPartnerState, sample_bias


@final
class DesignPartnersState(AbstractWrapperState):
    """The designs, what is known of them, and the inner state.

    **Arguments:**

    - `env_state`: the inner state.
    - `level`, `bias`: the noise level of each design, and the logits of its random actions.
    - `returns`: the moments of the returns of each design in this generation.
    - `generation`: how often designs were replaced.
    - `begun`: the generation in which the episode of each environment began.
    """

    env_state: PyTree
    level: Float[Array, " designs"]
    bias: Float[Array, "designs actions"]
    returns: RunningMoments
    generation: Int[Array, ""]
    begun: Int[Array, " envs"]


@final
class DesignPartners(AbstractVectorWrapper):
    """Keeps those partners whose episodes vary most in their return, and replaces the others.

    A design is a noise level and a distribution of random actions: the partner is the learner's own
    policy with so many of its actions replaced. Each design has an equal share of the environments.
    When all designs have had `episodes` episodes, a generation ends: the half with the highest
    variance of the return stays, and the other half is sampled anew, with a level that is uniform
    from 0 to 1; ties are broken at random. Where the return varies, it depends on what the learner
    does, so there is something to learn; with a partner that always or never lets the team succeed,
    there is not. Episodes should be about equally long, since those that still run when a
    generation ends do not count.

    This is the curriculum of Unsupervised Partner Design (Ruhdorfer et al. 2025, "Unsupervised
    Partner Design Enables Robust Ad-hoc Teamwork"), with a selection by halves of our own.

    ```python
    from eqgrid import AutoReset, DesignPartners, LogEpisodes, Vectorize, WithPartner, make

    one = AutoReset(LogEpisodes(WithPartner(make("overcooked"), biased=True)))
    envs = DesignPartners(Vectorize(one, 128), num_designs=16)
    ```

    **Arguments:**

    - `env`: a vector environment with `WithPartner(..., biased=True)` and `LogEpisodes` inside.
    - `num_designs`: the number of designs, an even number that divides the environments.
    - `episodes`: the number of episodes, at least 2, after which a design is judged.

    **Raises:** `ValueError` for a wrong nesting or a number out of range.
    """

    env: AbstractVectorEnv
    num_designs: int = eqx.field(static=True)
    episodes: int = eqx.field(static=True)

    def __init__(
        self, env: AbstractEnv | AbstractVectorEnv, num_designs: int = 16, episodes: int = 8
    ):
        self.env = check_vector_env(env, "DesignPartners(env)")
        inside = [x for x in _single_wrappers(self.env) if isinstance(x, WithPartner)]
        if not any(x.biased and x.partners is None for x in inside):
            raise ValueError(
                "DesignPartners needs partners to design: put WithPartner(env, biased=True) "
                "inside, without partners of its own."
            )
        self.num_designs = as_count(num_designs, "DesignPartners needs designs")
        self.episodes = as_count(episodes, "DesignPartners needs episodes")
        if self.episodes < 2:
            raise ValueError("DesignPartners needs at least 2 episodes, to see a variance.")
        if self.num_designs % 2 or self.num_envs % self.num_designs:
            raise ValueError(
                "DesignPartners needs an even number of designs that divides the environments, but "
                f"got {num_designs} for {self.num_envs}."
            )

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], DesignPartnersState]:
        env_key, design_key = jax.random.split(key)
        observation, env_state = self.env.reset(env_key)
        level, bias = self._sample(design_key)
        everywhere = jnp.ones(self.num_envs, bool)
        state = DesignPartnersState(
            env_state=self._assign(env_state, level, bias, everywhere),
            level=level,
            bias=bias,
            returns=self._no_returns(),
            generation=jnp.zeros((), int),
            begun=jnp.zeros(self.num_envs, int),
        )
        return observation, state

    def step(
        self,
        key: PRNGKeyArray,
        state: DesignPartnersState,
        action: Shaped[Array, "envs agents ..."],
    ) -> tuple[TimeStep, DesignPartnersState]:
        env_key, design_key, tie_key = jax.random.split(key, 3)
        timestep, env_state = self.env.step(env_key, state.env_state, action)
        if "episode_done" not in timestep.info:
            raise ValueError("DesignPartners needs LogEpisodes inside, for the returns.")
        ended: Bool[Array, " envs"] = timestep.info["episode_done"]
        present = _with_partner(state.env_state).present
        counted = ended & present & (state.begun == state.generation)
        groups = (self.num_designs, -1)
        earned = timestep.info["episode_return"].mean(axis=-1)
        returns = jax.vmap(RunningMoments.update)(
            state.returns, earned.reshape(groups), counted.reshape(groups)
        )
        over = jnp.all(returns.count >= self.episodes)
        order = jnp.lexsort((jax.random.uniform(tie_key, returns.count.shape), -returns.variance))
        rank = jnp.argsort(order)
        kept = ~over | (rank < self.num_designs // 2)
        level, bias = self._sample(design_key)
        level = jnp.where(kept, state.level, level)
        bias = jnp.where(kept[:, None], state.bias, bias)
        returns = jax.tree.map(
            lambda new, old: jnp.where(over, new, old), self._no_returns(), returns
        )
        generation = state.generation + over.astype(int)
        state = DesignPartnersState(
            env_state=self._assign(env_state, level, bias, ended),
            level=level,
            bias=bias,
            returns=returns,
            generation=generation,
            begun=jnp.where(ended, generation, state.begun),
        )
        return timestep, state

    def observe(self, state: DesignPartnersState) -> PyTree[Shaped[Array, "envs agents ..."]]:
        return self.env.observe(state.env_state)

    def _sample(
        self, key: PRNGKeyArray
    ) -> tuple[Float[Array, " designs"], Float[Array, "designs actions"]]:
        """As many new designs as there are."""
        level_key, bias_key = jax.random.split(key)
        assert isinstance(self.action_space, Discrete)
        keys = jax.random.split(bias_key, self.num_designs)
        bias = jax.vmap(sample_bias, (0, None))(keys, self.action_space.n)
        return jax.random.uniform(level_key, (self.num_designs,), float), bias

    def _assign(
        self,
        env_state: PyTree,
        level: Float[Array, " designs"],
        bias: Float[Array, "designs actions"],
        where: Bool[Array, " envs"],
    ) -> PyTree:
        """Gives the environments in which an episode begins the partners of their designs."""
        own = self.num_envs // self.num_designs
        old = _with_partner(env_state)
        assert old.bias is not None
        new = (
            jnp.where(where, jnp.repeat(level, own), old.level),
            jnp.where(where[:, None], jnp.repeat(bias, own, axis=0), old.bias),
        )
        return eqx.tree_at(
            lambda x: (_with_partner(x).level, _with_partner(x).bias), env_state, new
        )

    def _no_returns(self) -> RunningMoments:
        empty = RunningMoments.empty(())
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.num_designs,)), empty)


def _single_wrappers(env: AbstractVectorEnv) -> list[object]:
    """The wrappers of each single environment of a vector environment."""
    batch = unwrap(env)
    return list(iter_wrappers(batch.env)) if isinstance(batch, Vectorize) else []


def _with_partner(state: PyTree) -> WithPartnerState:
    while not isinstance(state, WithPartnerState):
        state = state.env_state
    return state
