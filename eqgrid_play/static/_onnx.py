"""Converts JAX functions to ONNX models that ONNX Runtime can run, in Python and in browsers."""

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
from eqgrid_lab.base import UsageError

from ._random import as_data, on_key_data

Arrays: TypeAlias = dict[str, Shaped[np.ndarray, "..."]]
"""The inputs or outputs of a model, by name."""

_OPSET = 21
_RUNTIME_ERRORS = (
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.NotImplemented,
    states.RuntimeException,
)
"""The exceptions that ONNX Runtime raises for models that it cannot run."""
_FAULTY = ["EliminateIdentity"]
"""A faulty optimisation of ONNX Runtime 1.32: it renames values that subgraphs read, as in a GRU.
"""


def to_model(
    function: Callable[..., PyTree],
    arguments: Sequence[PyTree],
    inputs: Sequence[str],
    outputs: Sequence[str],
    notes: Mapping[str, str] | None = None,
) -> bytes:
    """Converts a function to an ONNX model.

    **Arguments:**

    - `function`: a function of arrays, which may sample random numbers.
    - `arguments`: example arguments, whose values do not matter. The model takes a random key as
        two numbers.
    - `inputs`: a name for each leaf of the arguments.
    - `outputs`: a name for each leaf of the result.
    - `notes`: metadata that are stored in the model.

    **Returns:** the contents of the model's file.

    **Raises:** `UsageError` when the function has an operation that cannot be converted to ONNX.
    """
    flat, shapes = on_key_data(function, *arguments)
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the libraries warn about each other
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
                # The same value may be several outputs, so each output gets a copy with its name.
                model.graph.node.append(helper.make_node("Identity", [value.name], [name]))
                value.name = name
            model = _fold_constants(model)
    except (
        NotImplementedError,
        ValueError,
        onnx.shape_inference.InferenceError,
        *_RUNTIME_ERRORS,
    ) as error:
        raise _conversion_error(error) from error
    for name, text in (notes or {}).items():
        model.metadata_props.add(key=name, value=text)
    return model.SerializeToString()


def _conversion_error(error: Exception) -> UsageError:
    first = next(iter(str(error).splitlines()), "")
    return UsageError(f"This world or policy cannot be converted to ONNX: {first:.300}")


def _fold_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, in which values that depend on no input are constants."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, disabled_optimizers=_FAULTY
        )
        return onnx.load(path)


@final
class Model:
    """An ONNX model that runs in this process."""

    def __init__(self, content: bytes):
        """**Arguments:**

        - `content`: the result of `to_model`.
        """
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(content, options, disabled_optimizers=_FAULTY)
        self._inputs = [x.name for x in self._session.get_inputs()]
        self._outputs = [x.name for x in self._session.get_outputs()]

    def __call__(self, **inputs: PyTree) -> Arrays:
        """Runs the model on arrays by the names of the inputs. Arrays that are not inputs of the
        model are ignored.

        **Raises:** `UsageError` when ONNX Runtime cannot run the model.
        """
        given = {x: np.asarray(as_data(inputs[x])) for x in self._inputs}
        try:
            found: Any = self._session.run(None, given)
        except _RUNTIME_ERRORS as error:
            raise _conversion_error(error) from error
        return dict(zip(self._outputs, found, strict=True))


def leaves_of(tree: PyTree) -> list[Shaped[np.ndarray, "..."]]:
    """The leaves of a PyTree in the form of inputs and outputs of models."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(as_data(tree))]


# ONNX allows nearly all operations on all types of numbers. ONNX Runtime, and in particular its
# version for browsers, has kernels mostly for signed numbers of 32 and 64 bits. `add_casts`
# therefore computes operations without a kernel in a wider type, between two casts.

_WIDER: dict[int, int] = {
    TensorProto.BOOL: TensorProto.INT32,
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.INT64,
}
"""The wider type in which an operation is computed. Casting back drops the upper bits, like
arithmetic in the narrow type.
"""

_ALL_KERNELS = {
    *("Cast", "Concat", "Constant", "Expand", "Gather", "GatherElements", "GatherND", "Identity"),
    *("Reshape", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze"),
    *("Transpose", "Unsqueeze", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"),
    *("BitShift", "If", "Loop", "Scan", "ConstantOfShape", "Range"),
}
"""Operations that have kernels for all types in our models."""
_BOOLEAN_KERNELS = {"And", "Or", "Not", "Xor", "NonZero", "Equal"}
_KEPT_INPUTS = {
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
"""The inputs of operations that are conditions, axes and sizes, which keep their types."""

_EXACT_IN_WIDER = {"Where", "Max", "Min", "ReduceMax", "ReduceMin", "Sign"}
"""Operations whose result in the wider type always fits into the narrow type."""
_EXACT_MODULO = {"Add", "Sub"}
"""Operations whose results in the wider type may have wrong upper bits. The same operations can
read such results, since upper bits do not change the lower bits of a sum.
"""


def add_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """Adds casts around the operations that have no kernel for the types of their inputs.

    **Arguments:**

    - `model`: a model whose types can be inferred.

    **Returns:** a model with the same results.
    """
    del model.graph.value_info[:]  # its shapes may be wrong
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    _cast_in(model.graph, {})
    del model.graph.value_info[:]
    return model


def _cast_in(graph: onnx.GraphProto, outside: dict[str, int]) -> None:
    """Adds casts to a graph and its subgraphs. `outside` has the types of values outside of it."""
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
    """A node together with its casts, in order.

    **Arguments:**

    - `node`: the node, whose inputs and outputs are renamed.
    - `types`: the types of all values.
    - `widened`: the names of copies of values in wider types, by the name of the value and the
        wider type; this function adds copies. A negative type marks a copy whose upper bits may be
        wrong.
    """
    kept_inputs = _KEPT_INPUTS.get(node.op_type, ())
    data = [(i, x) for i, x in enumerate(node.input) if x and i not in kept_inputs]
    narrow = next((types[x] for _, x in data if types.get(x) in _WIDER), None)
    # A scatter may combine several values for one place.
    reduces = any(x.name == "reduction" and x.s != b"none" for x in node.attribute)
    if narrow is None or (node.op_type in _ALL_KERNELS and not reduces):
        return [node]
    if narrow == TensorProto.BOOL and node.op_type in _BOOLEAN_KERNELS:
        return [node]
    wide = _WIDER[narrow]
    nodes = []
    for index, name in data:
        if types.get(name) != narrow:
            continue
        if node.op_type in _EXACT_MODULO and (name, -wide) in widened:
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
            if node.op_type in _EXACT_IN_WIDER | _EXACT_MODULO:
                sign = -1 if node.op_type in _EXACT_MODULO else 1
                widened[name, sign * wide] = node.output[index]
    return nodes


def _cast(source: str, target: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"cast_{target}", to=to)
