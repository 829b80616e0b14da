"""A policy as JSON can tell of it: which of our classes it is made of, and how they were built."""

import functools
import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, Shaped

from agents.policies._heads import AbstractActionHead, check_mask, head_for
from agents.policies._networks import CNN, GRU, MLP, AbstractNetwork
from agents.policies._policy import ActorCritic
from agents.policies._team import AbstractMultiAgentNetwork, IndependentParameters, SharedParameters
from agents.policies._trained_policy import TrainedPolicy
from agents.policies._views import (
    AbstractCriticInput,
    GlobalState,
    JointObservation,
    LocalObservation,
)
from eqgrid import (
    AbstractSpace,
    Box,
    Discrete,
    Masked,
    ObservationAndState,
    RunningMoments,
    split_mask,
)

from ._policy_schema import (
    Activation,
    BoxTable,
    CustomTable,
    DiscreteTable,
    GRUTable,
    MLPTable,
    NetworkTable,
    ObservationTable,
    PolicyTable,
    TeamName,
)
from ._schema import check_schema

FORMAT = "eqgrid policy 1"

ACTIVATIONS: dict[Activation, Callable] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
    "softplus": jax.nn.softplus,
    "leaky_relu": jax.nn.leaky_relu,
    "sigmoid": jax.nn.sigmoid,
}
_VIEWS: dict[str, type[AbstractCriticInput]] = {
    "LocalObservation": LocalObservation,
    "JointObservation": JointObservation,
    "GlobalState": GlobalState,
}


