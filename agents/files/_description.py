"""The description of a policy in JSON: its classes, and the arguments that they were built with."""

import dataclasses
import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from eqgrid import (
    AbstractSpace,
    Box,
    Discrete,
    Masked,
    MultiDiscrete,
    ObservationAndState,
    RunningMoments,
    split_mask,
)
from eqgrid.typing import PyTree

from ..policies import (
    CNN,
    GRU,
    MLP,
    AbstractActionHead,
    AbstractCriticInput,
    AbstractMultiAgentNetwork,
    AbstractNetwork,
    Activation,
    ActorCritic,
    AgentArrays,
    CategoricalHead,
    ClippedNormalHead,
    GlobalState,
    IndependentParameters,
    JointObservation,
    LocalObservation,
    MultiCategoricalHead,
    PredictingGRU,
    Shapes,
    SharedParameters,
    TrainedPolicy,
    check_mask,
    head_for,
)
from ._checkpoint import check_schema
from ._policy_schema import (
    CNNTable,
    CustomTable,
    DiscreteTable,
    GRUTable,
    MultiDiscreteTable,
    NetworkTable,
    PartTable,
    PolicyTable,
    PredictingGRUTable,
    SpaceTable,
    TeamName,
)

FORMAT = "eqgrid policy 1"

_CRITIC_INPUTS: dict[str, Callable[..., AbstractCriticInput]] = {
    kind.__name__: kind for kind in (LocalObservation, JointObservation, GlobalState)
}
_HEADS: dict[str, Callable[..., AbstractActionHead]] = {
    head.__name__: head for head in (CategoricalHead, MultiCategoricalHead, ClippedNormalHead)
}
_OBSERVATIONS: dict[str, Callable[..., PyTree]] = {
    "local_and_state": ObservationAndState,
    "masked": Masked,
    "dict": dict,
}
"""The containers of observations whose parts have names."""


