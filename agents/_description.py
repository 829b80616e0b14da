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

from eqgrid import (
    AbstractSpace,
    Box,
    Discrete,
    Masked,
    ObservationAndState,
    RunningMoments,
    split_mask,
)

from ._heads import check_mask, head_for
from ._networks import CNN, GRU, MLP, AbstractNetwork, Precision
from ._policy import ActorCritic
from ._team import AbstractMultiAgentNetwork, IndependentParameters, SharedParameters
from ._trained_policy import TrainedPolicy
from ._views import AbstractCriticInput, GlobalState, JointObservation, LocalObservation

FORMAT = "eqgrid policy 1"

ACTIVATIONS: dict[str, Callable] = {
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
_TEAMS = ("SharedParameters", "IndependentParameters")
_DTYPES = (
    "bool",
    "bfloat16",
    *(f"{kind}{bits}" for bits in (8, 16, 32) for kind in ("int", "uint")),
)
_DTYPES += ("float16", "float32")
_PRECISIONS = {name: name for name in get_args(Precision)}
_LARGEST_WIDTH, _LARGEST_DEPTH, _MOST_AGENTS = 2**20, 1000, 1000


def describe(policy: TrainedPolicy, parameters: str, moments: str) -> dict[str, Any]:
    """What a file says of the policy in it.

    **Arguments:**

    - `policy`: the policy.
    - `parameters`, `moments`: how the names of their arrays in the file begin.

    **Raises:** `ValueError` when something of it has no name that a file could say.
    """
    actor_critic, normalization = policy.actor_critic, policy.normalization
    return {
        "format": FORMAT,
        "num_agents": policy.num_agents,
        "observation": _observation_to_json(policy.observation),
        "action_space": _space_to_json(policy.action_space),
        "actor": _team_to_json(actor_critic.actor),
        "critic": _team_to_json(actor_critic.critic),
        "view": _name_of(actor_critic.view, _VIEWS),
        "parameters": parameters,
        "normalization": normalization
        and {
            "moments": moments,
            "epsilon": float(normalization.epsilon),
            "clip": float(normalization.clip) if jnp.isfinite(normalization.clip) else None,
        },
        "versions": {name: _version(name) for name in ("eqgrid", "jax", "equinox")},
    }


def build_like(
    description: Mapping[str, Any], networks: Mapping[str, Callable[..., AbstractNetwork]]
) -> tuple[ActorCritic, AbstractSpace, PyTree[jax.ShapeDtypeStruct], PyTree[RunningMoments]]:
    """Builds what a file describes, with shapes in place of arrays.

    **Arguments:**

    - `description`: what `describe` made.
    - `networks`: networks that are not ours, by name.

    **Returns:** the parameters, the actions of one agent, the observation of all agents, and the
    moments of such observations.

    **Raises:** `ValueError` with half a sentence when there is nothing of that kind.
    """
    if description["format"] != FORMAT:
        raise ValueError(f"its format is {description['format']!r:.60}, not {FORMAT!r}")
    num_agents = _whole(description, "num_agents", 1, _MOST_AGENTS)
    space = _space_from_json(description["action_space"])
    observation = eqx.filter_eval_shape(
        functools.partial(_observation_from_json, description["observation"], num_agents)
    )
    check_mask(space, observation)
    seen, _ = split_mask(observation)
    view = _one_of(_VIEWS, description["view"], "view")()
    local = eqx.filter_eval_shape(view.local, seen)
    shown = eqx.filter_eval_shape(view, seen)
    head = head_for(space)
    actor = _team_from_json(description["actor"], networks, local, head.out_size(space))
    critic = _team_from_json(description["critic"], networks, shown, 1)
    moments = eqx.filter_eval_shape(
        lambda: jax.tree.map(lambda x: RunningMoments.empty(x.shape[1:]), seen)
    )
    return ActorCritic(actor, critic, view, head), space, observation, moments


def _space_to_json(space: AbstractSpace) -> dict[str, Any]:
    if isinstance(space, Discrete):
        return {"kind": "discrete", "n": space.n}
    if isinstance(space, Box):
        bounds = {"low": np.asarray(space.low).tolist(), "high": np.asarray(space.high).tolist()}
        shape, dtype = list(space.shape), str(space.low.dtype)
        return {"kind": "box", "shape": shape, "dtype": dtype, **bounds}
    raise ValueError(f"A file holds actions of a Discrete or a Box, not those of {space!r:.60}.")


def _space_from_json(table: Mapping[str, Any]) -> Discrete | Box:
    if table["kind"] == "discrete":
        return Discrete(_whole(table, "n", 1, _LARGEST_WIDTH))
    if table["kind"] == "box":
        _one_of(dict.fromkeys(_DTYPES), table["dtype"], "dtype")
        low, high = (jnp.asarray(np.asarray(table[x], table["dtype"])) for x in ("low", "high"))
        shape = [_whole({"shape": x}, "shape", 1, _LARGEST_WIDTH) for x in table["shape"]]
        return Box(low, high, tuple(shape))
    raise ValueError(f"its actions are of the kind {table['kind']!r:.60}")


def _team_to_json(team: AbstractMultiAgentNetwork) -> dict[str, Any]:
    if isinstance(team, SharedParameters):
        return {"team": "SharedParameters", **_network_to_json(team.network)}
    if isinstance(team, IndependentParameters):
        return {"team": "IndependentParameters", **_network_to_json(team.networks)}
    raise ValueError(
        f"A file holds {' or '.join(_TEAMS)}, but the policy has a {type(team).__name__}."
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
    return {"network": None, "custom_network": type(network).__name__}


def _choices(network: MLP | CNN) -> dict[str, str]:
    for name, function in ACTIVATIONS.items():
        if function is network.activation:
            return {"activation": name, "precision": network.precision}
    raise ValueError(
        f"A file holds the name of an activation, but {network.activation!r:.60} has none there: "
        f"use one of {', '.join(ACTIVATIONS)}, or a network class of your own."
    )


def _team_from_json(
    table: Mapping[str, Any],
    networks: Mapping[str, Callable[..., AbstractNetwork]],
    x: PyTree[jax.ShapeDtypeStruct],
    out_size: int,
) -> AbstractMultiAgentNetwork:
    _one_of(dict.fromkeys(_TEAMS), table["team"], "team")
    num_agents = jax.tree.leaves(x)[0].shape[0]
    make = functools.partial(
        _network_from_json(table, networks),
        jax.tree.map(lambda leaf: leaf.shape[1:], x),
        out_size,
        final_scale=1.0,
    )

    def build() -> AbstractMultiAgentNetwork:
        if table["team"] == "SharedParameters":
            network = make(key=jax.random.key(0))
            return SharedParameters(network=network, num_agents=num_agents)
        return IndependentParameters([make(key=jax.random.key(0)) for _ in range(num_agents)])

    return eqx.filter_eval_shape(build)


def _network_from_json(
    table: Mapping[str, Any], networks: Mapping[str, Callable[..., AbstractNetwork]]
) -> Callable[..., AbstractNetwork]:
    name = table["network"]
    if name is None:
        name = table["custom_network"]
        if name not in networks:
            raise ValueError(
                f"it has a network {name!r:.60} that eqgrid does not know: pass "
                f"networks={{{name!r:.60}: ...}}, called as network(in_shape, out_size, "
                f"final_scale=..., key=...)"
            )
        return networks[name]
    if name == "GRU":
        if table["encoder"]["network"] == "GRU":
            raise ValueError("its network with memory has another one inside")
        encoder = _network_from_json(table["encoder"], networks)
        return functools.partial(GRU, width=_width(table), encoder=encoder)
    choices: dict[str, Any] = {
        "width": _width(table),
        "depth": _whole(table, "depth", 0, _LARGEST_DEPTH),
        "activation": _one_of(ACTIVATIONS, table["activation"], "activation"),
        "precision": _one_of(_PRECISIONS, table["precision"], "precision"),
    }
    if name == "MLP":
        return functools.partial(MLP, **choices)
    if name == "CNN":
        return functools.partial(
            CNN, features=_whole(table, "features", 1, _LARGEST_WIDTH), **choices
        )
    raise ValueError(f"there is no network {name!r:.60}")


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
    table: Mapping[str, Any], num_agents: int
) -> PyTree[Shaped[Array, "agents ..."]]:
    if "shape" in table:
        shape = [_whole({"shape": x}, "shape", 0, _LARGEST_WIDTH) for x in table["shape"]]
        _one_of(dict.fromkeys(_DTYPES), table["dtype"], "dtype")
        return jnp.zeros((num_agents, *shape), jnp.dtype(table["dtype"]))
    if "local_and_state" in table:
        parts = table["local_and_state"]
        return ObservationAndState(
            _observation_from_json(parts["local"], num_agents),
            _observation_from_json(parts["state"], num_agents),
        )
    if "masked" in table:
        parts = table["masked"]
        return Masked(
            _observation_from_json(parts["observation"], num_agents),
            _observation_from_json(parts["action_mask"], num_agents),
        )
    if "dict" in table:
        return {name: _observation_from_json(x, num_agents) for name, x in table["dict"].items()}
    return tuple(_observation_from_json(x, num_agents) for x in table["tuple"])


def _name_of(thing: object, known: Mapping[str, type]) -> str:
    for name, kind in known.items():
        if type(thing) is kind:
            return name
    raise ValueError(
        f"A file holds one of {', '.join(known)}, but the policy has a {type(thing).__name__}."
    )


def _one_of(known: Mapping[str, Any], name: Any, what: str) -> Any:
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"there is no {what} {name!r:.60}; known are {', '.join(known)}")
    return known[name]


def _width(table: Mapping[str, Any]) -> int:
    return _whole(table, "width", 1, _LARGEST_WIDTH)


def _whole(table: Mapping[str, Any], name: str, low: int, high: int) -> int:
    number = table[name]
    if type(number) is not int or not low <= number <= high:
        raise ValueError(f"its {name} is {number!r:.60}, and not between {low} and {high}")
    return number


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
