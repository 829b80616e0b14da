"""Compiles the programs of `ippo.py` with its defaults, and prints the processor seconds of each.

`cold_start.py` runs it in a process of its own, in which nothing is compiled yet.
"""

import time

begun = time.process_time()

import json  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from accelerator import init  # noqa: E402

from eqgrid_lab import Evaluation  # noqa: E402
from agents import Block, pick_run  # noqa: E402
from agents.files import shipped  # noqa: E402
from eqgrid_lab.base import import_file  # noqa: E402
from eqgrid_lab.show import compile_video  # noqa: E402

FEW_OPTIMISATIONS = {"xla_backend_optimization_level": "0"}
"""As a run compiles the program of its initial state, which it calls once."""


def compile_program(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    program: Any = eqx.filter_jit(function, **options)
    program.lower(*args).compile()


def list_parts() -> dict[str, Callable[[], None]]:
    """Functions that compile one program each, by name."""
    config: Any = import_file(shipped("ippo.py")).IPPO()
    env, key, world = config.train_env(), jax.random.key(0), config.env.build(train=False)
    keys = key[None]  # of one seed
    init_runs = eqx.filter_vmap(init, in_axes=(None, None, 0))
    state = eqx.filter_jit(init_runs)(config, env, keys)
    judging = config.eval_env(world, config.eval_episodes)
    policies = Evaluation(judging, env, keys).policies(state)

    def step(env: Any, state: Any) -> Any:
        action = jnp.zeros((env.num_envs, env.num_agents), jnp.int32)
        return env.step(jax.random.key(0), state.runner.env_state, action)

    return {
        "the initial state": lambda: compile_program(
            init_runs, config, env, keys, compiler_options=FEW_OPTIMISATIONS
        ),
        "a step of the environments alone": lambda: compile_program(step, env, pick_run(state, 0)),
        "the training loop": lambda: Block(
            config.learner(), env, num_updates=240, length=12
        ).compile(state),
        "an evaluation": lambda: Evaluation(judging, env, keys).compile(state, policies),
        "the video": lambda: compile_video(
            jax.tree.map(lambda x: x[0], policies),
            config.eval_env(world, 1),
            key,
            config.env.horizon,
        ),
    }


if __name__ == "__main__":
    seconds = {"imports": time.process_time() - begun}
    for name, part in list_parts().items():
        jax.clear_caches()  # so that no part finds what another one has traced
        start = time.process_time()
        part()
        seconds[name] = time.process_time() - start
    print(json.dumps(seconds))