def describe(policy: TrainedPolicy, parameters: str, moments: str) -> dict[str, Any]:
    """The description of a policy for its file.

    **Arguments:**

    - `policy`: the policy.
    - `parameters`, `moments`: the prefixes of the names of their arrays in the file.

    **Returns:** values that JSON can represent, in the schema of `PolicyTable`.

    **Raises:** `ValueError` when a part of the policy has no name in the schema, or is larger than
    the schema allows.
    """
    actor_critic, normalization = policy.actor_critic, policy.normalization
    description = {
        "format": FORMAT,
        "num_agents": policy.num_agents,
        "observation": _observation_to_json(policy.observation),
        "action_space": _space_to_json(policy.action_space),
        "actor": _team_to_json(actor_critic.actor),
        "critic": _team_to_json(actor_critic.critic),
        "critic_input": _part_to_json(actor_critic.critic_input),
        "head": _part_to_json(actor_critic.head),
        "parameters": parameters,
        "normalization": normalization
        and {
            "moments": moments,
            "epsilon": float(normalization.epsilon),
            "clip": float(normalization.clip) if jnp.isfinite(normalization.clip) else None,
        },
        "versions": {name: _version(name) for name in ("eqgrid", "jax", "equinox")},
    }
    try:
        check_schema(description, PolicyTable)
    except ValueError as error:
        raise ValueError(f"A file cannot hold this policy: {error}.") from error
    return description


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of policies that are not part of eqgrid, by the names of their classes.

    **Arguments:**

    - `networks`: each is called as `network(in_shape, out_size, final_scale=..., key=...)`.
    - `heads`: each is called with the action space of one agent.
    - `critic_inputs`: each is called without arguments.

    Each also gets the arguments that the file stores, by name.
    """

    networks: Mapping[str, Callable[..., AbstractNetwork]]
    heads: Mapping[str, Callable[..., AbstractActionHead]]
    critic_inputs: Mapping[str, Callable[..., AbstractCriticInput]]


def build_like(
    table: PolicyTable, parts: Parts, like: ActorCritic | None = None
) -> tuple[ActorCritic, AbstractSpace, Shapes, PyTree[RunningMoments]]:
    """Builds the policy that a file describes, with shapes in place of arrays.

    **Arguments:**

    - `table`: the description, as `describe` returned it.
    - `parts`: the parts that are not part of eqgrid.
    - `like`: an actor-critic that is used instead of building one from the description.

    **Returns:** the actor-critic, the action space of one agent, the observations of all agents,
    and the moments of such observations.

    **Raises:** `ValueError` with a clause when the parts do not fit together, or one is unknown.
    """
    space = _space_from_json(table.action_space)
    observation = eqx.filter_eval_shape(
        functools.partial(
            _observation_from_json, msgspec.to_builtins(table.observation), table.num_agents
        )
    )
    check_mask(space, observation)
    seen, _ = split_mask(observation)
    moments = eqx.filter_eval_shape(
        lambda: jax.tree.map(lambda x: RunningMoments.empty(x.shape[1:]), seen)
    )
    if like is not None:
        return like, space, observation, moments
    named = {**_CRITIC_INPUTS, **parts.critic_inputs}
    critic_input = _part(table.critic_input, named, "critic input", "critic_inputs")()
    head_of = _part(table.head, {**_HEADS, **parts.heads}, "action head", "heads")
    if table.head.name in _HEADS and table.head.name != type(head_for(space)).__name__:
        kind = type(space).__name__
        raise ValueError(f"its action head, {table.head.name}, is not for actions of a {kind}")
    head = eqx.filter_eval_shape(head_of, space)
    local = eqx.filter_eval_shape(critic_input.local, seen)
    shown = eqx.filter_eval_shape(critic_input, seen)
    actor = _team_from_json(table.actor, parts.networks, local, head.out_size(space))
    critic = _team_from_json(table.critic, parts.networks, shown, 1)
    return ActorCritic(actor, critic, critic_input, head), space, observation, moments


def _part_to_json(part: eqx.Module) -> dict[str, Any]:
    return {
        "name": type(part).__name__,
        "arguments": _arguments(part),
        "not_stored": _not_stored(part),
    }


def _part(
    table: PartTable | CustomTable, known: Mapping[str, Callable], what: str, keyword: str
) -> Callable[..., Any]:
    """The constructor of a part, with the arguments that the file stores.

    **Raises:** `ValueError` with a clause when no part has its name.
    """
    if table.name not in known:
        raise ValueError(
            f"its {what} is {table.name!r:.60}, which eqgrid does not know: pass "
            f"{keyword}={{{table.name!r:.60}: ...}} to load_policy, with its class"
        )
    if table.not_stored and isinstance(known[table.name], type):
        name = table.not_stored[0]
        raise ValueError(
            f"its {what} was built with another {name!r:.60} than the default, which a file cannot "
            f"hold: pass {keyword}={{{table.name!r:.60}: functools.partial({table.name:.60}, "
            f"{name:.60}=...)}} to load_policy"
        )
    pairs = table.arguments.items()
    stored = {name: tuple(x) if isinstance(x, list) else x for name, x in pairs}
    return functools.partial(known[table.name], **stored)


def _arguments(part: eqx.Module) -> dict[str, Any]:
    """The hyperparameters of a part: its fields that are arguments of its constructor, and hold
    numbers, texts, truth values or tuples of these.
    """
    return {name: x for name, (x, _) in _given(part).items() if _is_plain(x)}


def _not_stored(part: eqx.Module) -> list[str]:
    """The arguments of a part that a file cannot hold, and that are not the defaults, such as
    functions. Arrays, and Modules with arrays, are no hyperparameters.
    """
    return [
        name
        for name, (x, default) in _given(part).items()
        if not _is_plain(x)
        and x is not default
        and not any(hasattr(leaf, "shape") for leaf in jax.tree.leaves(x))
        and x != default
    ]


def _given(part: eqx.Module) -> dict[str, tuple[Any, Any]]:
    """The fields of a part that are arguments of its constructor, with the default of each."""
    parameters = inspect.signature(type(part)).parameters
    names = {x.name for x in dataclasses.fields(part)} & parameters.keys() - set(_ARGUMENTS_OF_ALL)
    return {name: (getattr(part, name), parameters[name].default) for name in sorted(names)}


_ARGUMENTS_OF_ALL = ("in_shape", "out_size", "final_scale", "key", "space")


def _is_plain(x: object) -> bool:
    if isinstance(x, tuple):
        return all(isinstance(entry, bool | int | float | str) for entry in x)
    return x is None or isinstance(x, bool | int | float | str)


def _space_to_json(space: AbstractSpace) -> dict[str, Any]:
    if isinstance(space, Discrete):
        return {"kind": "discrete", "n": space.n}
    if isinstance(space, MultiDiscrete):
        return {"kind": "multi_discrete", "ns": list(space.ns)}
    if isinstance(space, Box):
        bounds = {"low": np.asarray(space.low).tolist(), "high": np.asarray(space.high).tolist()}
        shape, dtype = list(space.shape), str(space.low.dtype)
        return {"kind": "box", "shape": shape, "dtype": dtype, **bounds}
    raise ValueError(
        f"A file holds actions of a Discrete, a MultiDiscrete or a Box, not those of {space!r:.60}."
    )


def _space_from_json(table: SpaceTable) -> Discrete | MultiDiscrete | Box:
    if isinstance(table, DiscreteTable):
        return Discrete(table.n)
    if isinstance(table, MultiDiscreteTable):
        return MultiDiscrete(table.ns)
    low, high = (np.asarray(bound, table.dtype) for bound in (table.low, table.high))
    if low.shape != tuple(table.shape) or high.shape != tuple(table.shape):
        raise ValueError(f"the bounds of its actions have other shapes than {table.shape}")
    return Box(jnp.asarray(low), jnp.asarray(high), low.shape)


def _team_to_json(team: AbstractMultiAgentNetwork) -> dict[str, Any]:
    if isinstance(team, SharedParameters):
        return {"team": "SharedParameters", **_network_to_json(team.network)}
    if isinstance(team, IndependentParameters):
        return {"team": "IndependentParameters", **_network_to_json(team.networks)}
    raise ValueError(
        f"A file holds {' or '.join(get_args(TeamName))}, but the policy has a "
        f"{type(team).__name__}."
    )


def _network_to_json(network: AbstractNetwork) -> dict[str, Any]:
    """The arguments of a network's constructor, inferred from the last axes of its parameters,
    which are those of one agent even if the parameters of several agents are stacked.
    """
    if isinstance(network, MLP):
        layers = network.layers
        width = layers[0].weight.shape[-2] if len(layers) > 1 else 1
        return {"network": "MLP", "width": width, "depth": len(layers) - 1} | _choices(network)
    if isinstance(network, CNN):
        convolutions = network.convolutions
        return {
            "network": "CNN",
            "features": convolutions[0].weight.shape[-4],
            "depth": len(convolutions),
            "width": network.head.layers[0].weight.shape[-2],
        } | _choices(network)
    if isinstance(network, PredictingGRU):
        return {**_network_to_json(network.memory), "network": "PredictingGRU"}
    if isinstance(network, GRU):
        width, encoder = network.head.weight.shape[-1], _network_to_json(network.encoder)
        return {"network": "GRU", "width": width, "encoder": encoder}
    return {"network": "custom", **_part_to_json(network)}


def _choices(network: MLP | CNN) -> dict[str, str]:
    if isinstance(network.activation, str):
        return {"activation": network.activation, "precision": network.precision}
    raise ValueError(
        f"A file stores the name of an activation, but {network.activation!r:.60} has none: use "
        f"one of {', '.join(get_args(Activation))}, or a network class of your own."
    )


def _team_from_json(
    table: NetworkTable,
    networks: Mapping[str, Callable[..., AbstractNetwork]],
    x: Shapes,
    out_size: int,
) -> AbstractMultiAgentNetwork:
    num_agents = jax.tree.leaves(x)[0].shape[0]
    make = functools.partial(
        _network_from_json(table, networks),
        jax.tree.map(lambda leaf: leaf.shape[1:], x),
        out_size,
        final_scale=1.0,
    )

    def build() -> AbstractMultiAgentNetwork:
        network = make(key=jax.random.key(0))
        if table.team == "SharedParameters":
            return SharedParameters(network=network, num_agents=num_agents)
        return IndependentParameters([network] * num_agents)

    return eqx.filter_eval_shape(build)


def _network_from_json(
    table: NetworkTable, networks: Mapping[str, Callable[..., AbstractNetwork]]
) -> Callable[..., AbstractNetwork]:
    if isinstance(table, CustomTable):
        return _part(table, networks, "network", "networks")
    if isinstance(table, GRUTable):
        encoder = _network_from_json(table.encoder, networks)
        kind = PredictingGRU if isinstance(table, PredictingGRUTable) else GRU
        return functools.partial(kind, width=table.width, encoder=encoder)
    choices = msgspec.structs.asdict(table)
    del choices["team"]
    return functools.partial(CNN if isinstance(table, CNNTable) else MLP, **choices)


def _observation_to_json(observation: Shapes) -> dict[str, Any]:
    """The shape and the dtype of every array in the observation of one agent."""
    if isinstance(observation, jax.ShapeDtypeStruct):
        return {"shape": list(observation.shape[1:]), "dtype": str(observation.dtype)}
    if type(observation) is tuple:
        return {"tuple": [_observation_to_json(x) for x in observation]}
    for kind, build in _OBSERVATIONS.items():
        if type(observation) is build:
            parts = observation if build is dict else vars(observation)
            return {kind: {name: _observation_to_json(x) for name, x in parts.items()}}
    raise ValueError(
        f"A file holds observations that are arrays, or dicts and tuples of arrays, but the "
        f"environment shows a {type(observation).__name__}."
    )


def _observation_from_json(table: dict[str, Any], num_agents: int) -> AgentArrays:
    """An observation of zeros, from a table that was checked against `ObservationTable`."""
    if "shape" in table:
        return jnp.zeros((num_agents, *table["shape"]), table["dtype"])
    read = functools.partial(_observation_from_json, num_agents=num_agents)
    kind, parts = next(iter(table.items()))
    if kind == "tuple":
        return tuple(read(part) for part in parts)
    return _OBSERVATIONS[kind](**{name: read(part) for name, part in parts.items()})


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
