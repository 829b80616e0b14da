"""Converts the start and the step of a world to ONNX models for a web page."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import onnxruntime
from jax2onnx import to_onnx

from eqgrid.typing import PyTree

from ._rewrite import rewrite
from ._world import PageWorld, Shown

_OPSET = 26
"""The first version of ONNX with the operator BitCast, which random floats need."""
_FAULTY = ["EliminateIdentity"]
"""A faulty optimisation of ONNX Runtime 1.32: it renames values that subgraphs read, as in a GRU.
"""


def start_model(world: PageWorld) -> bytes:
    """The start of a game as an ONNX model.

    The input is `key`, which has two numbers, `[0, seed]`. The outputs are the leaves of the state
    (`state_0`, `state_1`, ...) and the fields of `Shown`.
    """
    state = [f"state_{i}" for i in range(world.size)]
    return to_model(world.start, [jax.random.key(0)], ["key"], [*state, *Shown._fields])


def step_model(world: PageWorld) -> bytes:
    """A step of a game as an ONNX model.

    The inputs are the leaves of the state (`state_0`, `state_1`, ...), `pressed` and `person`. The
    outputs are the leaves of the next state (`next_0`, `next_1`, ...) and the other fields of
    `Stepped`.
    """
    state = world.start(jax.random.key(0)).state
    before, after = ([f"{name}_{i}" for i in range(world.size)] for name in ("state", "next"))
    return to_model(
        world.step,
        [state, *world.nobody],
        [*before, "pressed", "person"],
        [*after, "action", "reward", "returns", "finished", *Shown._fields],
    )


def to_model(
    function: Callable[..., PyTree],
    arguments: Sequence[PyTree],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> bytes:
    """Converts a function to an ONNX model.

    **Arguments:**

    - `function`: a function of arrays, which may sample random numbers.
    - `arguments`: example arguments, whose values do not matter. The model takes a random key as
        two numbers.
    - `inputs`: a name for each leaf of the arguments.
    - `outputs`: a name for each leaf of the result.

    **Returns:** the contents of the model's file.
    """
    flat, shapes = rewrite(function, *arguments)
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # the libraries warn about each other
        raw, folded = Path(folder) / "raw.onnx", Path(folder) / "folded.onnx"
        to_onnx(
            lambda *leaves: jax.lax.optimization_barrier(tuple(flat(*leaves))),
            shapes,
            opset=_OPSET,
            return_mode="file",
            output_path=raw,
            input_names=inputs,
            output_names=outputs,
        )
        # Values that depend on no input become constants.
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 3
        options.optimized_model_filepath = str(folded)
        onnxruntime.InferenceSession(raw, options, disabled_optimizers=_FAULTY)
        return folded.read_bytes()
