"""Complex numbers, Fourier transforms and framing of signals.

The gradient of a real loss with respect to a complex tensor is ``dL/dRe + i dL/dIm``, so that the gradient of a
linear map is its conjugate transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, Meta
from .common import normalize_axis, unbroadcast
from .pointwise import refuse_dtype, widened

__all__ = ["fft_c2c", "fft_c2r", "fft_r2c", "frame", "overlap_add", "stft"]

_COMPLEX_OF: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}
_REAL_OF = {wide: narrow for narrow, wide in _COMPLEX_OF.items()}


def _need(type: str, slot: str, dtype: np.dtype[Any], known: Any, kinds: str) -> None:
    if dtype not in known:
        raise refuse_dtype(type, slot, dtype, kinds)


@operator("real", inputs="X", outputs="Out")
def real(x: Array) -> Array:
    """The real part."""
    _need("real", "X", x.dtype, _REAL_OF, "c")
    return x.real


@real.gradient(takes="Out@GRAD", gives="X@GRAD")
def real_grad(d_out: Array) -> Array:
    """``d_out`` as a complex tensor."""
    return d_out.astype(_COMPLEX_OF[d_out.dtype])


@operator("imag", inputs="X", outputs="Out")
def imag(x: Array) -> Array:
    """The imaginary part."""
    _need("imag", "X", x.dtype, _REAL_OF, "c")
    return x.imag


@imag.gradient(takes="Out@GRAD", gives="X@GRAD")
def imag_grad(d_out: Array) -> Array:
    """``i * d_out``."""
    grad = np.zeros(d_out.shape, _COMPLEX_OF[d_out.dtype])
    grad.imag = d_out
    return grad


@operator("conj", inputs="X", outputs="Out")
def conj(x: Array) -> Array:
    """The complex conjugate; a real tensor itself."""
    widened("conj", "X", x.dtype, "fci")
    return np.asarray(np.conj(x)) if x.dtype.kind == "c" else x


conj.gradient_op("conj", takes="X=Out@GRAD", gives="Out=X@GRAD")


@operator("angle", inputs="X", outputs="Out")
def angle(x: Array) -> Array:
    """The argument of a complex number; of a real one pi where negative, else 0."""
    widened("angle", "X", x.dtype, "fc")
    if x.dtype.kind == "c":
        return np.asarray(np.arctan2(x.imag, x.real))
    return np.multiply(x < 0, np.pi, dtype=np.float64).astype(x.dtype)


@angle.gradient(takes="X Out@GRAD", gives="X@GRAD")
def angle_grad(x: Array, d_out: Array) -> Array:
    """``d_out * i * x / |x|**2``; zero for real tensors."""
    if x.dtype.kind != "c":
        return np.zeros_like(x)
    with np.errstate(all="ignore"):
        share = d_out / (np.square(x.real) + np.square(x.imag))
    grad = np.empty(x.shape, x.dtype)
    grad.real, grad.imag = -share * x.imag, share * x.real
    return grad


@operator("complex", inputs="X Y", outputs="Out")
def complex_number(x: Array, y: Array) -> Array:
    """``x + i * y``, broadcast."""
    _need("complex", "X", x.dtype, _COMPLEX_OF, "f")
    if x.dtype != y.dtype:
        raise TypeError(f"slot Y: dtype {y.dtype}, X has {x.dtype}")
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), _COMPLEX_OF[x.dtype])
    out.real, out.imag = x, y
    return out


@complex_number.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def complex_number_grad(x: Array, y: Array, d_out: Array) -> tuple[Array, Array]:
    """The real and the imaginary part of ``d_out``."""
    return unbroadcast(d_out.real, x.shape), unbroadcast(d_out.imag, y.shape)


@operator("as_complex", inputs="X", outputs="Out")
def as_complex(x: Array) -> Array:
    """Pairs in the last dimension as complex numbers."""
    _need("as_complex", "X", x.dtype, _COMPLEX_OF, "f")
    if x.ndim == 0 or x.shape[-1] != 2:
        raise ValueError(f"slot X: the last dimension must be 2, shape is {list(x.shape)}")
    return np.ascontiguousarray(x).view(_COMPLEX_OF[x.dtype])[..., 0]


@operator("as_real", inputs="X", outputs="Out")
def as_real(x: Array) -> Array:
    """Complex numbers as pairs in a new last dimension."""
    _need("as_real", "X", x.dtype, _REAL_OF, "c")
    return np.stack([x.real, x.imag], axis=-1)


as_complex.gradient_op("as_real", takes="X=Out@GRAD", gives="Out=X@GRAD")
as_real.gradient_op("as_complex", takes="X=Out@GRAD", gives="Out=X@GRAD")


def _factor(count: int, normalization: str, forward: bool) -> float:
    """What a transform over ``count`` points is multiplied with."""
    if normalization == "ortho":
        return 1.0 / math.sqrt(count)
    if normalization not in ("forward", "backward", ""):
        raise ValueError(f"attribute normalization='{normalization}': backward, forward or ortho expected")
    return 1.0 / count if (normalization == "forward") == forward else 1.0


def _points(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[axis] for axis in axes)


def _axes(axes: Sequence[int], ndim: int) -> list[int]:
    return [normalize_axis(int(axis), ndim) for axis in axes]


def _transform(x: Array, axes: Sequence[int], forward: bool, factor: float) -> Array:
    """The complex transform over ``axes``, times ``factor``; the identity where there are none."""
    if not axes:
        value: Array = x * x.dtype.type(factor)
        return value
    function: Callable[..., Any] = np.fft.fftn if forward else np.fft.ifftn
    result = function(x, axes=axes, norm="backward" if forward else "forward")
    return np.asarray(result * factor if factor != 1.0 else result).astype(x.dtype, copy=False)


@operator("fft_c2c", inputs="X", outputs="Out")
def fft_c2c(x: Array, *, axes: Sequence[int], normalization: str, forward: bool) -> Array:
    """The Fourier transform (``forward``) or the one with the other sign; ``backward`` scales the latter."""
    _need("fft_c2c", "X", x.dtype, _REAL_OF, "c")
    over = _axes(axes, x.ndim)
    return _transform(x, over, forward, _factor(_points(x.shape, over), normalization, forward))


@fft_c2c.gradient(takes="Out@GRAD", gives="X@GRAD")
def fft_c2c_grad(d_out: Array, *, axes: Sequence[int], normalization: str, forward: bool) -> Array:
    """The transform of the other sign, with the same factor."""
    over = _axes(axes, d_out.ndim)
    return _transform(d_out, over, not forward, _factor(_points(d_out.shape, over), normalization, forward))


@operator("fft_r2c", inputs="X", outputs="Out")
def fft_r2c(x: Array, *, axes: Sequence[int], normalization: str, forward: bool, onesided: bool) -> Array:
    """The transform of real numbers; ``onesided`` keeps the first half of the last of ``axes``."""
    _need("fft_r2c", "X", x.dtype, _COMPLEX_OF, "f")
    over, wide = _axes(axes, x.ndim), _COMPLEX_OF[x.dtype]
    factor = _factor(_points(x.shape, over), normalization, forward)
    if not onesided:
        return _transform(x.astype(wide), over, forward, factor)
    half = np.fft.rfft(x, axis=over[-1])
    # the real transform has the forward sign; the other sign is its conjugate
    half = np.asarray(half if forward else np.conj(half)).astype(wide, copy=False)
    return _transform(half, over[:-1], forward, factor)


@fft_r2c.gradient(takes="X~ Out@GRAD", gives="X@GRAD")
def fft_r2c_grad(
    x: Array | Meta,
    d_out: Array,
    *,
    axes: Sequence[int],
    normalization: str,
    forward: bool,
    onesided: bool,
) -> Array:
    """The real part of the transform of the other sign, the half that was not kept being zero."""
    over = _axes(axes, x.ndim)
    full = d_out
    if onesided:
        full = np.zeros(x.shape, d_out.dtype)
        full[(slice(None),) * over[-1] + (slice(d_out.shape[over[-1]]),)] = d_out
    factor = _factor(_points(x.shape, over), normalization, forward)
    return np.ascontiguousarray(_transform(full, over, not forward, factor).real).astype(x.dtype, copy=False)


def _full_size(last_dim_size: int, half: int) -> int:
    return last_dim_size or 2 * (half - 1)


@operator("fft_c2r", inputs="X", outputs="Out")
def fft_c2r(x: Array, *, axes: Sequence[int], normalization: str, forward: bool, last_dim_size: int = 0) -> Array:
    """The real transform of a half spectrum; the last of ``axes`` grows to ``last_dim_size`` (0: an even size)."""
    _need("fft_c2r", "X", x.dtype, _REAL_OF, "c")
    over = _axes(axes, x.ndim)
    size = _full_size(last_dim_size, x.shape[over[-1]])
    factor = _factor(_points(x.shape, over[:-1]) * size, normalization, forward)
    inner = _transform(x, over[:-1], forward, factor)
    half = np.conj(inner) if forward else inner
    return np.fft.irfft(half, size, axis=over[-1], norm="forward").astype(_REAL_OF[x.dtype], copy=False)


@fft_c2r.gradient(takes="Out@GRAD", gives="X@GRAD")
def fft_c2r_grad(
    d_out: Array, *, axes: Sequence[int], normalization: str, forward: bool, last_dim_size: int = 0
) -> Array:
    """The half transform, twice where a value stands for its mirror image too, then the other axes back."""
    over = _axes(axes, d_out.ndim)
    size = d_out.shape[over[-1]]
    half = np.asarray(np.fft.rfft(d_out, axis=over[-1])).astype(_COMPLEX_OF[d_out.dtype], copy=False)
    weights = np.full(half.shape[over[-1]], 2.0, d_out.dtype)
    weights[0] = 1.0
    if size % 2 == 0:
        weights[-1] = 1.0
    half = half * weights.reshape(-1, *(1,) * (d_out.ndim - over[-1] - 1))
    factor = _factor(_points(d_out.shape, over), normalization, forward)
    return _transform(np.conj(half) if forward else half, over[:-1], not forward, factor)


def _check_frames(length: int, frame_length: int, hop_length: int) -> int:
    """The number of frames.

    Raises:
        ValueError: a length is not positive, or a frame is longer than the signal.
    """
    if frame_length <= 0 or hop_length <= 0:
        raise ValueError(f"attributes frame_length={frame_length}, hop_length={hop_length}: positive numbers expected")
    if frame_length > length:
        raise ValueError(f"attribute frame_length={frame_length} is longer than the signal of {length}")
    return 1 + (length - frame_length) // hop_length


def _frames(x: Array, frame_length: int, hop_length: int) -> Array:
    """``[..., length] -> [..., frames, frame_length]``, a view."""
    _check_frames(x.shape[-1], frame_length, hop_length)
    return np.lib.stride_tricks.sliding_window_view(x, frame_length, axis=-1)[..., ::hop_length, :]


def _overlapped(frames: Array, hop_length: int, length: int) -> Array:
    """``[..., frames, frame_length] -> [..., length]``: what overlaps adds up, what no frame reaches is zero.

    Frames are cut into pieces of one hop, so that the k-th pieces of all frames are added at once.
    """
    count, size = frames.shape[-2:]
    pieces = -(-size // hop_length)
    padded = np.zeros((*frames.shape[:-1], pieces * hop_length), frames.dtype)
    padded[..., :size] = frames
    padded = padded.reshape(*frames.shape[:-1], pieces, hop_length)
    total = np.zeros((*frames.shape[:-2], count + pieces - 1, hop_length), frames.dtype)
    for index in range(pieces):
        total[..., index : index + count, :] += padded[..., index, :]
    flat = total.reshape(*frames.shape[:-2], -1)
    result = np.zeros((*frames.shape[:-2], length), frames.dtype)
    reach = min(length, flat.shape[-1])
    result[..., :reach] = flat[..., :reach]
    return result


def _check_axis(axis: int) -> None:
    if axis not in (0, -1):
        raise ValueError(f"attribute axis={axis}: 0 or -1 expected")


@operator("frame", inputs="X", outputs="Out")
def frame(x: Array, *, frame_length: int, hop_length: int, axis: int = -1) -> Array:
    """Overlapping frames: ``[..., length] -> [..., frame_length, frames]``, or from the first axis for ``axis`` 0."""
    _check_axis(axis)
    if axis == -1:
        return np.swapaxes(_frames(x, frame_length, hop_length), -1, -2)
    framed = _frames(np.moveaxis(x, 0, -1), frame_length, hop_length)
    return np.moveaxis(framed, (-2, -1), (0, 1))


@frame.gradient(takes="X Out@GRAD", gives="X@GRAD")
def frame_grad(x: Array, d_out: Array, *, frame_length: int, hop_length: int, axis: int = -1) -> Array:
    """The frames of ``d_out`` added up where they overlap."""
    if axis == -1:
        return _overlapped(np.swapaxes(d_out, -1, -2), hop_length, x.shape[-1])
    back = _overlapped(np.moveaxis(d_out, (0, 1), (-2, -1)), hop_length, x.shape[0])
    return np.moveaxis(back, -1, 0)


@operator("overlap_add", inputs="X", outputs="Out")
def overlap_add(x: Array, *, hop_length: int, axis: int = -1) -> Array:
    """Frames ``[..., frame_length, frames]`` (``[frames, frame_length, ...]`` for ``axis`` 0) added into a signal."""
    _check_axis(axis)
    if x.ndim < 2:
        raise ValueError(f"slot X: at least 2 dimensions expected, got {list(x.shape)}")
    frames = np.swapaxes(x, -1, -2) if axis == -1 else np.moveaxis(x, (0, 1), (-2, -1))
    if not 0 < hop_length <= frames.shape[-1]:
        raise ValueError(f"attribute hop_length={hop_length}: 1 to the frame length {frames.shape[-1]} expected")
    length = (frames.shape[-2] - 1) * hop_length + frames.shape[-1]
    result = _overlapped(frames, hop_length, length)
    return result if axis == -1 else np.moveaxis(result, -1, 0)


@overlap_add.gradient(takes="X Out@GRAD", gives="X@GRAD")
def overlap_add_grad(x: Array, d_out: Array, *, hop_length: int, axis: int = -1) -> Array:
    """The frames of ``d_out``."""
    size = x.shape[-2] if axis == -1 else x.shape[1]
    return frame(d_out, frame_length=size, hop_length=hop_length, axis=axis)  # type: ignore[no-any-return]


@operator("stft", inputs="X Window", outputs="Out")
def stft(x: Array, window: Array, *, n_fft: int, hop_length: int, normalized: bool, onesided: bool) -> Array:
    """The short-time Fourier transform: ``[N, length] -> [N, bins, frames]``."""
    _need("stft", "X", x.dtype, _COMPLEX_OF, "f")
    if x.ndim != 2:
        raise ValueError(f"slot X: 2 dimensions expected, got {list(x.shape)}")
    if window.shape != (n_fft,):
        raise ValueError(f"slot Window: shape [{n_fft}] expected, got {list(window.shape)}")
    framed = _frames(x, n_fft, hop_length) * window
    spectrum = np.fft.rfft(framed, axis=-1) if onesided else np.fft.fft(framed, axis=-1)
    factor = 1.0 / math.sqrt(n_fft) if normalized else 1.0
    return np.swapaxes(np.asarray(spectrum * factor).astype(_COMPLEX_OF[x.dtype], copy=False), -1, -2)


@stft.gradient(takes="X Window Out@GRAD", gives="X@GRAD")
def stft_grad(
    x: Array,
    window: Array,
    d_out: Array,
    *,
    n_fft: int,
    hop_length: int,
    normalized: bool,
    onesided: bool,
) -> Array:
    """The real part of the inverse sum per frame, windowed, added up where frames overlap."""
    spectrum = np.swapaxes(d_out, -1, -2)
    full = np.zeros((*spectrum.shape[:-1], n_fft), d_out.dtype)
    full[..., : spectrum.shape[-1]] = spectrum
    factor = 1.0 / math.sqrt(n_fft) if normalized else 1.0
    frames = np.fft.ifft(full, axis=-1, norm="forward").real * factor * window
    return _overlapped(frames.astype(x.dtype, copy=False), hop_length, x.shape[-1])
