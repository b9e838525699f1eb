"""Element types and types of values between the two worlds, and attribute values by their old type."""

from __future__ import annotations

import math
from typing import Any, Final

from ...errors import ProgramError
from ...proto.pir_desc import PirArrayType, PirAttr, PirScalarType, PirTensorType, PirType, PirVectorType
from ..desc import AttrType, VarDesc, VarKind
from ..dtypes import UNSET, DType, from_name, to_numpy

__all__ = ["CODE_OF_KIND", "KIND_OF_CODE", "attr_type_of", "describe", "dtype_code", "dtype_text", "old_value"]

CODE_OF_KIND: Final[dict[str, DType]] = {
    "0.t_bool": DType.BOOL,
    "0.t_i8": DType.INT8,
    "0.t_ui8": DType.UINT8,
    "0.t_i16": DType.INT16,
    "0.t_ui16": DType.UINT16,
    "0.t_i32": DType.INT32,
    "0.t_ui32": DType.UINT32,
    "0.t_i64": DType.INT64,
    "0.t_ui64": DType.UINT64,
    "0.t_f16": DType.FP16,
    "0.t_bf16": DType.BF16,
    "0.t_f32": DType.FP32,
    "0.t_f64": DType.FP64,
    "0.t_c64": DType.COMPLEX64,
    "0.t_c128": DType.COMPLEX128,
    "0.t_f8e4m3fn": DType.FP8_E4M3FN,
    "0.t_f8e5m2": DType.FP8_E5M2,
    "0.t_index": DType.INT64,
}
KIND_OF_CODE: Final = {code: kind for kind, code in reversed(CODE_OF_KIND.items())}

_KINDS: Final = {
    "0.t_dtensor": VarKind.LOD_TENSOR,
    "1.t_selected_rows": VarKind.SELECTED_ROWS,
    "1.t_sparse_coo_tensor": VarKind.SPARSE_COO,
    "1.t_sparse_csr_tensor": VarKind.SPARSE_CSR,
}
_UNDEFINED: Final = "Undefined(ALL_DTYPE)"
_TYPES: Final = {
    "0.a_bool": AttrType.BOOLEAN,
    "0.a_i32": AttrType.INT,
    "0.a_i64": AttrType.LONG,
    "0.a_index": AttrType.LONG,
    "0.a_f32": AttrType.FLOAT,
    "0.a_f64": AttrType.FLOAT64,
    "0.a_str": AttrType.STRING,
    "0.a_tensorname": AttrType.STRING,
    "1.a_dtype": AttrType.INT,
    "1.a_layout": AttrType.STRING,
    "1.a_intarray": AttrType.LONGS,
    "1.a_scalar": AttrType.SCALAR,
}
_ARRAYS: Final = {
    AttrType.BOOLEAN: AttrType.BOOLEANS,
    AttrType.INT: AttrType.INTS,
    AttrType.LONG: AttrType.LONGS,
    AttrType.FLOAT: AttrType.FLOATS,
    AttrType.FLOAT64: AttrType.FLOAT64S,
    AttrType.STRING: AttrType.STRINGS,
    AttrType.SCALAR: AttrType.SCALARS,
}
_INTS: Final = frozenset({AttrType.INT, AttrType.LONG})
_INT_LISTS: Final = frozenset({AttrType.INTS, AttrType.LONGS})
_FLOATS: Final = frozenset({AttrType.FLOAT, AttrType.FLOAT64})
_FLOAT_LISTS: Final = frozenset({AttrType.FLOATS, AttrType.FLOAT64S})


def dtype_code(text: str) -> int:
    """The code of an element type that an attribute states, such as ``"float32"``; -1 for "undefined".

    Raises:
        ProgramError: there is no such type.
    """
    if text.startswith("Undefined"):
        return UNSET
    try:
        return int(from_name(text))
    except (KeyError, ValueError, TypeError) as error:
        raise ProgramError(f"{text!r} is no element type") from error


def dtype_text(code: int | None) -> str:
    """The other way round."""
    return _UNDEFINED if code is None or code == UNSET else to_numpy(code).name


def describe(name: str, made: PirType) -> VarDesc:
    """The variable for a value of a type."""
    if isinstance(made, PirTensorType):
        return VarDesc(name, _KINDS[made.kind], CODE_OF_KIND[made.dtype], made.dims, lod_level=0, persistable=False)
    if isinstance(made, PirArrayType):
        return VarDesc(name, VarKind.LOD_TENSOR_ARRAY, CODE_OF_KIND[made.dtype], made.dims, 0, persistable=False)
    if isinstance(made, PirScalarType):
        return VarDesc(name, dtype=CODE_OF_KIND[made.kind], shape=(), lod_level=0, persistable=False)
    raise ProgramError(f"a variable cannot have the type of '{name}', {type(made).__name__}")


def attr_type_of(attr: PirAttr) -> AttrType:
    """The old type that follows from the attribute itself, where no operator states one."""
    if attr.kind == "0.a_array":
        return _ARRAYS[attr_type_of(attr.value[0])] if attr.value else AttrType.INTS
    found = _TYPES.get(attr.kind)
    if found is None:
        raise ProgramError(f"an attribute of kind {attr.kind} has no counterpart in Paddle 2")
    return found


def old_value(attr: PirAttr, wanted: AttrType) -> Any:
    """The value of an attribute as the old type wants it."""
    if attr.kind == "1.a_dtype":
        return dtype_code(attr.value)
    if attr.kind == "1.a_scalar":
        return attr.value[1]
    value = attr.plain()
    if attr.kind == "0.a_array" and attr.value and attr.value[0].kind == "1.a_scalar":
        return [each.value[1] for each in attr.value]
    return coerced(value, wanted)


def coerced(value: Any, wanted: AttrType) -> Any:
    """A value with the Python type that an attribute type holds.

    Raises:
        ProgramError: it does not fit.
    """
    try:
        if wanted in _INTS:
            return int(value)
        if wanted in _FLOATS:
            return float(value)
        if wanted in _INT_LISTS:
            return [int(each) for each in _as_list(value)]
        if wanted in _FLOAT_LISTS:
            return [float(each) for each in _as_list(value)]
        if wanted == AttrType.STRING and isinstance(value, float):
            return repr(value)  # allclose has its tolerances as text
        return bool(value) if wanted == AttrType.BOOLEAN else value
    except (TypeError, ValueError, OverflowError) as error:
        raise ProgramError(f"the value {str(value)[:60]} does not fit an attribute of type {wanted.name}") from error


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def number_text(value: float) -> str:
    """A number as ``str_value`` of fill_constant holds it: an integer without a point."""
    return str(int(value)) if math.isfinite(value) and float(value).is_integer() else repr(float(value))


def vector_items(made: PirType) -> tuple[PirType, ...]:
    """The types in a vector; empty for anything else."""
    return made.items if isinstance(made, PirVectorType) else ()
