"""Helpers for wrappers to check how they are nested."""

from collections.abc import Iterator

from .._env import AbstractEnv, AbstractVectorEnv, AbstractVectorWrapper, AbstractWrapper


def iter_wrappers(
    env: AbstractEnv | AbstractVectorEnv,
) -> Iterator[AbstractWrapper | AbstractVectorWrapper]:
    """Iterates over the wrappers around an environment, from the outermost to the innermost.

    It stops at `Vectorize`: start again from `vectorize.env` for the wrappers inside it.
    """
    while isinstance(env, AbstractWrapper | AbstractVectorWrapper):
        yield env
        env = env.env


def contains_wrapper(env: AbstractEnv | AbstractVectorEnv, kind: type) -> bool:
    """Whether `env` is, or contains, a wrapper of this type; see `iter_wrappers`."""
    return any(isinstance(layer, kind) for layer in iter_wrappers(env))


def check_single_env(env: object, usage: str) -> AbstractEnv:
    """Checks that a wrapper is given a single environment.

    **Arguments:**

    - `env`: the argument of the wrapper.
    - `usage`: how the wrapper is called, such as `"TimeLimit(env, limit)"`, for the message.

    **Returns:** `env`.

    **Raises:** `ValueError` for a vector environment, `TypeError` for anything else.
    """
    if isinstance(env, AbstractVectorEnv):
        raise ValueError(
            f"{_name(usage)} wraps one environment, not a batch of them: put it inside Vectorize, "
            f"as in Vectorize({usage}, num_envs)."
        )
    if not isinstance(env, AbstractEnv):
        raise TypeError(_no_environment(env, usage))
    return env


def check_vector_env(env: object, usage: str) -> AbstractVectorEnv:
    """Checks that a wrapper is given a vector environment.

    **Arguments:**

    - `env`: the argument of the wrapper.
    - `usage`: how the wrapper is called, such as `"NormalizeReward(env)"`, for the message.

    **Returns:** `env`.

    **Raises:** `ValueError` for a single environment, `TypeError` for anything else.
    """
    if isinstance(env, AbstractEnv):
        raise ValueError(
            f"{_name(usage)} wraps a batch of environments, not one: put Vectorize inside it, "
            f"as in {usage.replace('env', 'Vectorize(env, num_envs)', 1)}."
        )
    if not isinstance(env, AbstractVectorEnv):
        raise TypeError(_no_environment(env, usage))
    return env


def _name(usage: str) -> str:
    return usage.partition("(")[0]


def _no_environment(env: object, usage: str) -> str:
    return f"{_name(usage)} wraps an environment, but was given {type(env).__name__}: {env!r:.60}."
