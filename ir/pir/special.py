"""Operations that the table cannot describe: constants, the ends of a program, vectors, in-place writes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from ...errors import ProgramError
from ...proto.pir_desc import PirOp, PirTensorType
from ..desc import AttrType, VarKind
from ..dtypes import DType
from .control import CONTROL
from .translate import Translator
from .types import CODE_OF_KIND, dtype_code, number_text, old_value

__all__ = ["HANDLERS"]

Handler = Callable[[Translator, PirOp], None]


def _parameter(to: Translator, op: PirOp) -> None:
    """A stored variable; one that is not stored starts as zeros."""
    name = op.attr("parameter_name")
    facts = {key: attr.value for key, attr in op.result_attrs.items()}
    to.alias(op, 0, to.declare(name, op.results[0].type))
    if facts["persistable"]:
        to.block.vars[name].persistable = True
        to.info[name] = {"trainable": facts["trainable"], "stop_gradient": facts["stop_gradient"]}
    elif to.is_used(op.results[0].id):
        _zeros(to, name)


def _zeros(to: Translator, name: str) -> None:
    var = to.block.vars[name]
    shape = [max(size, 0) for size in var.shape or ()]
    made = to.append("fill_constant", {}, {"Out": [name]}, shape=shape, value=0.0, dtype=int(var.dtype or 0))
    to.add_removable(made)


def _constant(to: Translator, op: PirOp) -> None:
    """A stored variable by its name."""
    name = op.attr("value")
    if not isinstance(name, str):
        raise ProgramError(f"a constant names a stored variable, this one holds {name!r}")
    to.alias(op, 0, to.declare(name, op.results[0].type))
    to.block.vars[name].persistable = True
    to.info[name] = {"trainable": False, "stop_gradient": True}


def _get_parameter(to: Translator, op: PirOp) -> None:
    to.alias(op, 0, op.attr("parameter_name"))


def _set_parameter(to: Translator, op: PirOp) -> None:
    to.append("assign", {"X": [to.name_of(op.operands[0])]}, {"Out": [op.attr("parameter_name")]})


def _data(to: Translator, op: PirOp) -> None:
    """An input."""
    name = to.declare(op.attr("name"), op.results[0].type)
    to.block.vars[name].need_check_feed = True
    to.alias(op, 0, name)
    to.feeds.append(name)


def _fetch(to: Translator, op: PirOp) -> None:
    """An output."""
    to.fetches.append((op.attr("col", len(to.fetches)), to.name_of(op.operands[0])))


def _shadow_output(to: Translator, op: PirOp) -> None:
    """A result that somebody outside will ask for by name; an output where the program has no fetch."""
    to.shadows.append(to.name_of(op.operands[0]))


def _combine(to: Translator, op: PirOp) -> None:
    """Values to a list."""
    result = op.results[0].id
    to.members[result] = list(op.operands)
    to.lists[result] = [to.name_of(value) for value in op.operands]


def _split(to: Translator, op: PirOp) -> None:
    """A list to its values."""
    names = to.names_of(op.operands[0])
    if len(names) != len(op.results):
        raise ProgramError(f"a list of {len(names)} is taken apart into {len(op.results)}")
    for index, name in enumerate(names):
        to.alias(op, index, name)


def _slice(to: Translator, op: PirOp) -> None:
    """One value of a list."""
    names, index = to.names_of(op.operands[0]), op.attr("index", 0)
    if not 0 <= index < len(names):
        raise ProgramError(f"value {index} of a list of {len(names)} is asked for")
    to.alias(op, 0, names[index])


def _full(to: Translator, op: PirOp) -> None:
    """One number as a tensor."""
    value, dtype = op.attr("value"), dtype_code(op.attr("dtype", "float32"))
    made = to.append(
        "fill_constant",
        {},
        {"Out": [to.name_result(op, 0, "fill_constant")]},
        shape=op.attr("shape", []),
        dtype=dtype,
        value=as_float32(value),
        str_value="" if isinstance(value, complex) else number_text(value),
        place_type=-1,
    )
    to.add_constant(op, made)


def as_float32(value: Any) -> float:
    """A number as the float32 that old attributes hold; too large ones become infinite."""
    number = float(value.real if isinstance(value, complex) else value)
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


_FIELDS: Final = {
    DType.BOOL: ("bool_values", int),
    DType.INT32: ("int32_values", int),
    DType.INT64: ("int64_values", int),
    DType.FP32: ("fp32_values", float),
    DType.FP64: ("fp64_values", float),
}


def _full_int_array(to: Translator, op: PirOp) -> None:
    """A list of ints as a 1-d tensor."""
    dtype = DType(dtype_code(op.attr("dtype", "int64")))
    values = op.attr("value")
    made = assigned(to, to.name_result(op, 0, "assign"), values, [len(values)], dtype)
    to.add_constant(op, made)


def assigned(to: Translator, name: str, values: list[Any], shape: list[int], dtype: DType) -> Any:
    """``assign_value``: listed numbers as a tensor. Types that it does not list are cast from float64 or int64."""
    listed = dtype if dtype in _FIELDS else DType.FP64 if any(isinstance(v, float) for v in values) else DType.INT64
    field, convert = _FIELDS[listed]
    target = name
    if listed != dtype:
        var = to.block.vars[name]
        target = to.fresh(f"{name}.wide", PirTensorType("0.t_dtensor", "0.t_i64", tuple(var.shape or ())))
        to.block.vars[target].dtype = listed
    attrs: dict[str, Any] = {"shape": shape, "dtype": int(listed)}
    attrs |= {each: [] for each, _ in _FIELDS.values()}
    attrs[field] = [convert(value) for value in values]
    made = to.append("assign_value", {}, {"Out": [target]}, **attrs)
    if listed != dtype:
        made = to.append("cast", {"X": [target]}, {"Out": [name]}, in_dtype=int(listed), out_dtype=int(dtype))
    return made


def _assign_value(to: Translator, op: PirOp) -> None:
    """Listed numbers into a variable that exists."""
    name = to.name_of(op.operands[0]) if op.name.endswith("_") else to.name_result(op, 0, "assign_value")
    values = old_value(op.attrs["values"], AttrType.SCALARS)
    assigned(to, name, values, op.attr("shape"), DType(dtype_code(op.attr("dtype"))))
    to.alias(op, 0, name)


def _cast(to: Translator, op: PirOp) -> None:
    """Paddle 3 rounds to bfloat16, ``cast`` cuts."""
    made = to.by_table(op)
    given = _dtype_of(to, op.operands[0])
    made.set_attr("in_dtype", given, AttrType.INT)
    if made.attrs["out_dtype"] == DType.BF16 and given in (DType.FP32, DType.FP64, DType.FP16):
        made.type = "cast_rounded"


def _dtype_of(to: Translator, value: int) -> int:
    var = to.program.find_var(to.name_of(value), to.block)
    return -1 if var is None or var.dtype is None else int(var.dtype)


def _shape64(to: Translator, op: PirOp) -> None:
    """The old operator gives int32."""
    name = to.name_result(op, 0, "shape")
    narrow = to.fresh(f"{name}.int32", op.results[0].type)
    to.block.vars[narrow].dtype = DType.INT32
    to.append("shape", {"Input": [to.name_of(op.operands[0])]}, {"Out": [narrow]})
    to.append("cast", {"X": [narrow]}, {"Out": [name]}, in_dtype=int(DType.INT32), out_dtype=int(DType.INT64))


def _arange(to: Translator, op: PirOp) -> None:
    """The old operator takes its element type from its inputs."""
    wanted = op.attr("dtype")
    code = _result_dtype(op) if wanted is None or wanted.startswith("Undefined") else dtype_code(wanted)
    inputs = {}
    for slot, value in zip(("Start", "End", "Step"), op.operands, strict=True):
        name, given = to.name_of(value), _dtype_of(to, value)
        if given != code:
            cast = to.fresh(f"{name}.cast", to.types[value])
            to.block.vars[cast].dtype = DType(code)
            to.append("cast", {"X": [name]}, {"Out": [cast]}, in_dtype=given, out_dtype=code)
            name = cast
        inputs[slot] = [name]
    to.append("range", inputs, {"Out": [to.name_result(op, 0, "range")]})


def _result_dtype(op: PirOp) -> int:
    made = op.results[0].type
    return int(CODE_OF_KIND[made.dtype]) if isinstance(made, PirTensorType) else -1


def _reduce(to: Translator, op: PirOp) -> None:
    """An empty list of axes means all of them, which the old operator states apart."""
    made = to.by_table(op)
    made.set_attr("reduce_all", made.attrs.get("dim") == [], AttrType.BOOLEAN)


def _triangle(lower: bool) -> Handler:
    def translate(to: Translator, op: PirOp) -> None:
        to.by_table(op).set_attr("lower", lower, AttrType.BOOLEAN)

    return translate


def _batch_norm(to: Translator, op: PirOp) -> None:
    """Running mean and variance are written in place: their results are the stored variables."""
    made = to.by_table(op)
    for index, slot, source in ((1, "MeanOut", "Mean"), (2, "VarianceOut", "Variance")):
        name = made.inputs[source][0]
        replaced = made.outputs.get(slot) or []
        for each in replaced:
            to.block.vars.pop(each, None)
        made.outputs[slot] = [name]
        if index < len(op.results):
            to.alias(op, index, name)
    for each in made.outputs.pop("ReserveSpace", []):
        to.block.vars.pop(each, None)


def _increment(to: Translator, op: PirOp) -> None:
    """Adds to a variable that loops go on reading under the name of the operand."""
    name = to.name_of(op.operands[0])
    if op.name.endswith("_"):
        to.alias(op, 0, name)
        target = name
    else:
        target = to.name_result(op, 0, "increment")
    to.append("increment", {"X": [name]}, {"Out": [target]}, step=float(op.attr("value", 1.0)))


def _assign_out(to: Translator, op: PirOp) -> None:
    """Copies into a variable that exists."""
    target = to.name_of(op.operands[1])
    to.append("assign", {"X": [to.name_of(op.operands[0])]}, {"Out": [target]})
    to.alias(op, 0, target)


def _full_with_tensor(to: Translator, op: PirOp) -> None:
    made = to.by_table(op)
    if "value" in made.attrs:
        value = to.constant_value(op.operands[0])
        made.set_attr("str_value", number_text(value), AttrType.STRING)
        made.set_attr("value", as_float32(value), AttrType.FLOAT)


def _set_value(to: Translator, op: PirOp) -> None:
    """Writes numbers or a tensor into part of a tensor; the result is a new value."""
    made = to.by_table(op)
    made.set_attr("dtype", _dtype_of(to, op.operands[0]), AttrType.INT)
    if made.inputs.get("ValueTensor"):
        made.set_attr("shape", [], AttrType.LONGS)


def _unpool(to: Translator, op: PirOp) -> None:
    to.by_table(op).set_attr("unpooling_type", "max", AttrType.STRING)


def _deformable_conv(to: Translator, op: PirOp) -> None:
    """Without a mask it is the operator's first version."""
    made = to.by_table(op)
    if not made.inputs.get("Mask"):
        made.type = "deformable_conv_v1"


