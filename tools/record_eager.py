"""Records what real Paddle's eager functions give, with gradients, as data for the tests.

Run it with a Python that has PaddlePaddle 2.6.2::

    python tools/record_eager.py tests/data/eager

Each line of ``EXPRESSIONS`` is evaluated with the tensors of ``inputs()``; ``evaluate`` uses the public API alone, so
that ``tests/eager/test_functions.py`` does the same with oarlock.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

EXPRESSIONS = r"""
x + y; x - y; x * y; x / y; x ** y; x // y; x % y; x @ m; 2 + x; 2 - x; 3 * x; 2 / x; 2 ** x; -x; x + 1.5; x / 4
x ** 3; x < y; x >= 0.5; x == x; x != y; i + 2; i * 1.5; i / 2; i // 2; i % 2; ~b; b & b; i & i; i ** 2; i - i; x[0]
x[:, 1]; x[..., 0]; x[None]; x[0, 1:]; x[:, ::2]; x[-1]; x[[1, 0]]; x[x > 0.5]; x[paddle.to_tensor([1, 0, 1])]; x.T
x.t(); x.abs(); x.sum(); x.mean(axis=1); x.max(axis=0); x.min(); x.prod(); x.astype('float64'); x.cast('int32')
x.reshape([3, 2]); x.reshape([-1]); x.flatten(); x.unsqueeze(0); x.unsqueeze([0, 2]); x.squeeze()
x.transpose([1, 0]); x.expand([4, 2, 3]); x.tile([2, 1]); x.clone(); x.detach(); x.clip(0.3, 0.7); x.matmul(m)
x.numel(); x.rank(); x.dim(); x.item(0); x.tolist(); len(x); float(x.sum()); x.shape; x.ndim; x.size; x.numpy()
x.gather(paddle.to_tensor([1])); paddle.exp(x); paddle.log(x); paddle.log2(x); paddle.log10(x); paddle.log1p(x)
paddle.sqrt(x); paddle.rsqrt(x); paddle.square(x); paddle.sin(x); paddle.cos(x); paddle.tan(x); paddle.asin(x)
paddle.acos(x); paddle.atan(x); paddle.sinh(x); paddle.cosh(x); paddle.tanh(x); paddle.asinh(x); paddle.acosh(x + 1)
paddle.atanh(x); paddle.erf(x); paddle.erfinv(x); paddle.expm1(x); paddle.ceil(x); paddle.floor(x)
paddle.round(x * 3); paddle.trunc(x * 3); paddle.frac(x * 3); paddle.sign(x); paddle.reciprocal(x); paddle.abs(-x)
paddle.neg(x); paddle.lgamma(x); paddle.digamma(x); paddle.stanh(x); paddle.logit(x, 1e-6); paddle.i0(x)
paddle.i0e(x); paddle.i1(x); paddle.i1e(x); paddle.polygamma(x, 1); paddle.deg2rad(x); paddle.rad2deg(x)
paddle.add(x, y); paddle.subtract(x, y); paddle.multiply(x, y); paddle.divide(x, y); paddle.maximum(x, y)
paddle.minimum(x, y); paddle.fmax(x, y); paddle.fmin(x, y); paddle.pow(x, 2.5); paddle.pow(x, y)
paddle.remainder(x, y); paddle.floor_divide(i, i); paddle.atan2(x, y); paddle.hypot(x, y); paddle.logaddexp(x, y)
paddle.lerp(x, y, 0.3); paddle.heaviside(x - 0.5, y); paddle.scale(x, 2.0, 1.0); paddle.scale(x, 2.0, 1.0, False)
paddle.clip(x, 0.2); paddle.nan_to_num(x / (x - x[0, 0])); paddle.add_n([x, y])
paddle.multiplex([x, y], paddle.to_tensor([[1], [0]], dtype='int32')); paddle.ldexp(x, i); paddle.gcd(i, i + 2)
paddle.lcm(i, i + 2); paddle.kron(m, m); paddle.dot(x[0], y[0]); paddle.cross(m, m + 1); paddle.outer(x[0], y[1])
paddle.inner(x, y); paddle.mv(m, x[0]); paddle.mm(x, m); paddle.bmm(q, q); paddle.addmm(x, x, m, 0.5, 2.0)
paddle.dist(x, y, 3); paddle.sum(x); paddle.sum(x, axis=0); paddle.sum(x, axis=[0, 1], keepdim=True); paddle.sum(i)
paddle.sum(b); paddle.mean(x, [0]); paddle.max(x, 1, True); paddle.min(x, 0); paddle.amax(x, 1); paddle.amin(x)
paddle.prod(x, 1); paddle.all(b); paddle.any(b, 0); paddle.logsumexp(x, 1); paddle.var(x); paddle.var(x, 1, False)
paddle.std(x, 0); paddle.median(x); paddle.median(x, 1); paddle.nansum(x); paddle.nanmean(x, 1)
paddle.count_nonzero(b); paddle.cumsum(x, 1); paddle.cumsum(x); paddle.cumprod(x, 1); paddle.logcumsumexp(x, 1)
paddle.diff(x); paddle.norm(x); paddle.norm(x, 1, 1); paddle.norm(x, 2, 0); paddle.norm(x, float('inf'), 1)
paddle.norm(x, 'fro', [0, 1]); paddle.quantile(x, 0.3, 1); paddle.isnan(x); paddle.isinf(x); paddle.isfinite(x)
paddle.equal_all(x, x); paddle.allclose(x, x + 1e-9); paddle.isclose(x, y); paddle.logical_and(b, b)
paddle.logical_not(x); paddle.argmax(x); paddle.argmax(x, 1); paddle.argmin(x, 0, True); paddle.argsort(x, 1, True)
paddle.sort(x, 0); paddle.topk(x, 2); paddle.kthvalue(x, 2); paddle.mode(i, 1); paddle.unique(i % 3)
paddle.searchsorted(i[0], i[1]); paddle.nonzero(b); paddle.bucketize(x, y[0] + paddle.to_tensor([0., 1., 2.]))
paddle.masked_select(x, b); paddle.where(b, x, y); paddle.index_select(x, i[0] - 1, 1); paddle.concat([x, y])
paddle.concat([x, y], 1); paddle.stack([x, y]); paddle.stack([x, y], -1); paddle.split(x, 3, 1)
paddle.split(x, [1, -1], 1); paddle.chunk(x, 3, 1); paddle.unbind(x); paddle.unstack(x, 1); paddle.tile(x, [1, 2])
paddle.flip(x, [0, 1]); paddle.roll(x, 1); paddle.roll(x, 1, 1); paddle.rot90(x); paddle.rot90(x, 3)
paddle.expand_as(x[0], x); paddle.broadcast_to(x, [2, 2, 3]); paddle.gather(x, i[0] - 1, 1)
paddle.gather_nd(x, paddle.to_tensor([[0, 1], [1, 2]])); paddle.index_sample(x, i - i)
paddle.scatter(x, paddle.to_tensor([1]), y[:1]); paddle.scatter_nd_add(x, paddle.to_tensor([[1]]), y[:1])
paddle.take_along_axis(x, i - i, 1); paddle.put_along_axis(x, i[:1] - i[:1], 9.0, 0)
paddle.index_add(x, paddle.to_tensor([1]), 0, y[:1])
paddle.index_put(x, [paddle.to_tensor([0]), paddle.to_tensor([1])], paddle.to_tensor([5.0]))
paddle.masked_fill(x, b, 3.0); paddle.index_fill(x, paddle.to_tensor([1]), 0, 7.0); paddle.moveaxis(q, 0, 2)
paddle.repeat_interleave(x, 2, 1); paddle.tril(m); paddle.triu(m, 1); paddle.diag(x[0]); paddle.diag(m)
paddle.diagonal(m); paddle.diag_embed(x); paddle.trace(m); paddle.meshgrid(x[0], y[1]); paddle.tensordot(x, m, 1)
paddle.slice(x, [1], [0], [2]); paddle.strided_slice(x, [1], [0], [3], [2]); paddle.crop(x, [1, 2], [0, 1])
paddle.numel(x); paddle.shape(x); paddle.zeros([2]); paddle.ones([2], 'int32'); paddle.full([2], 3)
paddle.full([2], 1.5); paddle.full_like(x, 2); paddle.arange(5); paddle.arange(1, 2, 0.25); paddle.linspace(0, 1, 5)
paddle.eye(3); paddle.zeros_like(i); paddle.ones_like(x); paddle.tril_indices(3, 3); paddle.to_tensor(3)
paddle.to_tensor(2.5); paddle.to_tensor([1, 2.5]); paddle.to_tensor(True); paddle.complex(x, y)
paddle.as_complex(q[..., :2] * 1); paddle.inverse(m); paddle.linalg.det(m); paddle.cholesky(m @ m.T)
paddle.linalg.matrix_power(m, 2); paddle.histogram(x, 4, 0, 1); paddle.bincount(i[0]); F.relu(x - 0.5)
F.relu6(x * 10); F.leaky_relu(x - 0.5); F.elu(x - 0.5); F.selu(x - 0.5); F.celu(x - 0.5); F.gelu(x); F.gelu(x, True)
F.silu(x); F.swish(x); F.mish(x); F.hardswish(x); F.hardsigmoid(x); F.hardtanh(x * 2); F.hardshrink(x)
F.softshrink(x); F.softplus(x); F.softsign(x); F.tanhshrink(x); F.log_sigmoid(x); F.thresholded_relu(x, 0.5)
F.softmax(x); F.softmax(x, 0); F.log_softmax(x); F.glu(q[..., :2]); F.maxout(img, 2)
F.prelu(x - 0.5, paddle.to_tensor([0.2])); F.linear(x, m, y[0]); F.one_hot(i[0], 5); F.normalize(x)
F.cosine_similarity(x, y); F.embedding(i[0] - 1, m); F.embedding(i[0] - 1, m, 1); F.dropout(x, 0.5, training=False)
F.dropout(x, 0.5, training=False, mode='downscale_in_infer'); F.layer_norm(x, 3, y[0], y[1]); F.instance_norm(img)
F.local_response_norm(img, 3); F.pad(img, [1, 2, 0, 1]); F.pad(img, [1, 1, 1, 1], 'reflect'); F.pad(x, [1, 0, 0, 2])
F.interpolate(img, scale_factor=2); F.interpolate(img, [3, 5], mode='bilinear')
F.interpolate(img, [6, 6], mode='bicubic', align_corners=True); F.conv2d(img, w)
F.conv2d(img, w, padding=1, stride=2); F.conv2d(img, w, padding='SAME'); F.conv2d(img, w[:, :1], groups=2)
F.conv2d(img, w[:2, :1], groups=2); F.conv1d(q, q[:1, :, :2]); F.conv2d_transpose(img, w[:2], stride=2)
F.conv2d_transpose(img, w[:2], stride=2, output_padding=1); F.unfold(img, 2); F.max_pool2d(img, 2)
F.max_pool2d(img, 2, return_mask=True); F.avg_pool2d(img, 3, 1, 1); F.avg_pool2d(img, 3, 1, 1, exclusive=False)
F.max_pool1d(q, 2, 1); F.avg_pool1d(q, 2, 1, 1); F.adaptive_avg_pool2d(img, 3); F.adaptive_max_pool2d(img, [1, 2])
F.adaptive_avg_pool1d(q, 2); F.pixel_shuffle(img4, 2); F.grid_sample(img, grid); F.affine_grid(theta, [1, 1, 2, 3])
F.batch_norm(img, y[0, :2].detach(), y[1, :2].detach()); F.scaled_dot_product_attention(att, att, att)
F.cross_entropy(x, lab); F.cross_entropy(x, lab.unsqueeze(1), reduction='none')
F.cross_entropy(x, lab, weight=y[0].detach()); F.cross_entropy(x, lab, ignore_index=1)
F.cross_entropy(x, F.softmax(y), soft_label=True); F.cross_entropy(x, lab, label_smoothing=0.1)
F.cross_entropy(x, lab, reduction='sum'); F.cross_entropy(q, i % 3, axis=1)
F.cross_entropy(F.softmax(x), lab, use_softmax=False); F.softmax_with_cross_entropy(x, lab.unsqueeze(1))
F.softmax_with_cross_entropy(x, lab.unsqueeze(1), return_softmax=True); F.mse_loss(x, y); F.l1_loss(x, y, 'sum')
F.smooth_l1_loss(x * 3, y); F.smooth_l1_loss(x * 3, y, 'none', 0.5); F.kl_div(F.log_softmax(x), F.softmax(y))
F.kl_div(x, y, 'batchmean'); F.kl_div(x, y, 'sum'); F.binary_cross_entropy(x, y / 2)
F.binary_cross_entropy(x, y / 2, y, 'none'); F.binary_cross_entropy_with_logits(x, y)
F.binary_cross_entropy_with_logits(x, y, None, 'sum', y[0]); F.nll_loss(F.log_softmax(x), lab)
F.nll_loss(F.log_softmax(x), lab, y[0].detach(), reduction='sum')
F.ctc_loss(att2, paddle.to_tensor([[1, 2]], dtype='int32'), paddle.to_tensor([4]), paddle.to_tensor([2]))
F.margin_ranking_loss(x, y, sgn, 0.1); F.hinge_embedding_loss(x, sgn); F.cosine_embedding_loss(x, y, sgn[:, 0], 0.2)
F.triplet_margin_loss(x, y, x * y); F.triplet_margin_loss(x, y, x * y, swap=True); F.soft_margin_loss(x, sgn)
F.multi_label_soft_margin_loss(x, (sgn + 1) / 2); F.multi_margin_loss(x, lab); F.gaussian_nll_loss(x, y, y + 1)
F.gaussian_nll_loss(x, y, y + 1, True); F.poisson_nll_loss(x, y); F.poisson_nll_loss(x, y * 3, False, True)
F.log_loss(x[:, :1], y[:, :1] / 2); F.square_error_cost(x, y); F.sigmoid_focal_loss(x, (sgn + 1) / 2)
F.label_smooth(x); F.dice_loss(F.softmax(x), lab.unsqueeze(1)); F.npair_loss(x, y, lab)
F.temporal_shift(img4, 1, 0.25); F.channel_shuffle(img4, 2); F.sequence_mask(i[0]); paddle.cummax(x, 1)
paddle.cummin(x, 0); paddle.einsum('ij,jk->ik', x, m); paddle.einsum('ij->j', x); F.pairwise_distance(x, y)
F.conv1d_transpose(q, m.unsqueeze(1)[:, :, :2], stride=2); F.max_pool3d(vol, 2, 1); F.avg_pool3d(vol, 2, 1, 1)
F.adaptive_avg_pool3d(vol, 1); F.adaptive_max_pool1d(q, 2); F.max_pool2d(img, 2, 1, 1, ceil_mode=True)
F.avg_pool2d(img, 2, divisor_override=3)
F.conv2d(img, w, paddle.to_tensor([1., 2., 3., 4.]), dilation=1, padding=[1, 0])
F.interpolate(img, [2, 2], mode='area'); F.interpolate(q, [5], mode='linear', data_format='NCW')
F.upsample(img, scale_factor=[2, 1.5], mode='bilinear', align_mode=1)
"""


def expressions() -> list[str]:
    """The expressions, one an entry."""
    return [each.strip() for line in EXPRESSIONS.strip().split("\n") for each in line.split(";")]


def inputs(paddle: Any) -> dict[str, Any]:
    """The tensors by name; floating ones need gradients."""

    def made(shape: tuple[int, ...], scale: float, offset: float) -> Any:
        count = int(np.prod(shape))
        data = (np.sin(np.arange(count) * 1.3 + offset) * 0.4 + 0.5) * scale
        tensor = paddle.to_tensor(data.reshape(shape).astype("float32"))
        tensor.stop_gradient = False
        return tensor

    def plain(data: Any, dtype: str) -> Any:
        return paddle.to_tensor(np.asarray(data, dtype))

    return {
        "x": made((2, 3), 1.0, 0.0),
        "y": made((2, 3), 1.5, 1.0),
        "m": made((3, 3), 2.0, 2.0),
        "q": made((2, 3, 3), 1.0, 3.0),
        "img": made((1, 2, 4, 4), 1.0, 0.5),
        "vol": made((1, 1, 2, 3, 3), 1.0, 0.9),
        "img4": made((1, 4, 2, 2), 1.0, 0.7),
        "w": made((4, 2, 3, 3), 0.5, 1.5),
        "grid": made((1, 2, 2, 2), 1.2, 0.1),
        "theta": made((1, 2, 3), 1.0, 0.2),
        "att": made((1, 3, 2, 4), 1.0, 0.3),
        "att2": made((4, 1, 3), 1.0, 0.4),
        "i": plain([[1, 2, 3], [4, 5, 6]], "int64"),
        "b": plain([[True, False, True], [True, True, False]], "bool"),
        "lab": plain([2, 0], "int64"),
        "sgn": plain([[1, -1, 1], [-1, -1, 1]], "float32"),
    }


def evaluate(paddle: Any, expression: str) -> dict[str, Any]:
    """The value of an expression and the gradients of a weighted sum of it, as plain data."""
    named = inputs(paddle)
    result = eval(expression, {"paddle": paddle, "F": paddle.nn.functional, **named})
    found = {"value": _plain(result)}
    total = _weighted(paddle, result)
    if total is not None and not total.stop_gradient:
        total.backward()
        found["grads"] = {
            name: _plain(tensor.grad) for name, tensor in named.items() if getattr(tensor, "grad", None) is not None
        }
    return found


def _weighted(paddle: Any, result: Any) -> Any:
    parts = result if isinstance(result, (list, tuple)) else [result]
    total = None
    for part in parts:
        if hasattr(part, "stop_gradient") and part.dtype in (paddle.float32, paddle.float64):
            flat = part.reshape([-1]).astype("float32")
            weights = paddle.to_tensor(np.cos(np.arange(max(flat.shape[0], 1)))[: flat.shape[0]].astype("float32"))
            term = (flat * weights).sum()
            total = term if total is None else total + term
    return total


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if hasattr(value, "numpy"):
        return {"dtype": str(value.dtype), **_plain(value.numpy())}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "c":
            value = np.stack([value.real, value.imag], -1)
        data = value.tolist() if value.dtype.kind in "iub" else _rounded(value)
        return {"shape": list(value.shape), "data": data}
    return value


def _rounded(value: Any) -> Any:
    return [float(f"{each:.7g}") for each in np.asarray(value, "float64").reshape(-1)]


def _attempt(paddle: Any, expression: str) -> dict[str, Any]:
    """``evaluate`` in a forked process; an error or crash of Paddle is noted."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            try:
                json.dump(evaluate(paddle, expression), pipe)
            except Exception as error:
                json.dump({"error": f"{type(error).__name__}: {str(error).strip()[-200:]}"}, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "crash"}  # type: ignore[no-any-return]


def main(folder: str) -> None:
    """Write ``functions.json``."""
    import paddle  # type: ignore[import-not-found]

    rows = [{"expression": each, **_attempt(paddle, each)} for each in expressions()]
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "functions.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    failed = [f"{row['expression']}: {row['error']}" for row in rows if "error" in row]
    print(f"{len(rows)} expressions, {len(failed)} failed", *failed, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
