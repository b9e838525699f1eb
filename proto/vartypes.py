"""The type of a variable: an encoded ``VarType`` to kind, element type, dims and LoD depth, and back."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .dtypes import DType
from .generated import messages, parse

__all__ = ["DecodedType", "decode_type", "encode_type"]

# kind -> the field with its description; the LoD kinds wrap it once more
_LOD_FIELDS: Final = {7: "lod_tensor", 13: "tensor_array"}
_TENSOR_FIELDS: Final = {
    8: "selected_rows",
    25: "string",
    26: "strings",
    27: "vocab",
    30: "sparse_coo",
    31: "sparse_csr",
}
_ELEMENT_TYPES: Final = {int(code): code for code in DType}


class DecodedType(NamedTuple):
    """A variable's type. ``extra`` is the encoded type where the other four do not give its bytes again."""

    kind: int
    dtype: DType | int | None
    shape: tuple[int, ...] | None
    lod_level: int | None
    extra: bytes


def decode_type(raw: bytes) -> DecodedType:
    """The type in one encoded ``VarType``.

    Raises:
        ValueError: the bytes are no type, or it states no kind.
    """
    message = parse(messages().VarType, raw)
    if not message.HasField("type"):
        raise ValueError("its type states no kind")
    kind = message.type
    tensor, lod_level = _tensor_of(message, kind)
    dtype: DType | int | None = None
    shape: tuple[int, ...] | None = None
    if tensor is not None:
        shape = tuple(tensor.dims)
        if tensor.HasField("data_type"):
            dtype = _ELEMENT_TYPES.get(tensor.data_type, tensor.data_type)
    same = encode_type(kind, dtype, shape, lod_level) == raw
    return DecodedType(kind, dtype, shape, lod_level, b"" if same else raw)


def _tensor_of(message: Any, kind: int) -> tuple[Any, int | None]:
    """The tensor description that goes with the kind, and the LoD depth; None where there is none."""
    field = _LOD_FIELDS.get(kind)
    if field is not None and message.HasField(field):
        holder = getattr(message, field)
        lod_level = holder.lod_level if holder.HasField("lod_level") else None
        return (holder.tensor if holder.HasField("tensor") else None), lod_level
    field = _TENSOR_FIELDS.get(kind)
    if field is not None and message.HasField(field):
        return getattr(message, field), None
    return None, None


def encode_type(kind: int, dtype: int | None, shape: tuple[int, ...] | None, lod_level: int | None) -> bytes:
    """The encoded ``VarType``.

    Raises:
        TypeError, ValueError: a value does not fit its field.
    """
    message = messages().VarType(type=int(kind))
    if kind in _LOD_FIELDS and (dtype, shape, lod_level) != (None, None, None):
        holder = getattr(message, _LOD_FIELDS[kind])
        holder.SetInParent()
        if lod_level is not None:
            holder.lod_level = lod_level
        _fill(holder.tensor, dtype, shape)
    elif kind in _TENSOR_FIELDS and (dtype, shape) != (None, None):
        _fill(getattr(message, _TENSOR_FIELDS[kind]), dtype, shape)
    encoded: bytes = message.SerializePartialToString()
    return encoded


def _fill(tensor: Any, dtype: int | None, shape: tuple[int, ...] | None) -> None:
    if dtype is not None:
        tensor.data_type = int(dtype)
    if shape is not None:
        tensor.dims.extend(shape)
        tensor.SetInParent()