def _strided_slice(to: Translator, op: PirOp) -> None:
    """Paddle 2 reads an end of -1 with a negative stride as "to the very first", Paddle 3 as the last element."""
    made = to.by_table(op)
    axes = made.attrs.get("axes", [])
    made.set_attr("infer_flags", [1] * len(axes), AttrType.INTS)
    made.set_attr("decrease_axis", [], AttrType.INTS)
    ends, strides = made.attrs.get("ends", []), made.attrs.get("strides", [])
    shape = getattr(to.types.get(op.operands[0]), "dims", ())
    if made.inputs.get("EndsTensorList"):
        return
    for index, (end, stride) in enumerate(zip(ends, strides, strict=False)):
        size = shape[axes[index]]
        if stride < 0 and (end <= -_FAR or 0 <= size < -end):
            ends[index] = -1
        elif stride < 0 and end == -1:
            if size < 0:
                raise ProgramError(f"it goes backwards to the last element of axis {axes[index]}, of unknown size")
            ends[index] = size - 1


_FAR: Final = 1 << 30
"""No axis is that long."""


def _create_array(to: Translator, op: PirOp) -> None:
    """An empty array: a variable, no operator."""
    name = to.name_result(op, 0, "array")
    to.block.vars[name].kind = VarKind.LOD_TENSOR_ARRAY


