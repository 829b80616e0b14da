"""Casts around the operations for which ONNX Runtime has no kernel.

ONNX allows nearly all operations on all types of numbers; ONNX Runtime, and its version for
browsers most of all, has kernels for 32 and 64 bits only, and few for unsigned numbers.
"""

from typing import Any

import onnx
from onnx import TensorProto, helper

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
    types = outside | _types(graph)
    nodes = list(graph.node)
    del graph.node[:]
    widened: dict[tuple[str, int], str] = {}
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _cast_in(attribute.g, types)
        graph.node.extend(_with_casts(node, types, widened))


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    """The type of each value of a graph, as far as it is known."""
    found = {x.name: x.data_type for x in graph.initializer}
    for value in (*graph.value_info, *graph.input, *graph.output):
        found[value.name] = value.type.tensor_type.elem_type
    return found


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
    if narrow is None or (node.op_type in _ANY_TYPE and not _reduces(node)):
        return [node]
    if narrow == TensorProto.BOOL and node.op_type in _ANY_BOOLEAN:
        return [node]
    wide: Any = _WIDER[narrow]
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


def _reduces(node: onnx.NodeProto) -> bool:
    """Whether a scatter combines several values for one place."""
    return any(x.name == "reduction" and x.s != b"none" for x in node.attribute)


def _cast(source: str, target: str, to: Any) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"cast_{target}", to=to)
