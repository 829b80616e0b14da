"""Exports worlds and policies as ONNX models for a web page, and checks that they match Python."""

from collections.abc import Collection

import jax
import msgspec
import numpy as np
from jaxtyping import Array, Bool, Int

from eqgrid_lab.base import RunError

from ._onnx import Arrays, Model, leaves_of, to_model
from ._world import PagePolicy, PageWorld, Shown, Stepped

_TOLERANCE = 1e-6
"""The absolute tolerance for observations and recurrent states: about one float32 rounding error of
a number below 10.
"""


def start_model(world: PageWorld) -> bytes:
    """The start of a game as an ONNX model.

    The input is `key`, which has two numbers, `[0, seed]`. The outputs are the leaves of the state
    (`state_0`, `state_1`, ...) and the fields of `Shown`.
    """
    key = jax.random.key(0)
    return to_model(world.start, [key], ["key"], [*_state_names(world), *Shown._fields])


def step_model(world: PageWorld) -> bytes:
    """A step of a game as an ONNX model.

    The inputs are the leaves of the state (`state_0`, `state_1`, ...), `pressed` and `person`. The
    outputs are the leaves of the next state (`next_0`, `next_1`, ...) and the other fields of
    `Stepped`.
    """
    state = world.start(jax.random.key(0)).state
    names = _state_names(world)
    return to_model(
        world.step,
        [state, *world.nobody],
        [*names, "pressed", "person"],
        _step_outputs(world),
    )


def policy_model(policy: PagePolicy) -> bytes:
    """A policy as an ONNX model.

    The inputs are the leaves of the observation (`observation_0`, ...) and, for a recurrent policy,
    of its memory (`carry_0`, ...). The outputs are `output`, such as the logits of all actions for
    each agent, and the leaves of the next memory (`next_carry_0`, ...). The entry
    `initial_carry` of the metadata contains the initial memory as JSON.
    """
    seen = [f"observation_{i}" for i in range(len(policy.observation))]
    carry = [f"carry_{i}" for i in range(len(policy.carry))]
    first = msgspec.json.encode([np.asarray(x).tolist() for x in policy.carry]).decode()
    return to_model(
        policy,
        [policy.observation, policy.carry],
        [*seen, *carry],
        ["output", *(f"next_{name}" for name in carry)],
        {"initial_carry": first},
    )


def check_models(world: PageWorld, start: bytes, step: bytes, *, steps: int, seed: int = 0) -> None:
    """Plays the same random steps with models and in Python, and compares all results.

    In each step, a person acts in each seat with probability 0.75, and the partner otherwise.

    **Arguments:**

    - `world`: the world.
    - `start`, `step`: the models of the world.
    - `steps`: the number of steps, in one or several games.
    - `seed`: the seed of the first game and of all actions.

    **Raises:** `RunError` when observations or recurrent states differ by more than the tolerance,
    or any other output differs at all.
    """
    run_start, run_step = Model(start), Model(step)
    compiled, rng = jax.jit(world.step), np.random.default_rng(seed)
    names, outputs = _state_names(world), _step_outputs(world)
    first = jax.jit(world.start)
    state: list[Array] | None = None
    model_state: Arrays = {}
    for number in range(steps):
        if state is None:
            key = jax.random.key(seed + number)
            state = first(key).state
            model_state = run_start(key=key)
            _check_equal(dict(zip(names, leaves_of(state), strict=True)), model_state, number, ())
        before = leaves_of(state)
        pressed, person = draw_actions(world, rng)
        after: Stepped = compiled(state, pressed, person)
        given = {name: model_state[name] for name in names}
        # Each step starts from Python's recurrent state, so rounding errors do not accumulate.
        given |= {names[i]: before[i] for i in world.memory}
        model_outputs = run_step(**given, pressed=pressed, person=person)
        memory = [f"next_{i}" for i in world.memory]
        _check_equal(
            dict(zip(outputs, leaves_of(after), strict=True)), model_outputs, number, memory
        )
        model_state = {name: model_outputs[f"next_{i}"] for i, name in enumerate(names)}
        state = None if bool(after.finished) else after.state


def draw_actions(
    world: PageWorld, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "agents *choices"], Bool[np.ndarray, " agents"]]:
    """Samples an action for every seat, and the seats in which a person acts."""
    nobody, person = world.nobody
    pressed = np.array(nobody)
    columns = pressed.reshape(len(pressed), -1).T  # a view, so that `pressed` is filled
    for choice, column in enumerate(columns):
        known = [x.action for x in world.place.controls if x.choice == choice]
        column[:] = np.asarray([*known, column[0]])[rng.integers(len(known) + 1, size=len(column))]
    return pressed, rng.random(len(person)) < 0.75


def _state_names(world: PageWorld) -> list[str]:
    return [f"state_{i}" for i in range(world.size)]


def _step_outputs(world: PageWorld) -> list[str]:
    """The names of the leaves of `Stepped`."""
    own = [f"next_{i}" for i in range(world.size)]
    seen = [f"observation_{i}" for i in range(world.observed_arrays)]
    return [*own, "action", "reward", "returns", "finished", *seen, *Shown._fields]


def _check_equal(expected: Arrays, found: Arrays, step: int, memory: Collection[str]) -> None:
    for name, value in expected.items():
        close = name.startswith("observation") or name in memory
        same = (
            np.allclose(value, found[name], rtol=0, atol=_TOLERANCE)
            if close
            else np.array_equal(value, found[name])
        )
        if not same or value.dtype != found[name].dtype:
            raise RunError(
                f"The exported world differs from Python: {name} differs in step {step}. Nothing "
                "was written."
            )