def _array_length(to: Translator, op: PirOp) -> None:
    name = to.name_result(op, 0, "array_length")
    to.append("lod_array_length", {"X": [to.name_of(op.operands[0])]}, {"Out": [name]})


def _array_read(to: Translator, op: PirOp) -> None:
    array, index = (to.name_of(value) for value in op.operands)
    to.append("read_from_array", {"X": [array], "I": [index]}, {"Out": [to.name_result(op, 0, "array_read")]})


def _array_write(to: Translator, op: PirOp) -> None:
    """Writes into the array that the first operand is."""
    array, value, index = (to.name_of(each) for each in op.operands)
    to.append("write_to_array", {"X": [value], "I": [index]}, {"Out": [array]})
    to.alias(op, 0, array)


def _array_to_tensor(to: Translator, op: PirOp) -> None:
    outputs = {"Out": [to.name_result(op, 0, "joined")], "OutIndex": [to.name_result(op, 1, "lengths")]}
    attrs = {"axis": op.attr("axis", 0), "use_stack": op.attr("use_stack", False)}
    to.append("tensor_array_to_tensor", {"X": [to.name_of(op.operands[0])]}, outputs, **attrs)


_REDUCTIONS: Final = ("mean", "sum", "max", "min", "prod", "all", "any", "amax", "amin", "logsumexp")
HANDLERS: Final[dict[str, Handler]] = {
    "builtin.parameter": _parameter,
    "builtin.constant": _constant,
    "builtin.get_parameter": _get_parameter,
    "builtin.set_parameter": _set_parameter,
    "builtin.shadow_output": _shadow_output,
    "builtin.combine": _combine,
    "builtin.split": _split,
    "builtin.slice": _slice,
    "pd_op.data": _data,
    "pd_op.feed": _data,
    "pd_op.fetch": _fetch,
    "pd_op.shadow_output": _shadow_output,
    "pd_op.full": _full,
    "pd_op.full_int_array": _full_int_array,
    "pd_op.full_with_tensor": _full_with_tensor,
    "pd_op.assign_value": _assign_value,
    "pd_op.assign_value_": _assign_value,
    "pd_op.assign_out_": _assign_out,
    "pd_op.cast": _cast,
    "pd_op.cast_": _cast,
    "pd_op.shape64": _shape64,
    "pd_op.arange": _arange,
    "pd_op.tril": _triangle(True),
    "pd_op.triu": _triangle(False),
    "pd_op.tril_": _triangle(True),
    "pd_op.triu_": _triangle(False),
    "pd_op.batch_norm": _batch_norm,
    "pd_op.batch_norm_": _batch_norm,
    "pd_op.sync_batch_norm_": _batch_norm,
    "pd_op.increment": _increment,
    "pd_op.increment_": _increment,
    **{f"pd_op.set_value{suffix}": _set_value for suffix in ("", "_", "_with_tensor", "_with_tensor_")},
    "pd_op.strided_slice": _strided_slice,
    "pd_op.unpool": _unpool,
    "pd_op.deformable_conv": _deformable_conv,
    "pd_op.create_array": _create_array,
    "pd_op.create_array_like": _create_array,
    "pd_op.array_length": _array_length,
    "pd_op.array_read": _array_read,
    "pd_op.array_write_": _array_write,
    "pd_op.array_to_tensor": _array_to_tensor,
    **{f"pd_op.{name}": _reduce for name in _REDUCTIONS},
    **CONTROL,
}
"""Operation -> how it is translated."""
