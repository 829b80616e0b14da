"""The description of a policy in its file: classes, and the arguments of their constructors.

In JSON, a Module is an object with one entry: the name of its class, and the arguments by name, as
in `{"agents.MLP": {"width": 64, "depth": 2}}`. The names of eqgrid's classes begin with their
package, and those of other classes do not, so that a user's `MLP` is never taken for eqgrid's.
"""

import dataclasses
import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Meta, Struct

import eqgrid
from eqgrid.typing import PyTree

from .. import policies
from ._checkpoint import check_schema

FORMAT = "eqgrid policy 3"

_Size: TypeAlias = Annotated[int, Meta(ge=1, le=2**20)]
_Name: TypeAlias = Annotated[str, Meta(max_length=200)]
_Arguments: TypeAlias = Annotated[dict[_Name, Any], Meta(max_length=100)]
_Module: TypeAlias = Annotated[dict[_Name, _Arguments], Meta(min_length=1, max_length=1)]


class NormalizationTable(Struct, forbid_unknown_fields=True):
    """The settings of `NormalizeObservation`."""

    epsilon: Annotated[float, Meta(ge=1.2e-38, le=1e30)]
    clip: Annotated[float, Meta(gt=0, le=1e30)] | None


class PolicyTable(Struct, forbid_unknown_fields=True):
    """The whole description of a policy.

    - `observation`: the observation of one agent.
    - `parameters`, `moments`: the prefixes of the names of their arrays in the file.
    """

    format: Literal["eqgrid policy 3"]
    num_agents: Annotated[int, Meta(ge=1, le=1000)]
    observation: _Module | list[Any]
    action_space: _Module
    actor: _Module
    critic: _Module
    critic_input: _Module
    head: _Module
    normalization: NormalizationTable | None
    parameters: str
    moments: str
    versions: Annotated[dict[_Name, _Name], Meta(max_length=20)]


class ArrayTable(Struct, forbid_unknown_fields=True):
    """The shape and the dtype of an array."""

    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**20)]], Meta(max_length=8)]
    dtype: (
        Literal["float32", "float16", "bfloat16", "bool"]
        | Literal["int8", "int16", "int32", "uint8", "uint16", "uint32"]
    )


class OwnArguments(TypedDict, total=False):
    """The types and bounds of arguments of eqgrid's own classes."""

    width: _Size
    depth: Annotated[int, Meta(ge=0, le=100)]
    features: _Size
    activation: policies.Activation
    precision: policies.Precision
    n: _Size
    ns: Annotated[list[_Size], Meta(min_length=1, max_length=1000)]


