"""Programs of JAX as ONNX models that ONNX Runtime runs, in Python and in browsers."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import jax
import numpy as np
import onnx
import onnxruntime
from jax2onnx import to_onnx
from jaxtyping import Shaped
from onnxruntime.capi import (
    onnxruntime_pybind11_state as states,  # pyright: ignore[reportAttributeAccessIssue]
)

from eqgrid.typing import PyTree

from ..base import UsageError
from ._kernels import add_casts
from ._random import as_data, on_key_data

_OPSET = 21
_REFUSED = (
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.NotImplemented,
    states.RuntimeException,
)
"""What ONNX Runtime raises when it cannot run a model."""
_WRONG = ["EliminateIdentity"]
"""An optimisation of ONNX Runtime 1.32 that renames values which subgraphs read, as in a GRU."""


def to_model(
    function: Callable[..., Any],
    arguments: Sequence[PyTree],
    inputs: Sequence[str],
    outputs: Sequence[str],
    notes: Mapping[str, str] | None = None,
) -> bytes:
    """Writes a function as an ONNX model.

    **Arguments:**

    - `function`: a function of arrays, which may draw random numbers.
    - `arguments`: examples of its arguments, whose values do not matter. A key becomes two numbers.
    - `inputs`: a name for each leaf of the arguments.
    - `outputs`: a name for each leaf of what it returns.
    - `notes`: what programs that use the model should know, stored in it.

    **Returns:** the contents of the file.

    **Raises:** `UsageError` when the function uses something that has no form in ONNX.
    """
    flat, shapes = on_key_data(function, *arguments)
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries, about one another
            model = to_onnx(
                lambda *leaves: tuple(flat(*leaves)),
                shapes,
                model_name="eqgrid",
                opset=_OPSET,
                input_names=list(inputs),
            )
            assert isinstance(model, onnx.ModelProto)
            model = _optimised(_named(add_casts(model), outputs))
    except (NotImplementedError, ValueError, onnx.shape_inference.InferenceError) as error:
        raise _no_form(error) from error
    except _REFUSED as error:
        raise _no_form(error) from error
    for name, text in (notes or {}).items():
        model.metadata_props.add(key=name, value=text)
    return model.SerializeToString()


def _no_form(error: Exception) -> UsageError:
    first = next(iter(str(error).splitlines()), "")
    return UsageError(f"This world or policy cannot be converted to ONNX: {first:.300}")


def _named(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """Names the outputs, several of which may be one value."""
    for value, name in zip(model.graph.output, outputs, strict=True):
        model.graph.node.append(onnx.helper.make_node("Identity", [value.name], [name]))
        value.name = name
    return model


def _optimised(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with everything computed that depends on no input."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options, disabled_optimizers=_WRONG)
        return onnx.load(path)


@final
class Model:
    """A model that runs in this process."""

    def __init__(self, content: bytes):
        """**Arguments:**

        - `content`: what `to_model` returned.
        """
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(content, options, disabled_optimizers=_WRONG)
        self._inputs = [x.name for x in self._session.get_inputs()]
        self._outputs = [x.name for x in self._session.get_outputs()]

    def __call__(self, **inputs: Any) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Runs it, with an array for each input; inputs that it does not need are left out.

        **Raises:** `UsageError` when ONNX Runtime cannot run it.
        """
        given = {x: np.asarray(as_data(inputs[x])) for x in self._inputs}
        try:
            found: Any = self._session.run(None, given)
        except _REFUSED as error:
            raise _no_form(error) from error
        return dict(zip(self._outputs, found, strict=True))


def leaves_of(tree: PyTree) -> list[Shaped[np.ndarray, "..."]]:
    """The leaves of arrays as models take and return them."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(as_data(tree))]