def describe(policy: TrainedPolicy, parameters: str, moments: str) -> dict[str, Any]:
    """What a file says of the policy in it.

    **Arguments:**

    - `policy`: the policy.
    - `parameters`, `moments`: how the names of their arrays in the file begin.

    **Raises:** `ValueError` when something of it has no name that a file could say, or is larger
    than a file may say.
    """
    actor_critic, normalization = policy.actor_critic, policy.normalization
    description = {
        "format": FORMAT,
        "num_agents": policy.num_agents,
        "observation": _observation_to_json(policy.observation),
        "action_space": _space_to_json(policy.action_space),
        "actor": _team_to_json(actor_critic.actor),
        "critic": _team_to_json(actor_critic.critic),
        "view": type(actor_critic.view).__name__,
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
    _check_head(actor_critic.head, policy.action_space)
    return description


def build_like(
    table: PolicyTable,
    networks: Mapping[str, Callable[..., AbstractNetwork]],
    like: ActorCritic | None = None,
) -> tuple[ActorCritic, AbstractSpace, PyTree[jax.ShapeDtypeStruct], PyTree[RunningMoments]]:
    """Builds what a file describes, with shapes in place of arrays.

    **Arguments:**

    - `table`: what `describe` made.
    - `networks`: networks that are not ours, by name.
    - `like`: the parameters, where they are not built from the description.

    **Returns:** the parameters, the actions of one agent, the observation of all agents, and the
    moments of such observations.

    **Raises:** `ValueError` with half a sentence when the parts do not fit together, or a network
    is unknown.
    """
    space = _space_from_json(table.action_space)
    observation = eqx.filter_eval_shape(
        functools.partial(_observation_from_json, table.observation, table.num_agents)
    )
    check_mask(space, observation)
    seen, _ = split_mask(observation)
    moments = eqx.filter_eval_shape(
        lambda: jax.tree.map(lambda x: RunningMoments.empty(x.shape[1:]), seen)
    )
    if like is not None:
        return like, space, observation, moments
    if table.view not in _VIEWS:
        raise ValueError(
            f"its critic is shown {table.view!r:.60}, which eqgrid does not know: it has "
            f"{', '.join(_VIEWS)}"
        )
    view = _VIEWS[table.view]()
    local = eqx.filter_eval_shape(view.local, seen)
    shown = eqx.filter_eval_shape(view, seen)
    head = head_for(space)
    actor = _team_from_json(table.actor, networks, local, head.out_size(space))
    critic = _team_from_json(table.critic, networks, shown, 1)
    return ActorCritic(actor, critic, view, head), space, observation, moments


def _check_head(head: AbstractActionHead, space: AbstractSpace) -> None:
    """A file does not name a head, since there is one for each kind of action space."""
    expected = type(head_for(space))
    if type(head) is not expected:
        raise ValueError(
            f"A file holds policies whose head is a {expected.__name__}, which it is for a "
            f"{type(space).__name__}, but the policy has a {type(head).__name__}."
        )


def _space_to_json(space: AbstractSpace) -> dict[str, Any]:
    if isinstance(space, Discrete):
        return {"kind": "discrete", "n": space.n}
    if isinstance(space, Box):
        bounds = {"low": np.asarray(space.low).tolist(), "high": np.asarray(space.high).tolist()}
        shape, dtype = list(space.shape), str(space.low.dtype)
        return {"kind": "box", "shape": shape, "dtype": dtype, **bounds}
    raise ValueError(f"A file holds actions of a Discrete or a Box, not those of {space!r:.60}.")


def _space_from_json(table: DiscreteTable | BoxTable) -> Discrete | Box:
    if isinstance(table, DiscreteTable):
        return Discrete(table.n)
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
    """The arguments of the constructor, read from the shapes: the last axes are those of one agent
    even where the parameters of several agents are stacked.
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
    if isinstance(network, GRU):
        width, encoder = network.head.weight.shape[-1], _network_to_json(network.encoder)
        return {"network": "GRU", "width": width, "encoder": encoder}
    return {"network": "custom", "name": type(network).__name__}


def _choices(network: MLP | CNN) -> dict[str, str]:
    for name, function in ACTIVATIONS.items():
        if function is network.activation:
            return {"activation": name, "precision": network.precision}
    raise ValueError(
        f"A file holds the name of an activation, but {network.activation!r:.60} has none there: "
        f"use one of {', '.join(ACTIVATIONS)}, or a network class of your own."
    )


def _team_from_json(
    table: NetworkTable,
    networks: Mapping[str, Callable[..., AbstractNetwork]],
    x: PyTree[jax.ShapeDtypeStruct],
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
        if table.name not in networks:
            raise ValueError(
                f"it has a network {table.name!r:.60} that eqgrid does not know: pass "
                f"networks={{{table.name!r:.60}: ...}}, called as network(in_shape, out_size, "
                f"final_scale=..., key=...)"
            )
        return networks[table.name]
    if isinstance(table, GRUTable):
        encoder = _network_from_json(table.encoder, networks)
        return functools.partial(GRU, width=table.width, encoder=encoder)
    choices: dict[str, Any] = {
        "width": table.width,
        "depth": table.depth,
        "activation": ACTIVATIONS[table.activation],
        "precision": table.precision,
    }
    if isinstance(table, MLPTable):
        return functools.partial(MLP, **choices)
    return functools.partial(CNN, features=table.features, **choices)


def _observation_to_json(observation: PyTree[jax.ShapeDtypeStruct]) -> dict[str, Any]:
    """The shape and the dtype of what one agent sees, for every array."""
    if isinstance(observation, jax.ShapeDtypeStruct):
        return {"shape": list(observation.shape[1:]), "dtype": str(observation.dtype)}
    if isinstance(observation, ObservationAndState):
        parts = {"local": observation.local, "state": observation.state}
        return {"local_and_state": {k: _observation_to_json(x) for k, x in parts.items()}}
    if isinstance(observation, Masked):
        parts = {"observation": observation.observation, "action_mask": observation.action_mask}
        return {"masked": {k: _observation_to_json(x) for k, x in parts.items()}}
    if type(observation) is dict:
        return {"dict": {name: _observation_to_json(x) for name, x in observation.items()}}
    if type(observation) is tuple:
        return {"tuple": [_observation_to_json(x) for x in observation]}
    raise ValueError(
        f"A file holds observations that are arrays, or dicts and tuples of arrays, but the "
        f"environment shows a {type(observation).__name__}."
    )


def _observation_from_json(
    table: ObservationTable, num_agents: int
) -> PyTree[Shaped[Array, "agents ..."]]:
    read = functools.partial(_observation_from_json, num_agents=num_agents)
    if table.local_and_state is not None:
        return ObservationAndState(
            read(table.local_and_state.local), read(table.local_and_state.state)
        )
    if table.masked is not None:
        return Masked(read(table.masked.observation), read(table.masked.action_mask))
    if table.named is not None:
        return {name: read(x) for name, x in table.named.items()}
    if table.numbered is not None:
        return tuple(read(x) for x in table.numbered)
    return jnp.zeros((num_agents, *(table.shape or ())), table.dtype)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
