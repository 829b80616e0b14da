"""Teams of partners, trained policies as partners, and a rule for partners that are stuck."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from eqgrid import (
    AbstractPartner,
    AbstractWrapperState,
    Discrete,
    Environment,
    NormalizeObservation,
    PartnerInput,
    VectorEnvironment,
    act_as_team,
    check_partners,
    check_single_env,
    contains_wrapper,
    is_batch,
)
from eqgrid.typing import PyTree

from ._heads import CategoricalHead
from ._policy import AbstractActor, ActorCritic
from ._team import AgentArrays
from ._trained_policy import TrainedPolicy, choose_actions


@final
class PartnerTeam(eqx.Module):
    """One partner for each agent, for `evaluate` and `record_episodes`.

    They may be scripts, policies with other observations than the environment's, or anything else
    that acts from the state. `greedy` has no effect on them.

    ```python
    import jax

    from agents import PartnerTeam, evaluate
    from eqgrid import AutoReset, LogEpisodes, RandomPartner, Vectorize, make

    world = make("overcooked", layout="cramped", horizon=50)
    env = Vectorize(AutoReset(LogEpisodes(world)), num_envs=4)
    team = PartnerTeam((RandomPartner(world.action_space),) * 2)
    print(evaluate(team, env, jax.random.key(0)).episode_return.shape)
    ```

    **Arguments:**

    - `partners`: the partner of every agent, in the order of the agents.
    """

    partners: tuple[AbstractPartner, ...]

    def __init__(self, partners: Sequence[AbstractPartner]):
        check_partners(partners)
        self.partners = tuple(partners)

    def initial_carry(self) -> tuple[PyTree[Shaped[Array, "..."]], ...]:
        """The memory of every partner at the start of an episode."""
        return tuple(partner.initial_carry() for partner in self.partners)

    def act(
        self,
        observation: AgentArrays,
        state: PyTree,
        carry: tuple[PyTree[Shaped[Array, "..."]], ...],
        key: PRNGKeyArray,
    ) -> tuple[Shaped[Array, "agents ..."], tuple[PyTree[Shaped[Array, "..."]], ...]]:
        """Computes the actions of all agents.

        **Arguments:**

        - `observation`: the observations of all agents.
        - `state`: the state of the innermost environment.
        - `carry`: the memory of every partner before this step.
        - `key`: the source of randomness.

        **Returns:** the actions, and the next memory of every partner.
        """
        keys = jax.random.split(key, len(self.partners))
        return act_as_team(self.partners, observation, state, carry, list(keys))

    def check(self, env: Environment | VectorEnvironment) -> None:
        """Checks that there is one partner for each agent, and that observations are raw.

        **Raises:** `ValueError` that names the part that does not fit.
        """
        if env.num_agents != len(self.partners):
            raise ValueError(
                f"A team of {len(self.partners)} partners cannot act for {env.num_agents} agents: "
                f"give one for each agent."
            )
        if is_batch(env) and contains_wrapper(env, NormalizeObservation):
            raise ValueError(
                "Partners need the observations of the world: pass the environment without "
                "NormalizeObservation."
            )


Players: TypeAlias = ActorCritic | AbstractActor | PartnerTeam
"""The types of policies that can act for all agents of an environment."""


def check_players(policy: Players) -> None:
    """**Raises:** `TypeError` unless the policy is one of the types of `Players`."""
    if not isinstance(policy, Players):
        raise TypeError(
            "The policy must be an ActorCritic, a TrainedPolicy, another AbstractActor, or a "
            f"PartnerTeam(partners), but is of the type {type(policy).__name__}."
        )


@final
class PolicyPartner(AbstractPartner):
    """A partner that takes the action that a trained policy chooses for the agent in its seat.

    ```python
    import jax

    from agents import PolicyPartner, load_policy
    from eqgrid import make, play
    from eqgrid.envs.overcooked import ScriptedCook

    env = make("overcooked", layout="ring", observation="features")
    trained = PolicyPartner(load_policy("shipped:ring"))
    print(play(env, (trained, ScriptedCook("ring")), jax.random.key(0)).episode_return)
    ```

    **Arguments:**

    - `policy`: the policy, such as from `load_policy`. Its inputs are observations before any
        `NormalizeObservation`.
    - `greedy`: take the most probable action instead of sampling an action.
    - `env`: the same game with the observation of the policy's training, if the game is played with
        another observation. The partner only uses its `observe`, with states of the innermost
        environment, so its wrappers must not have a state.

    **Raises:** `ValueError` when the policy cannot act in `env`, or a wrapper of it has a state.
    """

    policy: TrainedPolicy
    greedy: bool = eqx.field(static=True, default=False)
    env: Environment | None = None

    def __check_init__(self):
        if not isinstance(self.policy, TrainedPolicy):
            raise TypeError(
                f"PolicyPartner needs a TrainedPolicy, such as trained_policy(policy, env), but "
                f"got {type(self.policy).__name__}."
            )
        if self.env is None:
            return
        check_single_env(self.env, "PolicyPartner(policy, env=env)")
        self.policy.check(self.env)
        _, state = eqx.filter_eval_shape(self.env.reset, jax.random.key(0))
        if isinstance(state, AbstractWrapperState):
            raise ValueError(
                f"PolicyPartner(env=...) observes the states of the game, but a wrapper adds a "
                f"state of its own ({type(state).__name__}): pass env without this wrapper."
            )

    def initial_carry(self) -> AgentArrays:
        """The policy's carry of all agents, of which only the carry of its seat has an effect."""
        return self.policy.initial_carry()

    def __call__(
        self, seen: PartnerInput, carry: AgentArrays, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], AgentArrays]:
        output, carry = self.outputs(seen, carry)
        return self.choose(output, seen.seat, key), carry

    def outputs(
        self, seen: PartnerInput, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        """The result of `TrainedPolicy.outputs` for the partner's own observation."""
        observation = seen.observation if self.env is None else self.env.observe(seen.state)
        return self.policy.outputs(observation, carry)

    def choose(
        self, output: Float[Array, "agents out"], seat: Int[Array, ""], key: PRNGKeyArray
    ) -> Shaped[Array, "..."]:
        """The action of the agent in `seat`, from the outputs for all agents."""
        return choose_actions(self.policy, output, key, self.greedy)[seat]


@final
class StuckMemory(eqx.Module):
    """The memory of a `StuckRule`.

    - `own`: the memory of the partner.
    - `poses`: the poses before each of the last actions, the oldest first.
    - `actions`: the last actions.
    - `count`: the number of actions in this episode.
    """

    own: AgentArrays
    poses: Int[Array, "steps 3"]
    actions: Int[Array, " steps"]
    count: Int[Array, ""]


@final
class StuckRule(AbstractPartner):
    """A `PolicyPartner` that does not repeat its last actions while it is stuck.

    It is stuck if it had its current pose before each of its last `steps` actions, and has taken
    more than `steps` actions in this episode. Then these actions get probability 0, and the
    probabilities of the other actions are scaled to a sum of 1. If all other actions are masked,
    nothing changes. Carroll et al. (2019, "On the Utility of Learning about Humans for Human-AI
    Coordination") use this rule in all games with models of people (`ImitationAgentFromPolicy` in
    their code).

    **Arguments:**

    - `partner`: the partner, whose policy chooses among more actions than `steps`.
    - `poses`: returns the pose of every agent in a state of the innermost environment, as three
        integers; for a grid world, `eqgrid.grid.poses`.
    - `steps`: the number of actions without a change of the pose after which it is stuck.

    **Raises:** `ValueError` when the policy chooses among too few actions, or has another head than
    `CategoricalHead`, or when `steps` is below 1.
    """

    partner: PolicyPartner
    poses: Callable[[PyTree], Any] = eqx.field(static=True)
    steps: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        space, head = self.partner.policy.action_space, self.partner.policy.actor_critic.head
        if self.steps < 1:
            raise ValueError(f"StuckRule needs at least 1 step, but got steps={self.steps}.")
        if not isinstance(space, Discrete) or not isinstance(head, CategoricalHead):
            raise ValueError("StuckRule needs a policy whose head is a CategoricalHead.")
        if space.n <= self.steps:
            raise ValueError(
                f"StuckRule excludes up to {self.steps} actions, so a policy needs more actions, "
                f"but it chooses among {space.n}: lower steps."
            )

    def initial_carry(self) -> StuckMemory:
        return StuckMemory(
            own=self.partner.initial_carry(),
            poses=jnp.zeros((self.steps, 3), int),
            actions=jnp.zeros(self.steps, int),
            count=jnp.zeros((), int),
        )

    def __call__(
        self, seen: PartnerInput, carry: StuckMemory, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], StuckMemory]:
        output, own = self.partner.outputs(seen, carry.own)
        pose = jnp.asarray(self.poses(seen.state))[seen.seat].astype(int)
        stuck = (carry.count > self.steps) & (carry.poses == pose[None]).all()
        tried = (jnp.arange(output.shape[-1])[:, None] == carry.actions[None]).any(axis=1)
        masked = jnp.finfo(output.dtype).min  # the logit of a masked action, as in `mask_logits`
        others = jnp.where(tried[None], masked, output)
        leaves_some = (others[seen.seat] > masked).any()
        output = jnp.where(stuck & leaves_some, others, output)
        action = self.partner.choose(output, seen.seat, key)
        carry = StuckMemory(
            own,
            jnp.concatenate([carry.poses[1:], pose[None]]),
            jnp.concatenate([carry.actions[1:], action[None].astype(int)]),
            carry.count + 1,
        )
        return action, carry
