"""Our program to one of Paddle 3: variables become values, blocks become regions, operators become operations.

The table is read the other way round. A variable that is written several times is a new value each time; what a
block writes to variables of an enclosing block becomes results of the ``pd_op.if`` or ``pd_op.while``. Attributes
that the operation takes as operands are made by ``pd_op.full`` and ``pd_op.full_int_array``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...errors import ProgramError, UnsupportedOpError
from ...proto.pir_desc import (
    ABSENT,
    PARAMETER,
    SHADOW_OUTPUT,
    PirArrayType,
    PirAttr,
    PirBlock,
    PirModule,
    PirOp,
    PirRegion,
    PirTensorType,
    PirType,
    PirValue,
    PirVectorType,
)
from ..desc import EMPTY_VAR, AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from ..dtypes import DType
from ..feeding import strip_feed_fetch
from ..registry import REQUIRED, find
from .table import AttrSource, Correspondence, PirAttribute, correspondence, operations
from .types import KIND_OF_CODE, dtype_text

__all__ = ["Exporter", "export_forward", "export_program", "twin"]

Info = Mapping[str, Mapping[str, Any]]

_FLOATS: Final = frozenset({DType.FP16, DType.BF16, DType.FP32, DType.FP64, DType.COMPLEX64, DType.COMPLEX128})
_INPLACE: Final = frozenset({"batch_norm", "sync_batch_norm"})
_OLDER: Final = {
    "reshape": "reshape2",
    "transpose": "transpose2",
    "squeeze": "squeeze2",
    "unsqueeze": "unsqueeze2",
    "flatten": "flatten2",
    "top_k": "top_k_v2",
    "cast_rounded": "cast",
    "deformable_conv_v1": "deformable_conv",
}
"""Operators that say the same as a later one, under the same slots and attributes."""
_CHOICES: Final = {"split": "split", "set_value": "set_value", "repeat_interleave": "repeat_interleave"}
"""Which operation an operator is, where several correspond to it and no rule of its own decides."""
_STATE: Final = frozenset({"OutState", "OutAccum"})
"""Results of quantisation that are absent there too when left out: they update state that is no operand."""
_SCALARS: Final = {AttrType.INT: "int32", AttrType.LONG: "int64", AttrType.BOOLEAN: "bool"}
_EMPTY: Final = {
    "0.a_bool": False,
    "0.a_i32": 0,
    "0.a_i64": 0,
    "0.a_str": "",
    "1.a_dtype": "Undefined(ALL_DTYPE)",
}


def export_program(program: ProgramDesc, info: Info | None = None, source: str = "program") -> PirModule:
    """The program as one of Paddle 3. ``info`` tells which variables are trained; without it every float one is.

    Raises:
        UnsupportedOpError: operators that have no operation there; lists all of them.
        ProgramError: an operator is used in a way that the operation cannot express.
    """
    _refuse_missing(program, source)
    return Exporter(program, info, source).run()


def _refuse_missing(program: ProgramDesc, source: str) -> None:
    from .export_special import EXPORTERS

    missing: dict[str, int] = {}
    for block in program.blocks:
        for op in block.ops:
            if op.type not in EXPORTERS and op.type not in ("feed", "fetch") and twin(op.type) is None:
                missing[op.type] = missing.get(op.type, 0) + 1
    if missing:
        raise UnsupportedOpError(missing, f"{source}, written for Paddle 3,")


def export_forward(
    forward: ProgramDesc,
    inputs: Sequence[str],
    outputs: Sequence[str],
    backward: ProgramDesc | None = None,
    info: Info | None = None,
    source: str = "program",
) -> PirModule:
    """A forward program without feed and fetch, whose results are handed on by name.

    Each output gets a ``shadow_output``; with a backward program so does each variable that it reads and the
    forward program makes. Without one the outputs are all.

    Raises:
        UnsupportedOpError, ProgramError: as :func:`export_program`.
    """
    _refuse_missing(forward, source)
    made = {name for op in forward.global_block.ops for name in op.output_names()}
    read = [] if backward is None else [name for op in backward.global_block.ops for name in op.input_names()]
    exporter = Exporter(forward, info, source)
    exporter.feeds, exporter.fetches = list(inputs), []
    exporter.shadows = list(dict.fromkeys([*outputs, *(name for name in read if name in made)]))
    return exporter.run()


_TWINS: dict[str, str] = {}


def twin(type: str) -> str | None:
    """The name of the operation of an old operator, or None."""
    if not _TWINS:
        for name in operations():
            entry = correspondence(name)
            if entry is not None and not name.endswith("_sr"):
                _TWINS.setdefault(entry.type, name)
        _TWINS.update(_CHOICES)
    return _TWINS.get(_OLDER.get(type, type))


class Exporter:
    """One export. The methods without underscore are what :mod:`.export_special` works with."""

    def __init__(self, program: ProgramDesc, info: Info | None, source: str) -> None:
        stripped = strip_feed_fetch(program)
        self.program = stripped.program
        self.feeds = stripped.feeds
        # As jit.load of Paddle 2 orders them, so that a call gives the same list.
        self.fetches = sorted(stripped.fetches, key=lambda name: not name.startswith("save_infer_model/scale_"))
        self.shadows: list[str] = []
        self.info = info
        self.source = source
        self.block = PirBlock()
        self.desc = self.program.global_block
        self.values: dict[str, int] = {}
        self.types: dict[int, PirType] = {ABSENT: None}
        self.trained: set[int] = set()
        self.bools: dict[int, int] = {}
        self._next = 0
        self._next_argument = 0
        self._next_region = 0

    def run(self) -> PirModule:
        for var in sorted(self.program.persistables(), key=lambda each: each.name, reverse=True):
            self._parameter(var)
        for name in self.feeds:
            self._feed(name)
        self.export_block(self.desc)
        for column, name in enumerate(self.fetches):
            self._fetch(column, name)
        for name in self.shadows:
            self.emit(SHADOW_OUTPUT, [self.value_of(name)], [], {"output_name": PirAttr("0.a_str", name)})
        return PirModule(self.block)

    def export_block(self, desc: BlockDesc) -> None:
        """Export the operators of a block into the current block."""
        from .export_special import EXPORTERS

        outer, self.desc = self.desc, desc
        for var in desc.vars.values():
            if var.kind == VarKind.LOD_TENSOR_ARRAY:
                self._array(var)
        for index, op in enumerate(desc.ops):
            try:
                exporter = EXPORTERS.get(op.type)
                if exporter is None:
                    self.by_table(op)
                else:
                    exporter(self, op)
            except ProgramError as error:
                if "cannot be written for Paddle 3" in str(error):
                    raise
                where = f"{self.source}: block {desc.idx} op {index} ({op.type})"
                raise type(error)(f"{where} cannot be written for Paddle 3: {error}") from error
        self.desc = outer

    # values

    def value_of(self, name: str) -> int:
        """The value that a variable has now."""
        found = self.values.get(name)
        if found is None:
            raise ProgramError(f"the variable '{name}' has no value there")
        return found

    def values_of(self, names: Iterable[str]) -> list[int]:
        """The values of arguments, absent ones left out."""
        return [self.value_of(name) for name in names if name not in ("", EMPTY_VAR)]

    def var(self, name: str) -> VarDesc:
        """The description of a variable as seen from the current block."""
        found = self.program.find_var(name, self.desc)
        if found is None:
            raise ProgramError(f"the variable '{name}' is not described")
        return found

    def type_of(self, name: str) -> PirType:
        """The type of a variable's value."""
        var = self.var(name)
        dims = tuple(var.shape or ())
        code = var.dtype if isinstance(var.dtype, DType) else DType.FP32
        if var.kind == VarKind.LOD_TENSOR_ARRAY:
            return PirArrayType(KIND_OF_CODE[code], dims)
        kind = "1.t_selected_rows" if var.kind == VarKind.SELECTED_ROWS else "0.t_dtensor"
        return PirTensorType(kind, KIND_OF_CODE[code], dims)

    def new_value(self, made: PirType) -> PirValue:
        """A value that no operation has made yet."""
        self._next += 1
        self.types[self._next] = made
        return PirValue(self._next, made)

    def new_argument(self, made: PirType) -> PirValue:
        """An argument of a block."""
        self._next_argument -= 1
        self.types[self._next_argument] = made
        return PirValue(self._next_argument, made)

    def region_name(self) -> str:
        """The name of the next region."""
        self._next_region += 1
        return f"region_{self._next_region}"

    # operations

    def emit(
        self,
        name: str,
        operands: list[int],
        results: list[PirType],
        attrs: dict[str, PirAttr] | None = None,
        regions: list[PirRegion] | None = None,
    ) -> list[int]:
        """Add an operation to the current block; the ids of its results."""
        made = PirOp(name, operands, [self.new_value(each) for each in results], attrs or {}, regions=regions or [])
        for value in made.results:
            if _is_float(value.type) and any(operand in self.trained for operand in operands):
                self.trained.add(value.id)
        flags = [PirAttr("0.a_bool", value.id not in self.trained) for value in made.results]
        made.result_attrs = {"stop_gradient": PirAttr("0.a_array", flags)} if flags else {}
        self.block.ops.append(made)
        return [value.id for value in made.results]

    def full(self, value: float, dtype: str, shape: tuple[int, ...] = (1,)) -> int:
        """A constant tensor."""
        made = PirTensorType("0.t_dtensor", KIND_OF_CODE[_code(dtype)], shape)
        attrs = {
            "shape": PirAttr("1.a_intarray", list(shape)),
            "value": PirAttr("0.a_f64", float(value)),
            "dtype": PirAttr("1.a_dtype", dtype),
            "place": PirAttr("1.a_place", [1, 0, ""]),
        }
        return self.emit("pd_op.full", [], [made], attrs)[0]

    def full_int_array(self, values: Iterable[int]) -> int:
        """A constant 1-d tensor of int64."""
        items = [PirAttr("0.a_i64", int(each)) for each in values]
        attrs = {
            "value": PirAttr("0.a_array", items),
            "dtype": PirAttr("1.a_dtype", "int64"),
            "place": PirAttr("1.a_place", [1, 0, ""]),
        }
        made = PirTensorType("0.t_dtensor", "0.t_i64", (len(items),))
        return self.emit("pd_op.full_int_array", [], [made], attrs)[0]

    def combine(self, values: list[int]) -> int:
        """Values to a list."""
        made = PirVectorType(tuple(self.types[value] for value in values))
        return self.emit("builtin.combine", values, [made])[0]

    def by_table(self, op: OpDesc, name: str | None = None) -> None:
        """Export an operator as the table says, as the operation ``name`` where it is not the usual one."""
        name = name or twin(op.type)
        entry = correspondence(name or "")
        if name is None or entry is None:
            raise ProgramError("the operator has no operation there")
        operands = [self._operand(op, operand, source, entry) for operand, source in entry.operands]
        attrs = {each: self._attr(op, each, fact) for each, fact in entry.attrs.items()}
        declared = find(entry.type)
        many = {slot.name for slot in declared.outputs if slot.many} if declared is not None else set()
        outputs = [[n for n in op.outputs.get(slot) or [] if n not in ("", EMPTY_VAR)] for _, slot in entry.results]
        types = [
            self._result_type(op, slot, names, slot in many)
            for (_, slot), names in zip(entry.results, outputs, strict=True)
        ]
        made = self.emit(f"pd_op.{name}{'_' if name in _INPLACE else ''}", operands, types, attrs)
        for names, value in zip(outputs, made, strict=True):
            self._bind(names, value)

    def _bind(self, names: list[str], value: int) -> None:
        items = self.types[value]
        if isinstance(items, PirVectorType):
            parts = self.emit("builtin.split", [value], list(items.items))
            self.values.update(zip(names, parts, strict=True))
        elif names:
            self.values[names[0]] = value

    def _result_type(self, op: OpDesc, slot: str, names: list[str], many: bool) -> PirType:
        if many:
            return PirVectorType(tuple(self.type_of(name) for name in names))
        if names:
            return self.type_of(names[0])
        if slot in _STATE:
            return None
        # An output that the program leaves out: the kernel gives it its size when it runs.
        first = next(iter(op.outputs.values()), [])
        dims = tuple(self.var(first[0]).shape or ()) if slot == "Mask" and first else (-1,)
        return PirTensorType("0.t_dtensor", "0.t_ui8" if slot in ("Mask", "ReserveSpace") else "0.t_f32", dims)

    def _operand(self, op: OpDesc, name: str, source: str | AttrSource | None, entry: Correspondence) -> int:
        if source is None:
            return ABSENT
        if isinstance(source, AttrSource):
            return self._attr_operand(op, source)
        values = self.values_of(op.inputs.get(source) or [])
        declared = find(entry.type)
        slot = declared.input_slot(source) if declared is not None else None
        if slot is not None and slot.many:
            return self.combine(values) if values else ABSENT
        return values[0] if values else ABSENT

    def _attr_operand(self, op: OpDesc, source: AttrSource) -> int:
        for slot, many in ((source.tensors, True), (source.tensor, False)):
            names = op.inputs.get(slot) if slot is not None else None
            if names:
                values = self.values_of(names)
                return self.combine(values) if many else values[0]
        value = self.attr_value(op, source.attr)
        kind = op.attr_types.get(source.attr)
        if kind == AttrType.VAR:
            return self.value_of(value)
        if kind == AttrType.VARS:
            return self.combine(self.values_of(value))
        if isinstance(value, (list, tuple)):
            return self.full_int_array(value)
        if value is None:
            return ABSENT
        declared = _declared_type(op.type, source.attr)
        if declared == AttrType.STRING:  # the tolerances of allclose
            return self.full(float(value), "float64")
        dtype = "float32" if declared is None else _SCALARS.get(declared, "float32")
        if declared in (AttrType.INTS, AttrType.LONGS):
            return self.full_int_array([value])
        return self.full(value, dtype)

    def attr_value(self, op: OpDesc, name: str) -> Any:
        """The value of an attribute, its registered default where the operator does not state it; None without."""
        if name in op.attrs:
            return op.attrs[name]
        declared = find(op.type)
        default = REQUIRED if declared is None else declared.attrs.get(name, REQUIRED)
        return None if default is REQUIRED else default

    def _attr(self, op: OpDesc, name: str, fact: PirAttribute) -> PirAttr:
        value = None if fact.legacy is None else self.attr_value(op, fact.legacy)
        if fact.kind == "1.a_place":
            return PirAttr(fact.kind, [0, 0, ""])
        if fact.kind == "1.a_dtype":
            stated = value is not None and not isinstance(value, str)
            return PirAttr(fact.kind, dtype_text(value) if stated else self._dtype_of_result(op))
        if value is None:
            value = fact.default if fact.default is not None else _EMPTY.get(fact.kind)
        if value is None and not fact.kind.startswith("["):
            raise ProgramError(f"the attribute {name} has no value")
        return as_attr(fact.kind, value)

    def _dtype_of_result(self, op: OpDesc) -> str:
        names = next(iter(op.outputs.values()), [])
        return dtype_text(int(self.var(names[0]).dtype or 0)) if names else "Undefined(ALL_DTYPE)"

    # the ends

    def _parameter(self, var: VarDesc) -> None:
        facts = (self.info or {}).get(var.name)
        trained = var.dtype in _FLOATS if facts is None else not facts.get("stop_gradient", False)
        value = self.new_value(self.type_of(var.name))
        flags = {"is_distributed": False, "is_parameter": True, "need_clip": True}
        attrs = {key: PirAttr("0.a_bool", flag) for key, flag in flags.items()}
        attrs["parameter_name"] = PirAttr("0.a_str", var.name)
        result = {"persistable": True, "stop_gradient": not trained, "trainable": trained}
        about = {key: PirAttr("0.a_bool", flag) for key, flag in result.items()}
        self.block.ops.append(PirOp(PARAMETER, [], [value], attrs, about))
        self.values[var.name] = value.id
        if trained:
            self.trained.add(value.id)

    def _feed(self, name: str) -> None:
        made = self.type_of(name)
        attrs = {
            "name": PirAttr("0.a_str", name),
            "shape": PirAttr("1.a_intarray", list(getattr(made, "dims", ()))),
            "dtype": PirAttr("1.a_dtype", dtype_text(int(self.var(name).dtype or 0))),
            "place": PirAttr("1.a_place", [0, 0, ""]),
        }
        value = self.emit("pd_op.data", [], [made], attrs)[0]
        if _is_float(made):
            self.trained.add(value)
            self.block.ops[-1].result_attrs["stop_gradient"].value[0].value = False
        self.values[name] = value

    def _fetch(self, column: int, name: str) -> None:
        value = self.value_of(name)
        attrs = {"name": PirAttr("0.a_str", f"fetch_name_{column}"), "col": PirAttr("0.a_i32", column)}
        self.emit("pd_op.fetch", [value], [self.types[value]], attrs)
        about = self.block.ops[-1].result_attrs
        flags = PirAttr("0.a_array", [PirAttr("0.a_bool", True)])
        self.block.ops[-1].result_attrs = {"persistable": flags, **about}

    def _array(self, var: VarDesc) -> None:
        """An array is made where its variable is declared and written in place from then on."""
        attrs = {"dtype": PirAttr("1.a_dtype", dtype_text(int(var.dtype or 0)))}
        self.values[var.name] = self.emit("pd_op.create_array", [], [self.type_of(var.name)], attrs)[0]


