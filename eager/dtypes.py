"""Element types as Paddle users name them: ``oarlock.float32`` and its kin, and the default float type."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..errors import InputError
from ..ir.dtypes import DType, from_numpy, to_numpy
from ..proto.dtypes import EXTENSION_NAMES

__all__ = [
    "ALL_DTYPES",
    "dtype",
    "finfo",
    "get_default_dtype",
    "iinfo",
    "is_floating",
    "name_of",
    "numpy_dtype",
    "of_numpy",
    "set_default_dtype",
]


class dtype:
    """An element type. There is one object per type, so that ``==`` and ``is`` agree; ``str`` gives ``paddle.float32``.

    As in Paddle, it does not equal its name: ``oarlock.float32 == "float32"`` is False.

    Attributes:
        name: ``"float32"``, ...
        code: the number that program files use.
    """

    __slots__ = ("_numpy", "code", "name")

    def __init__(self, code: DType, name: str = "") -> None:
        self.code = code
        self._numpy: np.dtype[Any] | None = None if name else to_numpy(code)
        self.name = name or to_numpy(code).name

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype."""
        if self._numpy is None:
            self._numpy = to_numpy(self.code)
        return self._numpy

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype, under the name by which numpy finds it: ``np.dtype(oarlock.float32)``."""
        return self.numpy

    def __repr__(self) -> str:
        return f"paddle.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _by_name, (self.name,)


_CODES: Final = (
    DType.BOOL,
    DType.UINT8,
    DType.INT8,
    DType.INT16,
    DType.INT32,
    DType.INT64,
    DType.FP16,
    DType.BF16,
    DType.FP32,
    DType.FP64,
    DType.COMPLEX64,
    DType.COMPLEX128,
    DType.FP8_E4M3FN,
    DType.FP8_E5M2,
    DType.UINT16,
    DType.UINT32,
    DType.UINT64,
)
_EXTENSION_OF: Final = {code: name for name, code in EXTENSION_NAMES.items()}
ALL_DTYPES: Final[dict[str, dtype]] = {
    made.name: made for made in (dtype(code, _EXTENSION_OF.get(code, "")) for code in _CODES)
}
"""Name -> element type."""

_OF_NUMPY: Final = {each.numpy: each for each in ALL_DTYPES.values() if each.name not in EXTENSION_NAMES}
_FLOATING: Final = frozenset({"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"})


def _by_name(name: str) -> dtype:
    return ALL_DTYPES[name]


def of_numpy(array_dtype: np.dtype[Any]) -> dtype:
    """The element type of a numpy dtype.

    Raises:
        InputError: no tensor can have this dtype.
    """
    found = _OF_NUMPY.get(array_dtype)
    if found is not None:
        return found
    try:
        return ALL_DTYPES[array_dtype.name if array_dtype.kind == "V" else ""]
    except KeyError:
        raise InputError(f"no tensor can have numpy dtype {array_dtype}; convert the array first") from None


def numpy_dtype(spec: Any) -> np.dtype[Any]:
    """The numpy dtype of whatever names an element type: our object, a string, a numpy dtype or type, a code.

    Raises:
        InputError: it names none.
    """
    if isinstance(spec, dtype):
        return spec.numpy
    if isinstance(spec, str):
        name = spec.rpartition(".")[2]
        if name in ALL_DTYPES:
            return ALL_DTYPES[name].numpy
    elif isinstance(spec, int) and not isinstance(spec, bool):
        return to_numpy(spec)
    elif spec is not None:
        try:
            made: np.dtype[Any] = np.dtype(spec)
            from_numpy(made)
            return made
        except (TypeError, KeyError):
            pass
    raise InputError(f"{spec!r} names no element type; known are {', '.join(ALL_DTYPES)}")


def name_of(spec: Any) -> str:
    """The name, e.g. ``"float32"``, of whatever names an element type."""
    return str(numpy_dtype(spec).name)


def is_floating(array_dtype: np.dtype[Any]) -> bool:
    """Whether it is a real floating type, the half and quarter ones included."""
    return array_dtype.name in _FLOATING


def finfo(spec: Any) -> Any:
    """The limits of a floating type: ``min``, ``max``, ``eps``, ``tiny``, ``bits``."""
    import ml_dtypes  # slow to import, and needed here alone

    return ml_dtypes.finfo(numpy_dtype(spec))  # type: ignore[no-untyped-call]


def iinfo(spec: Any) -> Any:
    """The limits of an integer type: ``min``, ``max``, ``bits``."""
    return np.iinfo(numpy_dtype(spec))


_default = np.dtype(np.float32)


def set_default_dtype(spec: Any) -> None:
    """Set the type that Python floats and new parameters get: float16, bfloat16, float32 or float64."""
    global _default
    made = numpy_dtype(spec)
    if made.name not in ("float16", "bfloat16", "float32", "float64"):
        raise InputError(f"the default dtype must be float16, bfloat16, float32 or float64, not {made.name}")
    _default = made


def get_default_dtype() -> str:
    """The name of the default float type."""
    return str(_default.name)


def default_float() -> np.dtype[Any]:
    """The default float type as a numpy dtype."""
    return _default
