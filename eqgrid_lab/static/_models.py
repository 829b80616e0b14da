"""Exports worlds and policies as ONNX models for a web page, and checks that they match Python."""

from collections.abc import Collection

import jax
import msgspec
import numpy as np
from jaxtyping import Array, Bool, Int

from ..base import RunError
from ._onnx import Arrays, Model, leaves_of, to_model
from ._world import PagePolicy, PageWorld, Shown, Stepped

_TOLERANCE = 1e-6
"""The absolute tolerance for observations: about one float32 rounding error of a number below 10.
"""


def start_model(world: PageWorld) -> bytes:
    """The start of a game as a model: from `key` (two numbers, `[0, seed]`) to the leaves of the
    state, `state_0` and so on, and the fields of `Shown`.
    """
    key = jax.random.key(0)
    return to_model(world.start, [key], ["key"], [*_states(world), *Shown._fields])


def step_model(world: PageWorld) -> bytes:
    """A step of a game as a model: from `state_0` and so on, `pressed` and `person` to the leaves
    of the next state, `next_0` and so on, and the further fields of `Stepped`.
    """
    state = world.start(jax.random.key(0)).state
    names = _states(world)
    return to_model(
        world.step,
        [state, *world.nobody],
        [*names, "pressed", "person"],
        _step_outputs(world),
    )


def policy_model(policy: PagePolicy) -> bytes:
    """A policy as a model: from `observation_0` and so on, and `carry_0` and so on if it remembers,
    to `output`, such as the logits of all actions for each agent, and `next_carry_0` and so on. The
    initial memory is in the note `initial_carry`.
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
    """Plays random steps with models and in Python.

    In each step, a person acts in each seat with probability 0.75, and the partner otherwise.

    **Arguments:**

    - `world`: the world.
    - `start`, `step`: its models.
    - `steps`: how many steps to play, in as many games as it takes.
    - `seed`: the seed of the first game, and of all actions.

    **Raises:** `RunError` when observations or recurrent states differ by more than the tolerance,
    or any other output differs at all.
    """
    begin, go_on = Model(start), Model(step)
    compiled, chooser = jax.jit(world.step), np.random.default_rng(seed)
    names, outputs = _states(world), _step_outputs(world)
    first = jax.jit(world.start)
    state: list[Array] | None = None
    ours: Arrays = {}
    for number in range(steps):
        if state is None:
            key = jax.random.key(seed + number)
            state = first(key).state
            ours = begin(key=key)
            _compare(dict(zip(names, leaves_of(state), strict=True)), ours, number, ())
        before = leaves_of(state)
        pressed, person = draw_actions(world, chooser)
        after: Stepped = compiled(state, pressed, person)
        given = {name: ours[name] for name in names}
        # Each step starts from Python's recurrent state, so rounding errors do not accumulate.
        given |= {names[i]: before[i] for i in world.memory}
        theirs = go_on(**given, pressed=pressed, person=person)
        memory = [f"next_{i}" for i in world.memory]
        _compare(dict(zip(outputs, leaves_of(after), strict=True)), theirs, number, memory)
        ours = {name: theirs[f"next_{i}"] for i, name in enumerate(names)}
        state = None if bool(after.finished) else after.state


def draw_actions(
    world: PageWorld, chooser: np.random.Generator
) -> tuple[Int[np.ndarray, "agents *choices"], Bool[np.ndarray, " agents"]]:
    """Random actions of people, and in which seats there are any: mostly in all."""
    nobody, person = world.nobody
    pressed = np.array(nobody)
    columns = pressed.reshape(len(pressed), -1).T
    for choice, column in enumerate(columns):
        known = [x.action for x in world.place.controls if x.choice == choice]
        column[:] = np.asarray([*known, column[0]])[
            chooser.integers(len(known) + 1, size=len(column))
        ]
    return pressed, chooser.random(len(person)) < 0.75


def _states(world: PageWorld) -> list[str]:
    return [f"state_{i}" for i in range(world.size)]


def _step_outputs(world: PageWorld) -> list[str]:
    """The names of the leaves of a `Stepped`."""
    own = [f"next_{i}" for i in range(world.size)]
    seen = [f"observation_{i}" for i in range(world.observed_arrays)]
    return [*own, "action", "reward", "returns", "finished", *seen, *Shown._fields]


def _compare(expected: Arrays, found: Arrays, step: int, memory: Collection[str]) -> None:
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