def _declared_type(type: str, attr: str) -> AttrType | None:
    from .table import old_operator

    return old_operator(_OLDER.get(type, type)).attrs.get(attr)


def as_attr(kind: str, value: Any) -> PirAttr:
    """An attribute of a kind, from the value that an operator of ours states."""
    if kind.startswith("["):
        item = kind[1:-1]
        values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        if item == "1.a_scalar":  # Paddle writes the numbers of these lists as doubles
            item = "0.a_f64"
        return PirAttr("0.a_array", [as_attr(item, each) for each in values])
    if kind in ("0.a_f32", "0.a_f64"):
        return PirAttr(kind, float(value))
    if kind in ("0.a_i32", "0.a_i64"):
        return PirAttr(kind, int(value))
    if kind == "0.a_bool":
        return PirAttr(kind, bool(value))
    if kind == "1.a_scalar":
        return PirAttr(kind, ("float64" if isinstance(value, float) else "int64", value))
    if kind == "1.a_intarray":
        return PirAttr(kind, [int(each) for each in value])
    return PirAttr(kind, value)


def _code(dtype: str) -> DType:
    from .types import dtype_code

    return DType(dtype_code(dtype))


def _is_float(made: PirType) -> bool:
    items = made.items if isinstance(made, PirVectorType) else (made,)
    return any(each.dtype in _FLOAT_KINDS for each in items if isinstance(each, (PirTensorType, PirArrayType)))


_FLOAT_KINDS: Final = frozenset(KIND_OF_CODE[code] for code in _FLOATS)