def _named(*classes: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Classes by their names in files, such as `agents.MLP`."""
    return {f"{x.__module__.partition('.')[0]}.{x.__name__}": x for x in classes}


_SPACES = _named(eqgrid.Discrete, eqgrid.MultiDiscrete, eqgrid.Box)
_OBSERVATIONS = _named(eqgrid.Masked, eqgrid.ObservationAndState)
_NETWORKS = _named(policies.MLP, policies.CNN, policies.GRU, policies.PredictingGRU)
_TEAMS = _named(policies.SharedParameters, policies.IndependentParameters)
_CRITIC_INPUTS = _named(policies.LocalObservation, policies.JointObservation, policies.GlobalState)
_HEADS = _named(policies.CategoricalHead, policies.MultiCategoricalHead, policies.ClippedNormalHead)
_WRAPPERS = _named(eqgrid.AppendAgentId, eqgrid.AppendTimeLeft)
CLASSES = _SPACES | _OBSERVATIONS | _NETWORKS | _TEAMS | _CRITIC_INPUTS | _HEADS | _WRAPPERS
"""eqgrid's own classes, by their names in files."""

NOT_STORED: dict[str, Any] = {"not stored": {}}
"""The description of an argument that a file cannot hold, such as a function."""
_MISSING = object()  # the value of an argument that is not an attribute; it is not stored either


def describe(policy: policies.TrainedPolicy) -> dict[str, Any]:
    """Describes a policy for its file.

    **Arguments:**

    - `policy`: the policy.

    **Returns:** values that JSON can represent, in the schema of `PolicyTable`.

    **Raises:** `ValueError` when the policy cannot be rebuilt from a description.
    """
    actor_critic, normalization = policy.actor_critic, policy.normalization
    description = {
        "format": FORMAT,
        "num_agents": policy.num_agents,
        "observation": _to_json(_one_agent(policy.observation)),
        "action_space": _space_to_json(policy.action_space),
        "actor": _team_to_json(actor_critic.actor),
        "critic": _team_to_json(actor_critic.critic),
        "critic_input": _to_json(actor_critic.critic_input),
        "head": _to_json(actor_critic.head),
        "normalization": normalization
        and {
            "epsilon": float(normalization.epsilon),
            "clip": float(normalization.clip) if jnp.isfinite(normalization.clip) else None,
        },
        "parameters": ".actor_critic",
        "moments": ".normalization.moments",
        "versions": {name: _version(name) for name in ("eqgrid", "jax", "equinox")},
    }
    try:
        table = check_schema(description, PolicyTable)
        eqx.filter_eval_shape(_build_observation, table, _build_space(table.action_space))
    except ValueError as error:
        raise ValueError(f"A file cannot hold this policy: {error}.") from error
    return description


def describe_wrappers(env: eqgrid.Environment, world: eqgrid.Environment) -> list[dict[str, Any]]:
    """Describes the wrappers around a world for the file of a policy.

    **Arguments:**

    - `env`: the world in wrappers that change its observations.
    - `world`: the world without them.

    **Returns:** the name and the arguments of each wrapper, the innermost first.

    **Raises:** `ValueError` when an argument of a wrapper cannot be described.
    """
    described: list[dict[str, Any]] = []
    while env is not world:
        assert isinstance(env, eqgrid.AbstractWrapper)
        described.insert(0, _to_json(env))
        env = env.env
    return described


def _to_json(x: Any) -> Any:
    """Describes numbers, texts, tuples, dicts, the shapes of arrays, and Modules of these."""
    if x is None or isinstance(x, bool | int | float | str):
        return x
    if type(x) in (tuple, list):
        return [_to_json(entry) for entry in x]
    if type(x) is dict:
        return {"dict": {name: _to_json(entry) for name, entry in x.items()}}
    if isinstance(x, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
        return {"array": {"shape": list(x.shape), "dtype": str(x.dtype)}}
    if not isinstance(x, eqx.Module):
        return NOT_STORED
    name = next((name for name, known in CLASSES.items() if known is type(x)), type(x).__name__)
    # A Module is described by the arguments of its constructor, which are also attributes. The
    # arguments that its caller computes are left out.
    parameters = list(inspect.signature(type(x)).parameters.values())
    if isinstance(x, policies.AbstractNetwork):
        if not any(p.name == "key" or p.kind is p.VAR_KEYWORD for p in parameters):
            return {name: {}}  # a function of the user calls the constructor, with other arguments
        parameters = parameters[2:]  # the shape of the input and the length of the output
    elif isinstance(x, policies.AbstractActionHead | eqgrid.AbstractWrapper):
        parameters = parameters[1:]  # the action space, or the environment
    arguments: dict[str, Any] = {}
    for parameter in parameters:
        key, kind = parameter.name, parameter.kind
        if key in ("final_scale", "key") or kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
            continue  # the first two change only initial values
        value = getattr(x, key, _MISSING)
        if isinstance(x, eqgrid.AbstractWrapper) and eqx.is_array(value):
            value = np.asarray(value).tolist()  # its arrays are not parameters of the policy
        described = _to_json(value)
        if described == NOT_STORED and name in CLASSES:
            raise ValueError(
                f"A file stores numbers, texts and tuples, but the {key} of {name} is "
                f"{value!r:.60}: use one that has a name, or a class of your own."
            )
        # An argument that cannot be stored may be left out if it has its default.
        if described != NOT_STORED or value != parameter.default:
            arguments[key] = described
    return {name: _checked(name, arguments)}


def _space_to_json(space: eqgrid.AbstractSpace) -> dict[str, Any]:
    if not isinstance(space, eqgrid.Box):
        return _to_json(space)
    # The bounds are stored as numbers, since the checkpoint of a run does not contain their arrays.
    bounds = {name: np.asarray(x).tolist() for name, x in vars(space).items()}
    return {"eqgrid.Box": {**bounds, "shape": list(space.shape)}}


def _team_to_json(team: policies.AbstractMultiAgentNetwork) -> dict[str, Any]:
    if isinstance(team, policies.SharedParameters):
        return {"agents.SharedParameters": {"network": _to_json(team.network)}}
    if isinstance(team, policies.IndependentParameters):
        return {"agents.IndependentParameters": {"network": _to_json(_one_agent(team.networks))}}
    raise ValueError(
        f"A file holds SharedParameters or IndependentParameters, but the policy has a "
        f"{type(team).__name__}."
    )


def _one_agent(tree: PyTree) -> PyTree:
    """A tree with shapes in place of arrays, without the leading axis of the agents."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype) if hasattr(x, "shape") else x, tree
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def build_like(
    table: PolicyTable, parts: Mapping[str, Callable[..., Any]]
) -> tuple[
    policies.ActorCritic, eqgrid.AbstractSpace, policies.Shapes, PyTree[eqgrid.RunningMoments]
]:
    """Builds the policy that a file describes, with shapes in place of arrays.

    **Arguments:**

    - `table`: the description, as `describe` returned it.
    - `parts`: the user's classes, as in `load_policy`.

    **Returns:** the actor-critic, the action space of one agent, the observations of all agents,
    and the moments of such observations.

    **Raises:** `ValueError` with a clause when the parts do not fit together, or a part is unknown.
    """
    space = _build_space(table.action_space)

    # Only traced by `eqx.filter_eval_shape`, for the shapes of its results.
    def build() -> tuple[policies.ActorCritic, PyTree, PyTree]:
        observation = _build_observation(table, space)
        unmasked, _ = eqgrid.split_mask(observation)
        moments = jax.tree.map(lambda x: eqgrid.RunningMoments.empty(x.shape[1:]), unmasked)
        (name,) = table.head
        if name in _HEADS and _HEADS[name] is not type(policies.head_for(space)):
            kind = type(space).__name__
            raise ValueError(f"its action head, {name}, is not for actions of a {kind}")
        head = _Builder({**parts, **_HEADS}).constructor(table.head)(space)
        critic_input = _Builder({**parts, **_CRITIC_INPUTS}).constructor(table.critic_input)()
        build_team = functools.partial(
            _build_team, _Builder({**parts, **_NETWORKS}), table.num_agents
        )
        actor = build_team(table.actor, critic_input.local(unmasked), head.out_size(space))
        critic = build_team(table.critic, critic_input(unmasked), 1)
        return policies.ActorCritic(actor, critic, critic_input, head), observation, moments

    built, observation, moments = eqx.filter_eval_shape(build)
    return built, space, observation, moments


def _build_observation(table: PolicyTable, space: eqgrid.AbstractSpace) -> PyTree:
    """The observations of all agents, with zeros in place of arrays."""
    observation = _Builder(_OBSERVATIONS, batch=(table.num_agents,)).value(table.observation)
    leaves = jax.tree.leaves(observation, is_leaf=lambda x: x is None)
    if not leaves or not all(isinstance(x, jax.Array) for x in leaves):
        raise ValueError("its observation has a part that is not an array")
    policies.check_mask(space, observation)
    return observation


def build_wrapper(
    described: dict[str, Any], env: eqgrid.AbstractEnv, parts: Mapping[str, Callable[..., Any]]
) -> eqgrid.AbstractEnv:
    """Wraps an environment as an entry of `describe_wrappers` says.

    **Arguments:**

    - `described`: the entry.
    - `env`: the environment.
    - `parts`: the user's classes, as in `load_policy`.

    **Raises:** `ValueError` when the wrapper is unknown, or not for this environment.
    """
    return _Builder({**parts, **_WRAPPERS}).constructor(described)(env)


def _build_space(module: dict[str, Any]) -> eqgrid.AbstractSpace:
    if "eqgrid.Box" not in module:
        return eqx.filter_eval_shape(lambda: _Builder(_SPACES).constructor(module)())
    box = module["eqgrid.Box"]
    low, high = (np.asarray(box.get(name), float) for name in ("low", "high"))
    if not list(low.shape) == list(high.shape) == box.get("shape"):
        raise ValueError("the bounds of its actions have other shapes than its actions")
    return eqgrid.Box(jnp.asarray(low, float), jnp.asarray(high, float), low.shape)


def _build_team(
    builder: "_Builder", num_agents: int, module: dict[str, Any], x: PyTree, out_size: int
) -> policies.AbstractMultiAgentNetwork:
    """Builds the actor or the critic of all agents, for inputs with the shapes of `x`."""
    ((name, arguments),) = module.items()
    if name not in _TEAMS or arguments.keys() != {"network"}:
        raise ValueError(
            f"its actor or critic is {name!r:.60}, and not the SharedParameters or "
            f"IndependentParameters of a network"
        )
    in_shape = jax.tree.map(lambda leaf: leaf.shape[1:], x)
    make = builder.constructor(arguments["network"])
    network = make(in_shape, out_size, final_scale=1.0, key=jax.random.key(0))
    if name == "agents.SharedParameters":
        return policies.SharedParameters(network=network, num_agents=num_agents)
    return policies.IndependentParameters([network] * num_agents)


@dataclasses.dataclass(frozen=True)
class _Builder:
    """Builds Modules of known classes from their descriptions, with zeros in place of arrays.

    **Arguments:**

    - `classes`: the classes, or functions that call them, by the names of the classes in files.
    - `batch`: the leading axes of all arrays.
    """

    classes: Mapping[str, Callable[..., Any]]
    batch: tuple[int, ...] = ()

    def constructor(self, module: Any) -> Callable[..., Any]:
        """The constructor of the Module that `module` describes, with the arguments in the file.

        **Raises:** `ValueError` with a clause when its class is unknown, or an argument is missing.
        """
        ((name, arguments),) = check_schema(module, _Module).items()
        if name not in self.classes:
            raise ValueError(
                f"it has a {name!r:.60}, which eqgrid does not know: if it is your own class, pass "
                f"parts={{{name!r:.60}: ...}} to load_policy, or add --script FILE.py to a command"
            )
        make, pairs = self.classes[name], _checked(name, arguments).items()
        missing = [key for key, value in pairs if value == NOT_STORED]
        if missing and isinstance(make, type):
            keywords = ", ".join(f"{key:.60}=..." for key in missing[:5])
            raise ValueError(
                f"its {name:.60} was built with arguments that are not in the file: pass "
                f"parts={{{name!r:.60}: functools.partial({name:.60}, {keywords})}} to "
                f"load_policy"
            )
        stored = {key: self.value(value) for key, value in pairs if key not in missing}
        # Stored arguments replace given ones: a GRU passes its own width to its encoder, but the
        # stored encoder may have another width.
        return lambda *args, **given: make(*args, **{**given, **stored})

    def value(self, x: Any) -> Any:
        """Builds the value of an argument. A network stays a constructor, which the network that
        contains it calls.
        """
        if (isinstance(x, str) and len(x) > 200) or (isinstance(x, list) and len(x) > 1000):
            raise ValueError("it has a text or a list that is too long")
        if isinstance(x, list):
            return tuple(self.value(entry) for entry in x)
        if not isinstance(x, dict):
            return x
        ((name, arguments),) = check_schema(x, _Module).items()
        if name == "dict":
            return {key: self.value(entry) for key, entry in arguments.items()}
        if name == "array":
            array = check_schema(arguments, ArrayTable)
            return jnp.zeros((*self.batch, *array.shape), array.dtype)
        constructor, kind = self.constructor(x), self.classes[name]
        is_network = not isinstance(kind, type) or issubclass(kind, policies.AbstractNetwork)
        return constructor if is_network else constructor()


def _checked(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments, and checks their bounds if the class is one of eqgrid's."""
    if name in CLASSES:
        check_schema(arguments, OwnArguments)
    return arguments
