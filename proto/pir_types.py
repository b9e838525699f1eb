"""Types in the JSON of a program: element types, tensors, arrays, vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .pir_desc import PirArrayType, PirScalarType, PirTensorType, PirType, PirVectorType
from .pir_fault import Fault, field_of, integer, items, mapping, text

__all__ = ["DTYPE_KINDS", "read_type", "write_type"]

_DTYPES: Final = "bool i8 ui8 i16 ui16 i32 ui32 i64 ui64 f16 bf16 f32 f64 c64 c128 f8e4m3fn f8e5m2 index"
DTYPE_KINDS: Final = frozenset(f"0.t_{name}" for name in _DTYPES.split())
_TENSORS: Final = frozenset({"0.t_dtensor", "1.t_selected_rows", "1.t_sparse_coo_tensor", "1.t_sparse_csr_tensor"})
_VECTOR: Final = "0.t_vec"
_ARRAY: Final = "1.t_dense_tensor_array"
_NULL: Final = "NULL"
_MAX_VECTORS: Final = 8
_MAX_RANK: Final = 64


def read_type(tree: Any, depth: int = 0) -> PirType:
    """The type in a ``TT`` field.

    Raises:
        Fault: it is none, or of a kind that is not known.
    """
    fields = mapping(tree)
    kind = text(field_of(fields, "#"))
    if kind in DTYPE_KINDS:
        return PirScalarType(kind)
    if kind == _NULL:
        return None
    if kind in _TENSORS:
        return _read_tensor(kind, fields)
    if kind == _ARRAY:
        data = _parts(fields, 3)
        return PirArrayType(_dtype(data[0]), _dims(data[1]), text(data[2]))
    if kind == _VECTOR:
        if depth >= _MAX_VECTORS:
            raise Fault(f"vectors are nested more than {_MAX_VECTORS} deep")
        return PirVectorType(tuple(read_type(each, depth + 1) for each in items(field_of(fields, "D"))))
    raise Fault(f"the type {kind[:60]!r} is not known")


def _read_tensor(kind: str, fields: dict[str, Any]) -> PirTensorType:
    data = _parts(fields, 3)
    lod = items(data[3]) if len(data) > 3 else []
    offset = integer(data[4]) if len(data) > 4 else 0
    levels = tuple(tuple(integer(each) for each in items(level)) for level in lod)
    return PirTensorType(kind, _dtype(data[0]), _dims(data[1]), text(data[2]), levels, offset)


def _parts(fields: dict[str, Any], least: int) -> list[Any]:
    data = items(field_of(fields, "D"))
    if len(data) < least:
        raise Fault(f"it has {len(data)} parts, expected element type, dims and layout", "D")
    return data


def _dtype(tree: Any) -> str:
    kind = text(field_of(mapping(tree), "#"))
    if kind not in DTYPE_KINDS:
        raise Fault(f"the element type {kind[:60]!r} is not known", "D[0]")
    return kind


def _dims(tree: Any) -> tuple[int, ...]:
    dims = items(tree)
    if len(dims) > _MAX_RANK:
        raise Fault(f"there are {len(dims)} dimensions", "D[1]")
    return Fault.at("D[1]", lambda: tuple(integer(each) for each in dims))


_WRITERS: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    PirScalarType: lambda made: {"#": made.kind},
    PirTensorType: lambda made: {
        "#": made.kind,
        "D": [{"#": made.dtype}, list(made.dims), made.layout, [list(level) for level in made.lod], made.offset],
    },
    PirArrayType: lambda made: {"#": _ARRAY, "D": [{"#": made.dtype}, list(made.dims), made.layout]},
    PirVectorType: lambda made: {"#": _VECTOR, "D": [write_type(each) for each in made.items]},
    type(None): lambda made: {"#": _NULL},
}


def write_type(made: PirType) -> dict[str, Any]:
    """The JSON of a type."""
    return _WRITERS[type(made)](made)
