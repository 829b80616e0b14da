"""Which wrapper may hold which: the questions that wrappers ask when they are built."""

from collections.abc import Iterator

from .._env import AbstractEnv, AbstractVectorEnv, AbstractVectorWrapper, AbstractWrapper


def iter_wrappers(
    env: AbstractEnv | AbstractVectorEnv,
) -> Iterator[AbstractWrapper | AbstractVectorWrapper]:
    """The wrappers of one level, from the outermost to the innermost."""
    while isinstance(env, AbstractWrapper | AbstractVectorWrapper):
        yield env
        env = env.env


def contains_wrapper(env: AbstractEnv | AbstractVectorEnv, kind: type) -> bool:
    """Whether a wrapper of this kind is anywhere in `env`."""
    return any(isinstance(layer, kind) for layer in iter_wrappers(env))


def check_single_env(env: object, usage: str) -> AbstractEnv:
    """Lets one environment through.

    **Arguments:**

    - `env`: what a wrapper was given.
    - `usage`: how that wrapper is called, such as `"TimeLimit(env, limit)"`.

    **Returns:** `env`.

    **Raises:** `ValueError` for many environments, `TypeError` for what is no environment.
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
    """Lets many environments through; as `check_single_env`, with the levels exchanged."""
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
