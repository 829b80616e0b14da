"""Programs of JAX as ONNX models that ONNX Runtime runs, in Python and in browsers."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

import jax
import numpy as np
import onnx
import onnxruntime
from jax2onnx import to_onnx
from jaxtyping import Shaped
from onnx import TensorProto, helper
from onnxruntime.capi import (
    onnxruntime_pybind11_state as states,  # pyright: ignore[reportAttributeAccessIssue]
)

from eqgrid.typing import PyTree

from ..base import UsageError
from ._random import as_data, on_key_data

Arrays: TypeAlias = dict[str, Shaped[np.ndarray, "..."]]
"""The inputs or outputs of a model, by name."""

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
    function: Callable[..., PyTree],
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
            model = add_casts(model)
            for value, name in zip(model.graph.output, outputs, strict=True):
                # Several outputs may be one value, which has one name.
                model.graph.node.append(helper.make_node("Identity", [value.name], [name]))
                value.name = name
            model = _optimised(model)
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

    def __call__(self, **inputs: PyTree) -> Arrays:
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


# ONNX allows nearly all operations on all types of numbers; ONNX Runtime, and its version for
# browsers most of all, has kernels for 32 and 64 bits only, and few for unsigned numbers. So casts
# are put around the operations that have no kernel.

_WIDER: dict[int, int] = {
    TensorProto.BOOL: TensorProto.INT32,
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.INT64,
}
"""The type in which an operation is computed instead. Casting back drops the upper bits, as
arithmetic in the narrow type does."""

_ANY_TYPE = {
    *("Cast", "Concat", "Constant", "Expand", "Gather", "GatherElements", "GatherND", "Identity"),
    *("Reshape", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze"),
    *("Transpose", "Unsqueeze", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"),
    *("BitShift", "If", "Loop", "Scan", "ConstantOfShape", "Range"),
}
"""Operations that have kernels for all types that we use."""
_ANY_BOOLEAN = {"And", "Or", "Not", "Xor", "NonZero", "Equal"}
_NOT_DATA = {
    "Where": (0,),
    "Pad": (1, 3),
    "Tile": (1,),
    "TopK": (1,),
    "CumSum": (1,),
    "ReduceSum": (1,),
    "ReduceMax": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "OneHot": (1,),
}
"""Inputs that are conditions, axes and sizes, and keep their types."""

_IN_RANGE = {"Where", "Max", "Min", "ReduceMax", "ReduceMin", "Sign"}
"""Operations whose result is one of their inputs, or as small: in the wider type it is the same."""
_SUMS = {"Add", "Sub"}
"""Operations of whose results only the lower bits matter to one another."""


def add_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """Puts casts around the operations that have no kernel for the types of their inputs.

    **Arguments:**

    - `model`: a model, whose types can be inferred.

    **Returns:** a model that computes the same.
    """
    del model.graph.value_info[:]  # which may be wrong about shapes
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    _cast_in(model.graph, {})
    del model.graph.value_info[:]
    return model


def _cast_in(graph: onnx.GraphProto, outside: dict[str, int]) -> None:
    """Puts casts into a graph. `outside` has the types of the values of the graph around it."""
    types = outside | {x.name: x.data_type for x in graph.initializer}
    for value in (*graph.value_info, *graph.input, *graph.output):
        types[value.name] = value.type.tensor_type.elem_type
    nodes = list(graph.node)
    del graph.node[:]
    widened: dict[tuple[str, int], str] = {}
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _cast_in(attribute.g, types)
        graph.node.extend(_with_casts(node, types, widened))


def _with_casts(
    node: onnx.NodeProto, types: dict[str, int], widened: dict[tuple[str, int], str]
) -> list[onnx.NodeProto]:
    """A node, with the casts before and after it.

    **Arguments:**

    - `node`: the node, which is changed.
    - `types`: the types of all values.
    - `widened`: the names of values in wider types, by their own names and the wider type. With a
        minus before the type, only the lower bits of these are right. It is added to.
    """
    kept = _NOT_DATA.get(node.op_type, ())
    data = [(i, x) for i, x in enumerate(node.input) if x and i not in kept]
    narrow = next((types[x] for _, x in data if types.get(x) in _WIDER), None)
    # A scatter may combine several values for one place.
    reduces = any(x.name == "reduction" and x.s != b"none" for x in node.attribute)
    if narrow is None or (node.op_type in _ANY_TYPE and not reduces):
        return [node]
    if narrow == TensorProto.BOOL and node.op_type in _ANY_BOOLEAN:
        return [node]
    wide = _WIDER[narrow]
    nodes = []
    for index, name in data:
        if types.get(name) != narrow:
            continue
        if node.op_type in _SUMS and (name, -wide) in widened:
            node.input[index] = widened[name, -wide]
            continue
        if (name, wide) not in widened:
            widened[name, wide] = f"{name}_as_{wide}"
            nodes.append(_cast(name, widened[name, wide], wide))
        node.input[index] = widened[name, wide]
    nodes.append(node)
    for index, name in enumerate(node.output):
        if types.get(name) == narrow:
            node.output[index] = f"{name}_before_cast"
            nodes.append(_cast(node.output[index], name, narrow))
            if node.op_type in _IN_RANGE | _SUMS:
                sign = -1 if node.op_type in _SUMS else 1
                widened[name, sign * wide] = node.output[index]
    return nodes


def _cast(source: str, target: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"cast_{target}", to=to)
