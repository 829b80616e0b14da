"""A process that compiles and times the rollouts of one library, on request.

Benchmarks start one of these for each library, each in the interpreter that has that library, and
exchange lines of JSON with it over its standard input and output. Apart from the standard library,
it imports only jax, `gpu_compiler` and the module of the library.
"""

import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from gpu_compiler import compile_for_gpu

Step = Callable[[Any, jax.Array, Any, jax.Array], tuple[Any, Any, Any]]
"""`(params, keys, states, actions) -> (observations, rewards, states)`; the arrays of all but
`params` have a leading axis of environments."""


def rollout(
    step: Step,
    mode: str,
    params: Any,
    states: Any,
    keys: jax.Array,
    actions: jax.Array,
    memory: Any,
) -> tuple[Any, Any]:
    """A rollout of a batch of environments, which is the same scan for every library.

    **Arguments:**

    - `step`: steps the batch.
    - `mode`: `"stored"` returns every observation, `"summed"` the sum of the numbers in each, and
        `"dynamics"` none, so that they need not be computed.
    - `params`, `states`: the parameters and the states of the environments.
    - `keys`, `actions`: the key and the actions of each step, which are sampled beforehand.
    - `memory`: the observations and rewards of an earlier rollout. They are not read: they are
        donated, so that no memory is allocated.

    **Returns:** the last states, and the observations (by `mode`) and rewards of every step.
    """

    def one_step(states: Any, inputs: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        key, action = inputs
        keys = jax.random.split(key, len(action))
        observations, rewards, states = step(params, keys, states, action)
        if mode == "summed":
            observations = jax.tree.map(_sum_each, observations)
        return states, (None if mode == "dynamics" else observations, rewards)

    return jax.lax.scan(one_step, states, (keys, actions))


def _sum_each(x: jax.Array) -> jax.Array:
    """The sum of each environment's observation."""
    wide = jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32
    return x.sum(axis=tuple(range(1, x.ndim)), dtype=wide)


def compile_rollout(
    library: Any,
    spec: dict[str, Any],
    mode: str,
    num_envs: int,
    num_steps: int,
    target: str,
    folder: str,
) -> None:
    """Compiles the rollout that a `Stopwatch` would run, but for a GPU that need not be there."""
    params, reset, step = library.build(spec, num_envs)
    key_type = jax.random.key(0).dtype
    states = jax.eval_shape(reset, params, jax.ShapeDtypeStruct((num_envs,), key_type))
    actions = jax.ShapeDtypeStruct((num_steps, num_envs, spec["num_agents"]), jnp.int32)
    shapes = (params, states, jax.ShapeDtypeStruct((num_steps,), key_type), actions)
    program = partial(rollout, step, mode)
    memory = jax.eval_shape(program, *shapes, None)[1]
    compile_for_gpu(program, (*shapes, memory), target, folder, donate=(1, 4))


class Stopwatch:
    """Compiles one rollout, and runs it repeatedly; each run continues where the last one ended."""

    def __init__(
        self,
        library: Any,
        spec: dict[str, Any],
        mode: str,
        num_envs: int,
        num_steps: int,
        max_bytes: float,
    ):
        """Runs as many of `num_steps` steps as fit into `max_bytes`.

        **Raises:** `MemoryError` when these are fewer than 8.
        """
        params, reset, step = library.build(spec, num_envs)
        key = jax.random.key(0)
        self.states = jax.jit(reset)(params, jax.random.split(key, num_envs))
        program = partial(rollout, step, mode)
        keys = jax.random.split(key, num_steps)
        actions = jax.ShapeDtypeStruct((num_steps, num_envs, spec["num_agents"]), jnp.int32)
        kept = jax.eval_shape(program, params, self.states, keys, actions, None)[1]
        num_steps = min(num_steps, int(max_bytes / (_bytes(kept) / num_steps)))
        if num_steps < 8:
            raise MemoryError("8 steps do not fit")
        self.memory = jax.tree.map(lambda x: jnp.zeros((num_steps, *x.shape[1:]), x.dtype), kept)
        shape = (num_steps, *actions.shape[1:])
        actions = jax.random.randint(key, shape, 0, spec["num_actions"], jnp.int32)
        self.inputs = (params, keys[:num_steps], actions)
        jax.clear_caches()  # so that nothing is compiled already
        jax.block_until_ready((self.states, actions, self.memory))
        started = time.perf_counter()
        lowered = jax.jit(program, donate_argnums=(1, 4), keep_unused=True).lower(
            params, self.states, *self.inputs[1:], self.memory
        )
        traced = time.perf_counter()
        self.program = lowered.compile()
        self.report = {
            "num_steps": num_steps,
            "trace_seconds": round(traced - started, 4),
            "compile_seconds": round(time.perf_counter() - traced, 4),
            "state_bytes": _bytes(self.states) / num_envs,
            "kept_bytes": _bytes(self.memory) / num_envs / num_steps,
        }
        self.run()  # the first run includes one-time costs

    def run(self) -> float:
        """Runs one rollout. **Returns:** the time that it takes, in seconds."""
        started = time.perf_counter()
        params, *inputs = self.inputs
        self.states, self.memory = self.program(params, self.states, *inputs, self.memory)
        jax.block_until_ready((self.states, self.memory))
        return time.perf_counter() - started


def _bytes(tree: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def _device() -> str:
    kind = jax.devices()[0].device_kind
    if kind != "cpu":
        return kind
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return f"{model[1] if model else 'a CPU'}, {os.cpu_count()} cores"


def serve(library: str, requests: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Answers requests, which are lines of JSON: `start` compiles a rollout, `run` times it, and
    `compile` compiles it for a GPU that need not be there. The first answer is the device and the
    version of jax.
    """
    module = importlib.import_module(f"with_{library}")
    yield {"device": _device(), "jax": jax.__version__}
    watch: Any = None
    for line in requests:
        request = json.loads(line)
        try:
            if request["do"] == "start":
                watch = None  # frees the memory of the last one
                watch = Stopwatch(module, **request["what"])
                answer = watch.report
            elif request["do"] == "compile":
                compile_rollout(module, **request["what"])
                answer = {}
            else:
                answer = {"seconds": watch.run()}
        except Exception as error:  # such as out of memory; the next case may succeed
            answer = {"error": (str(error).strip() or type(error).__name__).splitlines()[0]}
        yield answer


if __name__ == "__main__":
    # Answers go to a copy of standard output, since libraries may print to it; it is redirected.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for answer in serve(sys.argv[1], sys.stdin):
        print(json.dumps(answer), file=output, flush=True)
