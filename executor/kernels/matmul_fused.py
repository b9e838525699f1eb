"""Products with their epilogue: fc, fused_matmul, and the fusions of inference exports; bilinear products."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.registry import lookup, operator
from ..values import Array
from .common import accumulate_dtype
from .matmul import product, rearranged, swapped, widened
from .norm_layer import normalize_rows

__all__ = ["bilinear_tensor_product", "fc", "fused_matmul"]

_ACTIVATIONS: dict[str, tuple[str, dict[str, str | float | bool]]] = {
    "relu": ("relu", {}),
    "relu6": ("relu6", {}),
    "sigmoid": ("sigmoid", {}),
    "tanh": ("tanh", {}),
    "abs": ("abs", {}),
    "sqrt": ("sqrt", {}),
    "mish": ("mish", {}),
    "gelu": ("gelu", {}),
    "gelu_erf": ("gelu", {}),
    "gelu_tanh": ("gelu", {"approximate": True}),
    "swish": ("swish", {"beta": "alpha"}),
    "leaky_relu": ("leaky_relu", {"alpha": "alpha"}),
    "elu": ("elu", {"alpha": "alpha"}),
    "clip": ("clip", {"min": "alpha", "max": "beta"}),
    "hard_swish": ("hard_swish", {}),
    "hard_sigmoid": ("hard_sigmoid", {"slope": "alpha", "offset": "beta"}),
}
"""Fused activation -> its operator and that operator's attributes: a value, or the fused attribute's name."""


def activation(name: str, alpha: float = 0.0, beta: float = 0.0) -> Callable[[Array], Array] | None:
    """The function of an activation that was fused into another operator; None for none.

    Raises:
        ValueError: no operator fuses that.
    """
    if name in ("", "identity"):
        return None
    if name not in _ACTIVATIONS:
        raise ValueError(f"fused activation '{name}' is unknown, expected one of {', '.join(sorted(_ACTIVATIONS))}")
    type, attrs = _ACTIVATIONS[name]
    given = {"alpha": alpha, "beta": beta}
    bound = {attr: given[value] if isinstance(value, str) else value for attr, value in attrs.items()}
    kernel = lookup(type).kernel
    extra = [None] * (len(lookup(type).inputs) - 1)
    return lambda x: np.asarray(kernel(x, *extra, **bound))


def _dense(
    x: Array, w: Array, bias: Array | None, rows: tuple[int, ...], apply: Callable[[Array], Array] | None
) -> Array:
    """``apply(x @ w + bias)`` with ``x`` flattened to ``prod(rows)`` rows; shape ``rows + [N]``."""
    out = product(x.reshape(math.prod(rows), w.shape[0]), w)
    if bias is not None:
        out += bias.reshape(-1)
    return (out if apply is None else apply(out)).reshape(*rows, w.shape[1])


def _relu(x: Array) -> Array:
    """In place: the product that it is given belongs to nobody else."""
    return np.maximum(x, np.zeros((), x.dtype), out=x)


def _fc_activation(name: str) -> Callable[[Array], Array] | None:
    if name not in ("", "relu"):
        raise ValueError(f"attribute activation_type is '{name}', expected '' or 'relu'")
    return _relu if name else None


_FC_REFUSE = {"Scale_in": 1.0, "Scale_weights": [1.0], "Scale_out": 1.0}


@operator("fc", inputs="Input W Bias?", outputs="Out", refuse=_FC_REFUSE, gradient=None)
def fc(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    in_num_col_dims: int = 1,
    activation_type: str = "",
    padding_weights: bool = False,
) -> Array:
    """``activation(x @ W + Bias)`` with the first ``in_num_col_dims`` dimensions of ``x`` as rows.

    With ``padding_weights`` four rows and columns at the end of ``W`` are no part of it.
    """
    weight = w[:-4, :-4] if padding_weights else w
    _check_dense(x, weight, in_num_col_dims)
    return _dense(x, weight, bias, x.shape[:in_num_col_dims], _fc_activation(activation_type))


def _check_dense(x: Array, w: Array, columns: int) -> None:
    width = math.prod(x.shape[columns:])
    if w.ndim != 2 or width != w.shape[0]:
        raise ValueError(
            f"Input of shape {list(x.shape)} has {width} column(s) after its first {columns} dimension(s), "
            f"W has shape {list(w.shape)}"
        )


@fc.prepare
def prepare_fc(
    constants: Mapping[str, Any],
    *,
    in_num_col_dims: int = 1,
    activation_type: str = "",
    padding_weights: bool = False,
) -> Callable[..., Array] | None:
    """With a constant ``W``: strip, align and convert it once, look the activation up once."""
    w = constants.get("W")
    if not isinstance(w, np.ndarray) or w.ndim != 2:
        return None
    cut = w[:-4, :-4] if padding_weights else w
    weight = np.require(cut, accumulate_dtype(w.dtype), "A")
    apply = _fc_activation(activation_type)

    def run(x: Array, _: Array, bias: Array | None = None) -> Array:
        _check_dense(x, weight, in_num_col_dims)
        return _dense(x, weight, bias, x.shape[:in_num_col_dims], apply)

    return run


@operator(
    "fused_fc_elementwise_layernorm",
    inputs="X W Y Bias0? Scale? Bias1?",
    outputs="Out Mean Variance",
    gradient=None,
)
def fused_fc_elementwise_layernorm(
    x: Array,
    w: Array,
    y: Array,
    bias0: Array | None = None,
    scale: Array | None = None,
    bias1: Array | None = None,
    *,
    x_num_col_dims: int = 1,
    activation_type: str = "",
    epsilon: float = 9.999999747378752e-06,
    begin_norm_axis: int = 1,
) -> tuple[Array, Array, Array]:
    """``layer_norm(activation(x @ W + Bias0) + Y) * Scale + Bias1``; statistics per row."""
    _check_dense(x, w, x_num_col_dims)
    dense = _dense(x, w, bias0, x.shape[:x_num_col_dims], _fc_activation(activation_type))
    return normalize_rows(dense + y.reshape(dense.shape), scale, bias1, epsilon, begin_norm_axis)


_MATMUL_REFUSE = {"Scale_x": 1.0, "Scale_y": 1.0, "Scale_in_eltwise": 0.0, "Scale_out": 1.0}


@operator("fused_matmul", inputs="X Y ResidualData?", outputs="Out", refuse=_MATMUL_REFUSE, gradient=None)
def fused_matmul(
    x: Array,
    y: Array,
    residual: Array | None = None,
    *,
    trans_x: bool = False,
    trans_y: bool = False,
    matmul_alpha: float = 1.0,
    fuse_activation: str = "",
    fuse_alpha: float = 0.0,
    fuse_beta: float = 0.0,
    fused_output_scale: float = 1.0,
    fused_reshape_X: Sequence[int] = (),
    fused_transpose_X: Sequence[int] = (),
    fused_reshape_Y: Sequence[int] = (),
    fused_transpose_Y: Sequence[int] = (),
    fused_reshape_Out: Sequence[int] = (),
    fused_transpose_Out: Sequence[int] = (),
) -> Array:
    """``activation(alpha * op(x) @ op(y) + residual) * scale``, operands and result rearranged on the way.

    Operands are reshaped, then transposed; the result is transposed, then reshaped.
    """
    left = swapped(rearranged(x, fused_reshape_X, fused_transpose_X), trans_x and x.ndim > 1)
    right = swapped(rearranged(y, fused_reshape_Y, fused_transpose_Y), trans_y and y.ndim > 1)
    out = product(left, right)
    if matmul_alpha != 1.0:
        out *= np.asarray(matmul_alpha, out.dtype)
    if residual is not None:
        out += residual.reshape(out.shape) if residual.size == out.size else residual
    apply = activation(fuse_activation, fuse_alpha, fuse_beta)
    if apply is not None:
        out = apply(out)
    if fused_output_scale != 1.0:
        out = out * np.asarray(fused_output_scale, out.dtype)
    if fused_transpose_Out:
        out = out.transpose(fused_transpose_Out)
    return rearranged(out, fused_reshape_Out, ())


@operator("fusion_squared_mat_sub", inputs="X Y", outputs="SquaredX SquaredY SquaredXY Out", gradient=None)
def fusion_squared_mat_sub(x: Array, y: Array, *, scalar: float = 1.0) -> tuple[Array, Array, Array, Array]:
    """``((x @ y)^2 - x^2 @ y^2) * scalar``, the pairwise part of a factorisation machine."""
    square_x, square_y = np.square(x), np.square(y)
    square_xy = np.square(product(x, y))
    out = square_xy - product(square_x, square_y)
    out *= np.asarray(scalar, out.dtype)
    return square_x, square_y, square_xy, out


@operator("fusion_repeated_fc_relu", inputs="X W* Bias*", outputs="ReluOut* Out", gradient=None)
def fusion_repeated_fc_relu(x: Array, w: list[Array], bias: list[Array]) -> tuple[list[Array], Array]:
    """A chain of ``relu(x @ W[i] + Bias[i])``; ``ReluOut`` holds all but the last."""
    if not w or len(w) != len(bias):
        raise ValueError(f"W and Bias must be lists of equal length above 0, got {len(w)} and {len(bias)}")
    layers = []
    for weight, shift in zip(w, bias, strict=True):
        _check_dense(x, weight, 1)
        x = _dense(x, weight, shift, x.shape[:1], _relu)
        layers.append(x)
    return layers[:-1], layers[-1]


@operator("bilinear_tensor_product", inputs="X Y Weight Bias?", outputs="Out")
def bilinear_tensor_product(x: Array, y: Array, weight: Array, bias: Array | None = None) -> Array:
    """``out[b, k] = x[b] @ Weight[k] @ y[b] + Bias[k]``; ``[B, M], [B, N], [K, M, N] -> [B, K]``."""
    if x.ndim != 2 or y.ndim != 2 or weight.shape[1:] != (x.shape[1], y.shape[1]) or len(x) != len(y):
        raise ValueError(
            f"X [B, M], Y [B, N] and Weight [K, M, N] do not fit: {list(x.shape)}, {list(y.shape)}, "
            f"{list(weight.shape)}"
        )
    out = np.matmul(_by_rows(widened(x), widened(weight)), widened(y)[:, :, None])[..., 0]
    if bias is not None:
        out += bias.reshape(-1)
    result: Array = out.astype(x.dtype, copy=False)
    return result


def _by_rows(x: Array, weight: Array) -> Array:
    """``x[b] @ Weight[k]`` for all b and k as one product; shape ``[B, K, N]``."""
    count, rows, columns = weight.shape
    flat = x @ weight.transpose(1, 0, 2).reshape(rows, count * columns)
    result: Array = flat.reshape(len(x), count, columns)
    return result


@bilinear_tensor_product.gradient(takes="X Y Weight Out@GRAD", gives="X@GRAD Y@GRAD Weight@GRAD Bias@GRAD")
def bilinear_tensor_product_grad(x: Array, y: Array, weight: Array, d_out: Array) -> tuple[Array, Array, Array, Array]:
    """Each operand's gradient is the product of the others, summed over what it does not index."""
    wide = widened(x), widened(y), widened(weight), widened(d_out)
    a, b, w, d = wide
    d_y = np.matmul(d[:, None, :], _by_rows(a, w))[:, 0, :]
    d_x = np.matmul(d[:, None, :], _by_rows(b, w.swapaxes(1, 2)))[:, 0, :]
    weighted = d[:, :, None] * a[:, None, :]
    d_weight = (weighted.reshape(len(a), -1).T @ b).reshape(weight.shape)
    d_bias = d.sum(axis=0, keepdims=True)
    return tuple(each.astype(x.dtype, copy=False) for each in (d_x, d_y, d_weight, d_bias))
