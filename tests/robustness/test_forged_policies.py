"""Policy files with a right checksum and forged metadata: each is refused in one sentence, or is a
policy that acts.
"""

import copy
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import inspect
from saved_policies import forge
from scripts import shipped_script

from agents import (
    MLP,
    CheckpointError,
    PolicyWorld,
    actor_critic,
    load_policy,
    save_policy,
    trained_policy,
)
from agents.files import _checkpoint
from agents.files._description import CLASSES, ArrayTable, OwnArguments, PolicyTable
from eqgrid import Masked, ObservationAndState
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import Game, PolicyFlags
from eqgrid_lab.partners._saved import _Metadata
from eqgrid_lab.settings import parse

pytestmark = pytest.mark.robustness
CASES = 500
JUNK = st.recursive(
    st.sampled_from([None, True, -1, 0, 10**9, 2**70, 1.5, float("nan"), float("inf"), "", "../x"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


class Schema(_Metadata, total=False):
    """All that is read of the metadata of a policy."""

    policy: PolicyTable
    world: PolicyWorld


SCHEMA = inspect.type_info(Schema)
ARGUMENTS: dict[str, inspect.Type] = {
    field.encode_name: field.type
    for kind in (OwnArguments, ArrayTable)
    for field in inspect.type_info(kind).fields
}
TABLES: dict[int, st.SearchStrategy] = {}
MODULES = st.deferred(
    lambda: st.dictionaries(
        st.sampled_from([*CLASSES, "dict", "array"]),
        st.fixed_dictionaries(
            {},
            optional={name: values_of(kind) for name, kind in ARGUMENTS.items()}
            | dict.fromkeys(("network", "encoder", "local", "observation"), MODULES),
        ),
        min_size=1,
        max_size=1,
    )
)


def values_of(kind: inspect.Type) -> st.SearchStrategy:
    """The values that the schema allows, and some that are only nearly allowed."""
    match kind:
        case inspect.IntType():
            ends = [x + d for x in (kind.ge, kind.le) if x is not None for d in (-1, 0, 1)]
            return st.integers(-3, 70) | st.sampled_from(ends or [0])
        case inspect.FloatType():
            return st.floats()
        case inspect.StrType():
            return st.text(max_size=5)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.NoneType():
            return st.none()
        case inspect.ListType():
            return st.lists(values_of(kind.item_type), max_size=3)
        case inspect.DictType(max_length=1):
            return MODULES
        case inspect.DictType():
            return st.dictionaries(st.text(max_size=3), values_of(kind.value_type), max_size=3)
        case inspect.UnionType():
            return st.one_of([values_of(x) for x in kind.types])
        case inspect.StructType() | inspect.TypedDictType():
            return TABLES.setdefault(id(kind), st.deferred(lambda: tables_of(kind)))
    return JUNK


def tables_of(kind) -> st.SearchStrategy:
    fields = {field.encode_name: field for field in kind.fields}
    needed = {name: values_of(x.type) for name, x in fields.items() if x.required}
    optional = {name: values_of(x.type) for name, x in fields.items() if not x.required}
    return st.fixed_dictionaries(needed, optional=optional)


def kind_at(kind: inspect.Type | None, name: str) -> inspect.Type | None:
    """What the schema says of an entry of a valid table."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    for one in kinds:
        if isinstance(one, inspect.StructType | inspect.TypedDictType):
            return {field.encode_name: field.type for field in one.fields}.get(name)
    return ARGUMENTS.get(name)


def entries(table: dict, kind: inspect.Type | None, *where: str):
    """All entries of a valid table, and of the tables in it, with what the schema says of them."""
    for name, value in table.items():
        inner = kind_at(kind, name)
        yield (*where, name), inner
        if isinstance(value, dict):
            yield from entries(value, inner, *where, name)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    """What a checkpoint says of itself, and its arrays."""
    path = tmp_path_factory.mktemp("policy") / "a"
    flags = ("--env.name", "goals", "--env.normalize-observation", "--num-envs", "2")
    config = parse(shipped_script("ippo"), flags)
    env = config.train_env()
    network = functools.partial(MLP, width=4, depth=1)
    policy = actor_critic(env, jax.random.key(0), network=network)
    trained = trained_policy(policy, env, env.reset(jax.random.key(0))[1])
    about = {"run": "0", "env_steps": 7, "partners": [{"name": "x", "sha256": "1"}]}
    save_policy(path, trained, about, world=config.place().policy_world)
    return _checkpoint.read(path)


@st.composite
def forgeries(draw, metadata):
    """The metadata with up to two entries that are replaced, left out or made up."""
    metadata = copy.deepcopy(metadata)
    known = list(entries(metadata, SCHEMA))
    for _ in range(draw(st.integers(0, 2))):
        (*where, name), kind = draw(st.sampled_from(known))
        table = metadata
        for part in where:
            table = table.get(part, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            continue
        match draw(st.sampled_from(["allowed", "junk", "left out", "made up"])):
            case "allowed" if kind is not None:
                table[name] = draw(values_of(kind))
            case "left out":
                table.pop(name, None)
            case "made up":
                table[draw(st.text(max_size=5))] = draw(JUNK)
            case _:
                table[name] = draw(JUNK)
    return metadata


def without_state(observation):
    return jax.tree.map(
        lambda x: x.local if isinstance(x, ObservationAndState) else x,
        observation,
        is_leaf=lambda x: isinstance(x, ObservationAndState),
    )


def check_acts(policy):
    """One step, in which all is allowed."""
    shapes = without_state(policy.observation)
    seen = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    if isinstance(seen, Masked):
        seen = eqx.tree_at(lambda x: x.action_mask, seen, replace_fn=jnp.ones_like)
    action, _ = policy.act(seen, policy.initial_carry(), jax.random.key(1))
    assert action.shape[0] == policy.num_agents
    assert jnp.isfinite(action).all()
    outputs, _ = policy.outputs(seen, policy.initial_carry())
    assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(outputs))


def test_forged_metadata_are_refused_or_the_policy_acts(genuine, tmp_path):
    about, data = genuine
    acts, refused = [], []

    @settings(
        max_examples=CASES, deadline=None, derandomize=True, suppress_health_check=HealthCheck
    )
    @given(metadata=forgeries(about["metadata"]))
    def check(metadata):
        path = tmp_path / "forged"
        forge(path, {**about, "metadata": metadata}, data)
        try:
            check_acts(load_policy(path))
            if metadata.get("world") is not None:
                Game.open(PolicyFlags((str(path),)))
            acts.append(path)
        except (CheckpointError, UsageError) as error:
            refused.append(str(error))

    check()
    assert min(len(acts), len(refused)) > CASES / 20, "both happen"
    assert not any("\n" in sentence for sentence in refused)
