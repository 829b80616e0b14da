"""Policy files: safetensors files with a description of the policy. Loading runs no code of it."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from eqgrid import RunningMoments
from eqgrid.errors import is_for_users

from ..policies import (
    AbstractActionHead,
    AbstractCriticInput,
    AbstractNetwork,
    ActorCritic,
    Normalization,
    TrainedPolicy,
)
from ._checkpoint import NEWER, CheckpointError, check_schema, fill_part, is_newer, read, save
from ._description import FORMAT, PolicyTable, build_like, describe
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


def save_policy(
    path: str | Path, policy: TrainedPolicy, metadata: Mapping[str, Any] | None = None
) -> None:
    """Writes a policy file: parameters and moments, with a description from which they are rebuilt.

    ```python
    import jax

    from agents import actor_critic, save_policy, trained_policy
    from eqgrid import AutoReset, Vectorize, make

    envs = Vectorize(AutoReset(make("goals")), 16)
    policy = actor_critic(envs, jax.random.key(0))
    save_policy("policy.safetensors", trained_policy(policy, envs), {"note": "untrained"})
    ```

    **Arguments:**

    - `path`: the file, such as `policy.safetensors`; its folder is created if needed.
    - `policy`: the policy, from `trained_policy` or `load_policy`.
    - `metadata`: further entries, with values that JSON can represent; `read_metadata` returns
        them, with the description of the policy as `"policy"`.

    **Raises:** `CheckpointError` when the file cannot be written, and `ValueError` when a part of
    the policy cannot be described in it.
    """
    save(path, policy, {**(metadata or {}), "policy": describe(policy)})


def load_policy(
    path: str | Path,
    *,
    networks: Mapping[str, Callable[..., AbstractNetwork]] | None = None,
    heads: Mapping[str, Callable[..., AbstractActionHead]] | None = None,
    critic_inputs: Mapping[str, Callable[..., AbstractCriticInput]] | None = None,
    like: ActorCritic | None = None,
    convert: bool = False,
) -> TrainedPolicy:
    """Reads a policy from a file, or from the folder of a run.

    Loading runs no code of the file, and imports nothing: the names of classes and functions in the
    file are looked up among eqgrid's own, and in `networks`, `heads` and `critic_inputs`.

    ```python
    import jax

    from agents import load_policy
    from agents import shipped_policies
    from eqgrid import make

    policy = load_policy(shipped_policies()["ring"])
    observation, state = make("overcooked", layout="ring", observation="features").reset(
        jax.random.key(0)
    )
    action, carry = policy.act(observation, policy.initial_carry(), jax.random.key(1))
    ```

    **Arguments:**

    - `path`: a policy file, the folder of a run with one seed, or the name of a bundled policy,
        such as `shipped:cramped`.
    - `networks`: your own networks, by the names of their classes; each is called as
        `network(in_shape, out_size, final_scale=..., key=...)`, as in `actor_critic`, and with the
        hyperparameters in the file. A hyperparameter is an argument of the constructor that the
        network stores in an attribute of the same name: a number, a text, a tuple, a network or the
        shape of an array.
    - `heads`: your own action heads, by the names of their classes; each is called with the action
        space of one agent and the hyperparameters in the file.
    - `critic_inputs`: your own critic inputs, by the names of their classes; each is called with
        the hyperparameters in the file.
    - `like`: an actor-critic of the same structure, or its shapes; it is then used instead of
        building one from the description in the file.
    - `convert`: whether to convert numbers of 32 bits to 64 bits in JAX's 64-bit mode
        (`jax_enable_x64`), and numbers of 64 bits to 32 bits without it. By default, a policy of
        the other mode raises an error.

    **Returns:** the policy that was saved.

    **Raises:** `CheckpointError` when the file is missing, damaged, or has an unknown part, and the
    errors of your own classes.
    """
    path = find_policy(path)
    about, data = read(path)
    if "policy" not in about["metadata"]:
        raise CheckpointError(
            f"The file {str(path)!r} is a training state and not a policy: name the folder of its "
            "run, or a file such as policy.safetensors or checkpoints/best.safetensors in it."
        )
    described = about["metadata"]["policy"]
    if isinstance(described, dict) and is_newer(described.get("format"), FORMAT):
        raise CheckpointError(f"The policy {str(path)!r} cannot be used: it {NEWER}.")
    try:
        table = check_schema(described, PolicyTable)
        policy, space, observation, moments = build_like(
            table, networks or {}, heads or {}, critic_inputs or {}, like
        )
        policy = fill_part(about, data, table.parameters, policy, convert)
        if (stored := table.normalization) is None:
            return TrainedPolicy(policy, space, observation)
        moments = fill_part(about, data, table.moments, moments, convert)
        for one in jax.tree.leaves(moments, is_leaf=lambda x: isinstance(x, RunningMoments)):
            if one.count < 0 or (one.variance < 0).any():
                raise ValueError("its moments have a count or a variance below 0")
        clip = jnp.asarray(math.inf if stored.clip is None else stored.clip)
        normalization = Normalization(moments, jnp.asarray(stored.epsilon), clip)
        return TrainedPolicy(policy, space, observation, normalization)
    except _LOAD_ERRORS as error:
        if (networks or heads or critic_inputs) and not is_for_users(error):
            error.add_note(f"The policy {str(path)!r} cannot be built with these classes.")
            raise  # the classes of the user may have raised it
        reason = str(error).partition("\n")[0].rstrip(".")
        raise CheckpointError(f"The policy {str(path)!r} cannot be used: {reason}.") from error


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
