"""Policy files: safetensors files with a description of the policy. Loading runs no code of it."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, final

import jax
import jax.numpy as jnp
import msgspec
from msgspec import Meta, Struct

import eqgrid
from eqgrid import AbstractEnv, RunningMoments
from eqgrid.errors import is_for_users

from ..policies import Normalization, TrainedPolicy
from ._checkpoint import (
    NEWER,
    CheckpointError,
    check_schema,
    digest,
    fill_part,
    is_newer,
    read,
    save,
)
from ._description import FORMAT, PolicyTable, build_like, build_wrapper, describe
from ._files import expand_home

POLICY_FILE = "policy.safetensors"
"""The name of the policy file in the folder of a run."""

BUNDLED = "shipped:"
"""The prefix of the names of bundled policies, such as `shipped:cramped`."""

_INSTALLED = Path(__file__).parents[1] / "shipped"
_CHECKED_OUT = Path(__file__).parents[2] / "experiments"

_LOAD_ERRORS = (
    *(ValueError, TypeError, ArithmeticError, AttributeError, RecursionError),
    *(LookupError, AssertionError),
)
"""Exceptions that classes raise for arguments that are valid alone, but not together."""


@final
class PolicyWorld(Struct, frozen=True, forbid_unknown_fields=True):
    """The world of a policy, as its file names it.

    **Arguments:**

    - `name`: the name of the world for `eqgrid.make`, or `MODULE:NAME` for a world of your own.
    - `arguments`: the arguments of its constructor, by name.
    - `wrappers`: the wrappers that change the observations, the innermost first, from
        `describe_wrappers`.
    """

    name: Annotated[str, Meta(max_length=1000)]
    arguments: dict[str, Any] = {}
    wrappers: Annotated[list[dict[str, dict[str, Any]]], Meta(max_length=100)] = []


@final
@dataclasses.dataclass(frozen=True, eq=False)
class PolicyFile:
    """The content of a policy file, from `read_policy`.

    **Arguments:**

    - `path`: the file.
    - `policy`: the policy.
    - `world`: its world; `None` if the file does not name one.
    - `metadata`: all entries of the file, such as results and provenance.
    - `sha256`: the checksum of the content, which identifies the policy.
    - `parts`: your own classes, as in `read_policy`.
    """

    path: Path
    policy: TrainedPolicy
    world: PolicyWorld | None
    metadata: Mapping[str, Any]
    sha256: str
    parts: Mapping[str, Callable[..., Any]]

    def env(self, make: Callable[..., AbstractEnv] = eqgrid.make) -> AbstractEnv:
        """Builds the environment in which the policy is evaluated, with its observations.

        ```python
        from agents import evaluate, read_policy
        from eqgrid import AutoReset, LogEpisodes, Vectorize
        import jax

        file = read_policy("shipped:ring")
        envs = Vectorize(AutoReset(LogEpisodes(file.env())), num_envs=8)
        print(evaluate(file.policy, envs, jax.random.key(0)).episode_return.mean())
        ```

        **Arguments:**

        - `make`: builds a world from its name and its arguments.

        **Raises:** `CheckpointError` when the file names no world, or a wrapper that is unknown;
        and the errors of `make`.
        """
        if self.world is None:
            raise CheckpointError(f"The policy {str(self.path)!r} does not name its world.")
        return self.observe(make(self.world.name, **self.world.arguments))

    @property
    def wrappers(self) -> list[dict[str, dict[str, Any]]]:
        """The description of the wrappers that change the observations."""
        return [] if self.world is None else self.world.wrappers

    def observe(self, env: AbstractEnv) -> AbstractEnv:
        """Wraps a world so that it returns the observations of the policy.

        **Raises:** `CheckpointError` when a wrapper is unknown.
        """
        for described in self.wrappers:
            try:
                env = build_wrapper(described, env, self.parts)
            except _LOAD_ERRORS as error:
                raise _unusable(self.path, error, self.parts) from error
        return env


def save_policy(
    path: str | Path,
    policy: TrainedPolicy,
    metadata: Mapping[str, Any] | None = None,
    *,
    world: PolicyWorld | None = None,
) -> None:
    """Writes a policy file: parameters and moments, with a description from which they are rebuilt.

    ```python
    import jax

    from agents import PolicyWorld, actor_critic, save_policy, trained_policy
    from eqgrid import AutoReset, Vectorize, make

    envs = Vectorize(AutoReset(make("goals")), 16)
    policy = trained_policy(actor_critic(envs, jax.random.key(0)), envs)
    save_policy("policy.safetensors", policy, {"note": "untrained"}, world=PolicyWorld("goals"))
    ```

    **Arguments:**

    - `path`: the file, such as `policy.safetensors`; its folder is created if needed.
    - `policy`: the policy, from `trained_policy` or `load_policy`.
    - `metadata`: further entries, with values that JSON can represent; `read_metadata` returns
        them, with the description of the policy as `"policy"`, and the world as `"world"`.
    - `world`: the world of the policy.

    **Raises:** `CheckpointError` when the file cannot be written, and `ValueError` when a part of
    the policy cannot be described in it.
    """
    named = {} if world is None else {"world": msgspec.to_builtins(world)}
    save(path, policy, {**(metadata or {}), **named, "policy": describe(policy)})


def load_policy(
    path: str | Path,
    *,
    parts: Mapping[str, Callable[..., Any]] | None = None,
    convert: bool = False,
) -> TrainedPolicy:
    """Reads a policy from a file, or from the folder of a run.

    Loading runs no code of the file, and imports nothing: the names of classes in the file are
    looked up among eqgrid's own, and in `parts`.

    ```python
    import jax

    from agents import load_policy
    from eqgrid import make

    policy = load_policy("shipped:ring")
    observation, state = make("overcooked", layout="ring", observation="features").reset(
        jax.random.key(0)
    )
    action, carry = policy.act(observation, policy.initial_carry(), jax.random.key(1))
    ```

    **Arguments:**

    - `path`: a policy file, the folder of a run with one seed, or the name of a bundled policy,
        such as `shipped:cramped`.
    - `parts`: your own networks, action heads, critic inputs and wrappers, by the names of their
        classes. Each is called with the hyperparameters in the file: a network as
        `network(in_shape, out_size, final_scale=..., key=...)`, a head with the action space of one
        agent, a wrapper with an environment. A hyperparameter is an argument of the constructor
        that is stored in an attribute of the same name: a number, a text, a tuple, a network or
        the shape of an array.
    - `convert`: whether to convert numbers of 32 bits to 64 bits in JAX's 64-bit mode
        (`jax_enable_x64`), and numbers of 64 bits to 32 bits without it. By default, a policy of
        the other mode raises an error.

    **Returns:** the policy that was saved.

    **Raises:** `CheckpointError` when the file is missing, damaged, or has an unknown part, and the
    errors of your own classes.
    """
    return read_policy(path, parts=parts, convert=convert).policy


def read_policy(
    path: str | Path,
    *,
    parts: Mapping[str, Callable[..., Any]] | None = None,
    convert: bool = False,
) -> PolicyFile:
    """Reads a policy as `load_policy` does, with its world and its metadata.

    **Arguments** and **Raises:** as in `load_policy`.
    """
    path, parts = find_policy(path), parts or {}
    about, data = read(path)
    metadata = about["metadata"]
    if "policy" not in metadata:
        raise CheckpointError(
            f"The file {str(path)!r} is a training state and not a policy: name the folder of its "
            "run, or a file such as policy.safetensors or checkpoints/best.safetensors in it."
        )
    described = metadata["policy"]
    if isinstance(described, dict) and is_newer(described.get("format"), FORMAT):
        raise CheckpointError(f"The policy {str(path)!r} cannot be used: it {NEWER}.")
    try:
        table = check_schema(described, PolicyTable)
        world = metadata.get("world")
        world = None if world is None else check_schema(world, PolicyWorld)
        actor_critic, space, observation, moments = build_like(table, parts)
        actor_critic = fill_part(about, data, table.parameters, actor_critic, convert)
        normalization = None
        if (stored := table.normalization) is not None:
            moments = fill_part(about, data, table.moments, moments, convert)
            for one in jax.tree.leaves(moments, is_leaf=lambda x: isinstance(x, RunningMoments)):
                if one.count < 0 or (one.variance < 0).any():
                    raise ValueError("its moments have a count or a variance below 0")
            clip = jnp.asarray(math.inf if stored.clip is None else stored.clip)
            normalization = Normalization(moments, jnp.asarray(stored.epsilon), clip)
        policy = TrainedPolicy(actor_critic, space, observation, normalization)
    except _LOAD_ERRORS as error:
        raise _unusable(path, error, parts) from error
    return PolicyFile(path, policy, world, metadata, digest(about, data), parts)


def _unusable(
    path: Path, error: Exception, parts: Mapping[str, Callable[..., Any]]
) -> CheckpointError:
    """The error for a policy that cannot be built.

    **Raises:** the error itself, if a class of the user may have raised it.
    """
    if parts and not is_for_users(error):
        error.add_note(f"The policy {str(path)!r} cannot be built with these parts.")
        raise error
    reason = str(error).partition("\n")[0].rstrip(".")
    return CheckpointError(f"The policy {str(path)!r} cannot be used: {reason}.")


def file_of_seed(path: Path, seed: int | None) -> Path:
    """The file of one of several seeds, such as `policy-3.safetensors` for `policy.safetensors`.

    **Arguments:**

    - `path`: the file of a run with one seed.
    - `seed`: the seed; `None` if there is only one.
    """
    return path if seed is None else path.with_stem(f"{path.stem}-{seed}")


def find_policies(path: str | Path) -> list[Path]:
    """Finds the policy files of a run.

    **Arguments:**

    - `path`: a file, the folder of a run, or the name of a bundled policy, such as
        `shipped:cramped`. `~` at its beginning is the home folder.

    **Returns:** the policy file of each seed, sorted by seed. A run writes them at its end, each
    with the better one of its best and its last policy. If they are missing, as in a run that was
    killed, these are the best policies so far. If `path` is a file, it is returned.

    **Raises:** `CheckpointError` when there is no policy in the folder, or no such bundled policy.
    """
    if str(path).startswith(BUNDLED):
        known = shipped_policies()
        name = str(path).removeprefix(BUNDLED)
        if name in known:
            return [known[name]]
        raise CheckpointError(
            f"There is no bundled policy {name!r:.60}. Known are {', '.join(known)}."
        )
    folder = Path(expand_home(str(path)))
    if not folder.is_dir():
        return [folder]
    for name in ("policy", "checkpoints/best"):
        found = list(folder.glob(f"{name}.safetensors"))
        of_seeds = folder.glob(f"{name}-*.safetensors")
        numbered = {x: x.stem.rpartition("-")[2] for x in of_seeds}
        found += sorted(
            (x for x in numbered if numbered[x].isdecimal()), key=lambda x: int(numbered[x])
        )
        if found:
            return found
    inside = sorted(str(x.parent) for x in folder.glob(f"*/{POLICY_FILE}"))
    if inside:
        raise CheckpointError(
            f"The folder {str(path)!r} holds several runs: name one of them, such as {inside[0]!r}."
        )
    raise CheckpointError(
        f"There is no policy in the folder {str(path)!r}: name a file, or the folder of a run."
    )


def find_policy(path: str | Path) -> Path:
    """Finds the policy file of a run with one seed, as `find_policies` does.

    **Arguments** and **Raises:** as in `find_policies`; `CheckpointError` also when the run has
    several seeds.
    """
    found = find_policies(path)
    if len(found) > 1:
        raise CheckpointError(
            f"The folder {str(path)!r} has the policies of several seeds: name one of them, such "
            f"as {str(found[0])!r}."
        )
    return found[0]


def shipped(name: str) -> Path:
    """The path of a file in the folder `experiments/`, which is `agents/shipped/` in a wheel.

    **Arguments:**

    - `name`: the path of the file in this folder, such as `ippo.py` or `policies/ring.safetensors`.

    **Returns:** the path; the file need not exist.
    """
    return (_INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT) / name


def shipped_policies() -> dict[str, Path]:
    """The bundled policy files, by name, such as `"ring"` or `"plan-ring"`.

    For example, `load_policy(shipped_policies()["ring"])` is a policy for the kitchen `ring`.
    """
    return {x.stem: x for x in sorted(shipped("policies").glob("*.safetensors"))}
