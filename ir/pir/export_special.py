"""Operators that the table cannot bring to Paddle 3: constants, control flow, arrays, broadcasts by axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...errors import ProgramError
from ...proto.pir_desc import (
    PirAttr,
    PirBlock,
    PirOp,
    PirRegion,
    PirTensorType,
    PirType,
    PirValue,
)
from ..desc import BlockDesc, OpDesc, VarKind
from ..dtypes import DType
from .export import Exporter, as_attr
from .table import correspondence
from .types import CODE_OF_KIND, dtype_text

__all__ = ["EXPORTERS"]

Export = Callable[[Exporter, OpDesc], None]


def _fill_constant(to: Exporter, op: OpDesc) -> None:
    name = op.outputs["Out"][0]
    dtype = dtype_text(to.attr_value(op, "dtype"))
    text = op.attrs.get("str_value") or ""
    number = float(text) if text else float(op.attrs.get("value", 0.0))
    if not any(op.inputs.get(slot) for slot in ("ValueTensor", "ShapeTensor", "ShapeTensorList")):
        to.values[name] = to.full(number, dtype, tuple(op.attrs.get("shape", ())))
        return
    value = op.inputs.get("ValueTensor")
    operands = [to.value_of(value[0]) if value else to.full(number, dtype)]
    tensor, tensors = op.inputs.get("ShapeTensor"), op.inputs.get("ShapeTensorList")
    if tensors:
        operands.append(to.combine(to.values_of(tensors)))
    else:
        operands.append(to.value_of(tensor[0]) if tensor else to.full_int_array(op.attrs.get("shape", ())))
    attrs = {"dtype": PirAttr("1.a_dtype", dtype)}
    to.values[name] = to.emit("pd_op.full_with_tensor", operands, [to.type_of(name)], attrs)[0]


_LISTED: Final = ("bool_values", "int32_values", "int64_values", "fp32_values", "fp64_values", "int8_values", "values")


def _assign_value(to: Exporter, op: OpDesc) -> None:
    """One-dimensional int64 constants are ``full_int_array``, others numbers written into a tensor of zeros."""
    name = op.outputs["Out"][0]
    values: list[Any] = next((op.attrs[key] for key in _LISTED if op.attrs.get(key)), [])
    shape = [int(size) for size in op.attrs["shape"]]
    dtype = dtype_text(op.attrs["dtype"])
    if dtype == "int64" and len(shape) == 1:
        to.values[name] = to.full_int_array(values)
        return
    blank = to.full(0.0, dtype, tuple(shape))
    attrs = {
        "shape": as_attr("[0.a_i32]", shape),
        "dtype": PirAttr("1.a_dtype", dtype),
        "values": as_attr("[0.a_f64]", values),
        "place": PirAttr("1.a_place", [0, 0, ""]),
    }
    to.values[name] = to.emit("pd_op.assign_value_", [blank], [to.types[blank]], attrs)[0]


def _elementwise(to: Exporter, op: OpDesc) -> None:
    """Operations there broadcast from the right: an operand that starts further left gets ones behind it."""
    axis = op.attrs.get("axis", -1)
    x, y = (to.var(op.inputs[slot][0]).shape or () for slot in ("X", "Y"))
    if axis != -1 and len(x) > len(y) and axis != len(x) - len(y):
        sizes = [*y, *[1] * (len(x) - axis - len(y))]
        if sum(size < 0 for size in sizes) > 1:
            raise ProgramError(f"Y of shape {list(y)} is broadcast along axis {axis}, and its sizes are not known")
        made = to.types[to.value_of(op.inputs["Y"][0])]
        assert isinstance(made, PirTensorType)
        wide = PirTensorType(made.kind, made.dtype, tuple(sizes))
        value = to.emit("pd_op.reshape", [to.value_of(op.inputs["Y"][0]), to.full_int_array(sizes)], [wide])[0]
        kept, name = to.values[op.inputs["Y"][0]], op.inputs["Y"][0]
        to.values[name] = value
        to.by_table(op)
        if op.outputs["Out"][0] != name:
            to.values[name] = kept
        return
    to.by_table(op)


def _reduce(to: Exporter, op: OpDesc) -> None:
    if op.attrs.get("reduce_all"):
        op = op.copy()
        op.attrs["dim"] = []
    to.by_table(op)


def _range(to: Exporter, op: OpDesc) -> None:
    operands = [to.value_of(op.inputs[slot][0]) for slot in ("Start", "End", "Step")]
    name = op.outputs["Out"][0]
    dtype = dtype_text(int(to.var(op.inputs["Start"][0]).dtype or 0))
    attrs = {"dtype": PirAttr("1.a_dtype", dtype), "place": PirAttr("1.a_place", [0, 0, ""])}
    to.values[name] = to.emit("pd_op.arange", operands, [to.type_of(name)], attrs)[0]


def _triangle(to: Exporter, op: OpDesc) -> None:
    to.by_table(op, "tril" if op.attrs.get("lower", True) else "triu")


def _split(to: Exporter, op: OpDesc) -> None:
    if op.attrs.get("num") and not op.attrs.get("sections"):
        to.by_table(op, "split_with_num")
    else:
        to.by_table(op, "split")


def _set_value(to: Exporter, op: OpDesc) -> None:
    if op.inputs.get("ValueTensor"):
        to.by_table(op, "set_value_with_tensor")
        return
    op = op.copy()
    if not op.attrs.get("values"):
        op.attrs["values"] = next((op.attrs[f"{kind}_values"] for kind in _PLAIN if op.attrs.get(f"{kind}_values")), [])
    to.by_table(op, "set_value")


_PLAIN: Final = ("bool", "fp32", "int32", "int64", "fp64", "fp16")


_LOWEST: Final = -(1 << 31)


def _strided_slice(to: Exporter, op: OpDesc) -> None:
    """An end of -1 with a negative stride, "to the very first", is a far lower number there."""
    op = op.copy()
    pairs = zip(op.attrs.get("ends", ()), op.attrs.get("strides", ()), strict=False)
    op.attrs["ends"] = [_LOWEST if end == -1 and stride < 0 else end for end, stride in pairs]
    to.by_table(op)


def _repeat(to: Exporter, op: OpDesc) -> None:
    tensor = bool(op.inputs.get("RepeatsTensor"))
    to.by_table(op, "repeat_interleave_with_tensor_index" if tensor else "repeat_interleave")


def _rnn(to: Exporter, op: OpDesc) -> None:
    """There the state of the dropout is an operand as well."""
    entry = correspondence("rnn")
    assert entry is not None
    before = len(to.block.ops)
    to.by_table(op)
    made = next(each for each in to.block.ops[before:] if each.name == "pd_op.rnn")
    position = [name for name, _ in entry.operands].index("dropout_state_in")
    rest = to.block.ops[to.block.ops.index(made) :]
    del to.block.ops[len(to.block.ops) - len(rest) :]
    made.operands[position] = to.full(0.0, "float32")
    to.block.ops.extend(rest)


def _dequantize(to: Exporter, op: OpDesc) -> None:
    """Written out as ``x * scale / largest``: the kernel of that name in Paddle 3.3.1 quantises instead."""
    name, axis = op.outputs["Y"][0], op.attrs.get("quant_axis", 0)
    made = to.type_of(name)
    x, scale = to.value_of(op.inputs["X"][0]), to.value_of(op.inputs["Scale"][0])
    found, sizes = to.types[x], to.types[scale]
    if (
        not isinstance(made, PirTensorType)
        or not isinstance(found, PirTensorType)
        or not isinstance(sizes, PirTensorType)
    ):
        raise ProgramError("it does not work on tensors")
    if op.attrs.get("only_observer") or not op.attrs.get("is_test", True):
        raise ProgramError("it observes instead of computing")
    if found.dtype != made.dtype:
        x = to.emit("pd_op.cast", [x], [made], {"dtype": PirAttr("1.a_dtype", dtype_text(CODE_OF_KIND[made.dtype]))})[0]
    if axis >= 0 and sizes.dims not in ((), (1,)):
        shape = [1] * axis + [-1] + [1] * (len(found.dims) - axis - 1)
        wide = PirTensorType(sizes.kind, sizes.dtype, tuple(shape))
        scale = to.emit("pd_op.reshape", [scale, to.full_int_array(shape)], [wide])[0]
    largest = to.full((1 << (op.attrs.get("bit_length", 8) - 1)) - 1, dtype_text(CODE_OF_KIND[made.dtype]))
    product = to.emit("pd_op.multiply", [x, scale], [made])[0]
    to.values[name] = to.emit("pd_op.divide", [product, largest], [made])[0]


def _mul(to: Exporter, op: OpDesc) -> None:
    """A product of matrices: ``matmul``, after X was flattened to as many columns as Y has rows."""
    x, y = (to.var(op.inputs[slot][0]).shape or () for slot in ("X", "Y"))
    rows = op.attrs.get("x_num_col_dims", 1)
    if len(y) != 2 or op.attrs.get("y_num_col_dims", 1) != 1:
        raise ProgramError(f"it flattens Y of shape {list(y)}")
    name, value = op.outputs["Out"][0], to.value_of(op.inputs["X"][0])
    if rows != len(x) - 1:
        made = to.types[value]
        assert isinstance(made, PirTensorType)
        flat = PirTensorType(made.kind, made.dtype, (*x[:rows], y[0]))
        value = to.emit("pd_op.reshape", [value, to.full_int_array([*[0] * rows, y[0]])], [flat])[0]
    attrs = {key: PirAttr("0.a_bool", False) for key in ("transpose_x", "transpose_y")}
    operands = [value, to.value_of(op.inputs["Y"][0])]
    to.values[name] = to.emit("pd_op.matmul", operands, [to.type_of(name)], attrs)[0]


def _increment(to: Exporter, op: OpDesc) -> None:
    name = op.outputs["Out"][0]
    attrs = {"value": PirAttr("0.a_f32", float(op.attrs.get("step", 1.0)))}
    operand = to.value_of(op.inputs["X"][0])
    # The kernel adds in place; a copy keeps the value that other operations go on reading.
    copy = to.emit("pd_op.assign", [operand], [to.types[operand]])[0]
    to.values[name] = to.emit("pd_op.increment_", [copy], [to.types[copy]], attrs)[0]


def _cast(to: Exporter, op: OpDesc) -> None:
    source = to.value_of(op.inputs["X"][0])
    to.by_table(op)
    if op.attrs.get("in_dtype") == DType.BOOL and op.attrs.get("out_dtype") == DType.INT32:
        to.bools[to.value_of(op.outputs["Out"][0])] = source


# arrays


def _write_to_array(to: Exporter, op: OpDesc) -> None:
    array, value, index = (to.value_of(name) for name in (op.outputs["Out"][0], op.inputs["X"][0], op.inputs["I"][0]))
    to.emit("pd_op.array_write_", [array, value, index], [to.types[array]])
    to.block.ops[-1].result_attrs = {}


def _read_from_array(to: Exporter, op: OpDesc) -> None:
    name = op.outputs["Out"][0]
    operands = [to.value_of(op.inputs["X"][0]), to.value_of(op.inputs["I"][0])]
    to.values[name] = to.emit("pd_op.array_read", operands, [to.type_of(name)])[0]


def _array_length(to: Exporter, op: OpDesc) -> None:
    name = op.outputs["Out"][0]
    to.values[name] = to.emit("pd_op.array_length", [to.value_of(op.inputs["X"][0])], [to.type_of(name)])[0]


def _array_to_tensor(to: Exporter, op: OpDesc) -> None:
    attrs = {
        "axis": as_attr("0.a_i32", op.attrs.get("axis", 0)),
        "use_stack": as_attr("0.a_bool", op.attrs.get("use_stack")),
    }
    index = op.outputs.get("OutIndex")
    lengths: PirType = PirTensorType("0.t_dtensor", "0.t_i32", (-1,))
    types = [to.type_of(op.outputs["Out"][0]), to.type_of(index[0]) if index else lengths]
    made = to.emit("pd_op.array_to_tensor", [to.value_of(op.inputs["X"][0])], types, attrs)
    to.values[op.outputs["Out"][0]] = made[0]
    if index:
        to.values[index[0]] = made[1]


def _assign(to: Exporter, op: OpDesc) -> None:
    name = op.outputs["Out"][0]
    if to.var(name).kind == VarKind.LOD_TENSOR_ARRAY:
        raise ProgramError("it copies an array of tensors")
    to.by_table(op)


# control flow


def _yield(values: list[int]) -> PirOp:
    return PirOp("cf.yield", values)


def _filler(to: Exporter, name: str) -> int:
    """Something for a variable without a value, where an operation needs one."""
    made = to.type_of(name)
    if not isinstance(made, PirTensorType):
        raise ProgramError(f"the array '{name}' has no value there")
    sizes = tuple(1 if size < 0 else size for size in made.dims)
    value = to.full(0.0, dtype_text(CODE_OF_KIND[made.dtype]), sizes)
    to.block.ops[-1].results[0].type = to.types[value] = made
    return value


def _initial(to: Exporter, name: str) -> int:
    """What a loop carries at first; what was put there for an undefined variable has any type and is replaced."""
    value = to.values.get(name)
    if value is None:
        return _filler(to, name)
    found, wanted = to.types[value], to.type_of(name)
    if not isinstance(found, PirTensorType) or not isinstance(wanted, PirTensorType):
        return value
    same = found.dtype == wanted.dtype and len(found.dims) == len(wanted.dims)
    return value if same else _filler(to, name)


def _visible_writes(to: Exporter, names: list[str]) -> list[str]:
    """The outer variables that a block writes, arrays left out: those are written in place."""
    return [name for name in dict.fromkeys(names) if to.var(name).kind == VarKind.LOD_TENSOR]


def _inside(
    to: Exporter, desc: BlockDesc | None, arguments: list[PirValue]
) -> tuple[PirBlock, PirBlock, dict[str, int]]:
    block = PirBlock(args=arguments)
    outer, to.block = to.block, block
    kept = dict(to.values)
    if desc is not None:
        to.export_block(desc)
    return block, outer, kept


def _leave(to: Exporter, outer: PirBlock, kept: dict[str, int]) -> None:
    to.block, to.values = outer, kept


def _conditional_block(to: Exporter, op: OpDesc) -> None:
    """The branch not taken yields what the variables held before."""
    if not op.attrs.get("is_scalar_condition"):
        raise ProgramError("it runs when its inputs are not empty, not on a condition")
    condition = to.value_of(op.inputs["Cond"][0])
    desc = to.program.blocks[op.attrs["sub_block"]]
    written = _visible_writes(to, op.outputs.get("Out") or [])
    regions = []
    for taken in (True, False):
        name = to.region_name()
        block, outer, kept = _inside(to, desc if taken else None, [])
        values = [to.values[each] if each in to.values else _filler(to, each) for each in written]
        block.ops.append(_yield(values))
        _leave(to, outer, kept)
        regions.append(PirRegion(name, [block]))
    made = to.emit("pd_op.if", [condition], [to.type_of(each) for each in written], regions=regions)
    _trained_by(to, made, regions)
    to.values.update(zip(written, made, strict=True))


def _trained_by(to: Exporter, results: list[int], regions: list[PirRegion]) -> None:
    """A result passes a gradient when a region yields a value that does."""
    flags = to.block.ops[-1].result_attrs.get("stop_gradient")
    for region in regions:
        yielded = region.blocks[0].ops[-1].operands[-len(results) :] if results else []
        for index, (result, value) in enumerate(zip(results, yielded, strict=True)):
            if value in to.trained and flags is not None:
                to.trained.add(result)
                flags.value[index].value = False


def _select_input(to: Exporter, op: OpDesc) -> None:
    """A choice between two values by a number."""
    names = op.inputs["X"]
    if len(names) != 2:
        raise ProgramError(f"it chooses between {len(names)} values")
    mask = to.value_of(op.inputs["Mask"][0])
    condition = to.bools.get(mask)
    if condition is None:
        made = to.types[mask]
        assert isinstance(made, PirTensorType)
        wanted = PirTensorType(made.kind, "0.t_bool", made.dims)
        condition = to.emit("pd_op.cast", [mask], [wanted], {"dtype": PirAttr("1.a_dtype", "bool")})[0]
    regions = []
    for name in (names[1], names[0]):
        block = PirBlock(ops=[_yield([to.value_of(name)])])
        regions.append(PirRegion(to.region_name(), [block]))
    target = op.outputs["Out"][0]
    results = to.emit("pd_op.if", [condition], [to.type_of(target)], regions=regions)
    _trained_by(to, results, regions)
    to.values[target] = results[0]


def _while(to: Exporter, op: OpDesc) -> None:
    """What the body writes to outer variables is carried from turn to turn."""
    condition = op.inputs["Condition"][0]
    desc = to.program.blocks[op.attrs["sub_block"]]
    written = [name for name in _visible_writes(to, op.outputs.get("Out") or []) if name != condition]
    initial = [_initial(to, name) for name in written]
    types = [to.types[value] for value in initial]
    start = to.value_of(condition)
    arguments = [to.new_argument(each) for each in types]
    to.trained.update(a.id for a, value in zip(arguments, initial, strict=True) if value in to.trained)
    name = to.region_name()
    kept = dict(to.values)
    to.values.update({each: argument.id for each, argument in zip(written, arguments, strict=True)})
    block, outer, _ = _inside(to, desc, arguments)
    block.ops.append(_yield([to.value_of(condition), *(to.value_of(each) for each in written)]))
    _leave(to, outer, kept)
    regions = [PirRegion(name, [block])]
    results = to.emit("pd_op.while", [start, *initial], types, regions=regions)
    _trained_by(to, results, regions)
    to.values.update(zip(written, results, strict=True))


_BROADCASTS: Final = ["add", "sub", "mul", "div", "pow", "max", "min", "mod", "floordiv", "fmax", "fmin", "heaviside"]
_COMPARISONS: Final = ["equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"]
_REDUCTIONS: Final = ["mean", "sum", "max", "min", "prod", "all", "any", "amax", "amin"]
EXPORTERS: Final[dict[str, Export]] = {
    "fill_constant": _fill_constant,
    "assign_value": _assign_value,
    **{f"elementwise_{name}": _elementwise for name in _BROADCASTS},
    **dict.fromkeys(_COMPARISONS, _elementwise),
    **{f"reduce_{name}": _reduce for name in _REDUCTIONS},
    "range": _range,
    "tril_triu": _triangle,
    "split": _split,
    "set_value": _set_value,
    "strided_slice": _strided_slice,
    "repeat_interleave": _repeat,
    "rnn": _rnn,
    "mul": _mul,
    "dequantize_linear": _dequantize,
    "increment": _increment,
    "cast": _cast,
    "assign": _assign,
    "write_to_array": _write_to_array,
    "read_from_array": _read_from_array,
    "lod_array_length": _array_length,
    "tensor_array_to_tensor": _array_to_tensor,
    "conditional_block": _conditional_block,
    "select_input": _select_input,
    "while": _while,
}
"""Operator -> how it is written."""
