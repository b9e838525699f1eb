"""Convolutions. Literal numbers are PaddlePaddle 2.6.2's; ``direct`` is the definition, tap by tap in float64."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest
from oarlock.executor.kernels import workspace
from oarlock.executor.kernels.conv_back import convolve_back, filter_gradient
from oarlock.executor.kernels.conv_fast import convolve
from oarlock.executor.kernels.conv_filter import PackedFilter
from oarlock.executor.kernels.window import Window
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(5)


def count(*shape: int) -> Any:
    """1, 2, 3, ... in this shape."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def conv(x: Any, w: Any, kind: str = "conv2d", **attrs: Any) -> Any:
    return lookup(kind)(x, w, **attrs)


def direct(x: Any, w: Any, window: Window, groups: int) -> Any:
    """The sum over taps and channels of a group, in float64."""
    x, w = x.astype(float), w.astype(float)
    out = window.output(x.shape[2:])
    n, c, o = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    total = np.zeros((n, w.shape[0], *out))
    for place in itertools.product(*map(range, out)):
        for tap in itertools.product(*map(range, window.kernel)):
            at = [
                p * s + k * d - before
                for p, s, k, d, (before, _) in zip(
                    place, window.strides, tap, window.dilations, window.pads, strict=True
                )
            ]
            if all(0 <= a < size for a, size in zip(at, x.shape[2:], strict=True)):
                seen = x[(slice(None), slice(None), *at)].reshape(n, groups, c)
                weight = w[(slice(None), slice(None), *tap)].reshape(groups, o, c)
                total[(slice(None), slice(None), *place)] += np.einsum("ngc,goc->ngo", seen, weight).reshape(n, -1)
    return total


class TestPaddings:
    @pytest.mark.parametrize(
        ("size", "kernel", "stride", "want"),
        [
            (5, 1, 2, [[1, 3, 5], [11, 13, 15], [21, 23, 25]]),
            (4, 1, 2, [[1, 3], [9, 11]]),
            (5, 2, 3, [[51, 81], [201, 231]]),
            (4, 2, 3, [[44, 28], [41, 16]]),
            (6, 2, 3, [[58, 88], [238, 268]]),
        ],
    )
    def test_same_with_a_stride_above_the_kernel_never_pads_negatively(self, size, kernel, stride, want) -> None:
        got = conv(
            count(1, 1, size, size),
            count(1, 1, kernel, kernel),
            strides=[stride, stride],
            padding_algorithm="SAME",
        )
        assert got[0, 0].tolist() == want

    def test_same_takes_dilations_for_one(self) -> None:
        got = conv(count(1, 1, 4, 4), count(1, 1, 2, 2), padding_algorithm="SAME", dilations=[2, 2])
        want = [[44, 54, 64, 28], [84, 94, 104, 44], [124, 134, 144, 60], [41, 44, 47, 16]]
        assert got[0, 0].tolist() == want

    def test_valid_ignores_paddings(self) -> None:
        got = conv(count(1, 1, 4, 4), count(1, 1, 2, 2), padding_algorithm="VALID", dilations=[2, 2], paddings=[1, 1])
        assert got[0, 0].tolist() == [[78, 88], [118, 128]]

    def test_four_paddings_are_top_bottom_left_right(self) -> None:
        got = conv(count(1, 1, 3, 3), count(1, 1, 2, 2), paddings=[1, 0, 0, 2])
        assert got[0, 0].tolist() == [[11, 18, 9, 0], [37, 47, 21, 0], [67, 77, 33, 0]]

    def test_an_unknown_algorithm_is_refused(self) -> None:
        with pytest.raises(ValueError, match="padding_algorithm must be EXPLICIT, SAME or VALID"):
            conv(count(1, 1, 3, 3), count(1, 1, 2, 2), padding_algorithm="FULL")

    def test_a_window_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"window \[5, 5\].*does not fit an input of size \[3, 3\]"):
            conv(count(1, 1, 3, 3), count(1, 1, 5, 5))


def test_depthwise_with_two_filters_a_channel() -> None:
    got = conv(count(1, 2, 3, 3), count(4, 1, 2, 2), "depthwise_conv2d", groups=2, strides=[2, 1], paddings=[1, 0])
    want = [[[11, 18], [67, 77]], [[23, 38], [163, 189]], [[242, 265], [637, 679]], [[326, 357], [877, 935]]]
    assert got[0].tolist() == want


def test_channels_last_reads_and_gives_channels_last() -> None:
    got = conv(count(1, 3, 3, 2), count(2, 1, 2, 2), groups=2, data_format="NHWC")
    assert got[0].tolist() == [[[64, 170], [84, 222]], [[124, 326], [144, 378]]]


def window_of(kernel: Any, strides: Any = 1, dilations: Any = 1, pads: Any = 0) -> Window:
    def wide(value: Any) -> tuple[int, ...]:
        return tuple(value) if isinstance(value, (list, tuple)) else (value,) * len(kernel)

    return Window(tuple(kernel), wide(strides), wide(dilations), tuple((p, p) for p in wide(pads)))


SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, Window]] = {
    "pointwise": ((2, 6, 5, 7), (8, 6, 1, 1), 1, window_of((1, 1))),
    "pointwise strided": ((2, 6, 5, 7), (8, 3, 1, 1), 2, window_of((1, 1), (2, 3))),
    "one pixel": ((3, 6, 1, 1), (8, 3, 1, 1), 2, window_of((1, 1))),
    "padded 1x1": ((2, 6, 4, 4), (8, 6, 1, 1), 1, window_of((1, 1), 1, 1, 2)),
    "rows": ((2, 8, 9, 7), (16, 8, 3, 3), 1, window_of((3, 3), 1, 1, 1)),
    "rows across 2": ((1, 8, 9, 9), (16, 8, 3, 3), 1, window_of((3, 3), (1, 2), (2, 1), (3, 1))),
    "1x3": ((1, 16, 1, 9), (20, 16, 1, 3), 1, window_of((1, 3), 1, 1, (0, 1))),
    "outputs": ((2, 24, 9, 7), (3, 24, 3, 3), 1, window_of((3, 3), 1, (1, 2), 1)),
    "columns": ((2, 3, 11, 9), (8, 3, 3, 3), 1, window_of((3, 3), 2, 1, 1)),
    "columns 5x5": ((1, 8, 11, 9), (8, 4, 5, 5), 2, window_of((5, 5), 2, 1, 2)),
    "band": ((2, 5, 21, 9), (5, 1, 3, 3), 5, window_of((3, 3), 1, 1, 1)),
    "band 5x5 strided": ((2, 5, 13, 20), (10, 1, 5, 5), 5, window_of((5, 5), (2, 1), 1, 2)),
    "band dilated": ((1, 4, 17, 17), (4, 1, 3, 3), 4, window_of((3, 3), (1, 2), 3, 3)),
    "many filters a channel": ((1, 3, 6, 6), (30, 1, 3, 3), 3, window_of((3, 3))),
    "grey": ((2, 1, 9, 9), (4, 1, 3, 3), 1, window_of((3, 3), 1, 1, 1)),
    "3-D": ((2, 4, 5, 6, 4), (6, 2, 3, 2, 3), 2, window_of((3, 2, 3), (1, 2, 1), 1, (1, 0, 1))),
}


@pytest.mark.parametrize("name", SHAPES)
class TestFormulations:
    """Whatever formulation a shape gets, forward and both gradients agree with the definition."""

    def test_forward(self, name: str) -> None:
        x_shape, w_shape, groups, window = SHAPES[name]
        x, w = draw(*x_shape), draw(*w_shape)
        want = direct(x, w, window, groups)
        got = convolve(x, PackedFilter(w, groups), window)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())

    def test_gradients_are_transposes(self, name: str) -> None:
        x_shape, w_shape, groups, window = SHAPES[name]
        x, w = draw(*x_shape, dtype=float), draw(*w_shape, dtype=float)
        filter = PackedFilter(w, groups)
        d_out = draw(*x_shape[:1], w_shape[0], *window.output(x_shape[2:]), dtype=float)
        d_x = convolve_back(d_out, filter, window, x_shape[2:])
        d_w = filter_gradient(x, d_out, groups, window)
        assert d_x.shape == x.shape and d_w.shape == w.shape
        total = (d_out * convolve(x, filter, window)).sum()
        np.testing.assert_allclose([(d_x * x).sum(), (d_w * w).sum()], [total, total], rtol=1e-10)
        other_x, other_w = draw(*x_shape, dtype=float), draw(*w_shape, dtype=float)
        np.testing.assert_allclose((d_x * other_x).sum(), (d_out * convolve(other_x, filter, window)).sum())
        np.testing.assert_allclose(
            (d_w * other_w).sum(), (d_out * convolve(x, PackedFilter(other_w, groups), window)).sum()
        )


def test_blocks_smaller_than_the_image_give_the_same(monkeypatch) -> None:
    from oarlock.executor.kernels import conv_back, conv_band, conv_blocks, conv_fast

    want = {
        name: convolve(np.ones(x, np.float32), PackedFilter(np.ones(w, np.float32), g), window)
        for name, (x, w, g, window) in SHAPES.items()
    }
    for module in (conv_blocks, conv_fast, conv_back):
        monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(conv_band, "_BLOCK_BYTES", 1 << 10)
    for name, (x, w, g, window) in SHAPES.items():
        got = convolve(np.ones(x, np.float32), PackedFilter(np.ones(w, np.float32), g), window)
        np.testing.assert_array_equal(got, want[name], name)
        back = convolve_back(want[name], PackedFilter(np.ones(w, np.float32), g), window, x[2:])
        assert back.shape == x


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_stays_inside_its_window(value) -> None:
    x = np.ones((1, 3, 20, 20), np.float32)
    x[0, 1, 8, 9] = value
    got = conv(x, np.ones((3, 1, 3, 3), np.float32), "depthwise_conv2d", groups=3, paddings=[1, 1])
    hit = np.zeros((3, 20, 20), bool)
    hit[1, 7:10, 8:11] = True
    assert np.isfinite(got[0][~hit]).all()
    np.testing.assert_array_equal(got[0][hit], np.full(9, value, np.float32))


class TestDtypes:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
    def test_the_result_has_the_dtype_of_the_input(self, dtype) -> None:
        got = conv(count(1, 2, 3, 3).astype(dtype), count(2, 2, 2, 2).astype(dtype))
        assert got.dtype == dtype
        assert got[0, 0, 0, 0] == 356

    def test_half_types_are_summed_in_float32(self) -> None:
        x, w = np.full((1, 4096, 1, 1), 1, np.float16), np.full((1, 4096, 1, 1), 0.25, np.float16)
        assert conv(x, w)[0, 0, 0, 0] == 1024

    @pytest.mark.parametrize(("x", "w"), [(np.int32, np.int32), (np.float32, np.float64), (bool, bool)])
    def test_others_are_refused(self, x, w) -> None:
        with pytest.raises(TypeError, match="must have one floating dtype"):
            conv(np.ones((1, 1, 3, 3), x), np.ones((1, 1, 2, 2), w))


@pytest.mark.parametrize(
    ("x", "w", "groups"),
    [
        ((1, 4, 3, 3), (4, 3, 2, 2), 1),
        ((1, 4, 3, 3), (3, 2, 2, 2), 2),
        ((1, 4, 3), (4, 4, 2), 1),
        ((1, 4, 3, 3), (4, 4, 2, 2), 0),
    ],
)
def test_what_does_not_fit_is_refused(x, w, groups) -> None:
    with pytest.raises(ValueError, match="Input"):
        conv(np.ones(x, np.float32), np.ones(w, np.float32), groups=groups)


def test_an_empty_batch_gives_an_empty_result() -> None:
    got = conv(np.ones((0, 2, 4, 4), np.float32), np.ones((3, 2, 3, 3), np.float32))
    assert got.shape == (0, 3, 2, 2) and got.dtype == np.float32


def test_views_and_read_only_arrays_are_taken() -> None:
    whole, w = draw(2, 6, 8, 8), draw(4, 6, 3, 3)
    view = whole[::-1, :, ::-1, 1:7]
    view.flags.writeable = False
    w.flags.writeable = False
    np.testing.assert_allclose(conv(view, w), conv(np.ascontiguousarray(view), w), rtol=1e-5, atol=1e-5)


class TestFused:
    X = np.array([-4, -1, -0.5, 0.5, 2, 7], np.float32).reshape(1, 1, 1, 6)

    @pytest.mark.parametrize(
        ("name", "alpha", "beta", "want"),
        [
            ("", 0, 0, [-4, -1, -0.5, 0.5, 2, 7]),
            ("relu", 0, 0, [0, 0, 0, 0.5, 2, 7]),
            ("relu6", 0, 6, [0, 0, 0, 0.5, 2, 6]),
            ("leaky_relu", 0.1, 0, [-0.4, -0.1, -0.05, 0.5, 2, 7]),
            ("swish", 2, 0, [-0.001341, -0.119203, -0.134471, 0.365529, 1.964028, 6.999994]),
            ("hard_swish", 1 / 6, 0.5, [0, -0.333333, -0.208333, 0.291667, 1.666667, 7]),
            ("hard_sigmoid", 0.2, 0.5, [0, 0.3, 0.4, 0.6, 0.9, 1]),
            ("sigmoid", 0, 0, [0.017986, 0.268941, 0.377541, 0.622459, 0.880797, 0.999089]),
            ("tanh", 0, 0, [-0.999329, -0.761594, -0.462117, 0.462117, 0.964028, 0.999998]),
            ("mish", 0, 0, [-0.072592, -0.303402, -0.220744, 0.375245, 1.943959, 6.999989]),
            ("gelu", 0, 0, [-0.000126, -0.158655, -0.154269, 0.345731, 1.9545, 7]),
            ("gelu_tanh", 0, 0, [-7e-5, -0.158808, -0.154286, 0.345714, 1.954598, 7]),
            ("clip", -1, 2, [-1, -1, -0.5, 0.5, 2, 2]),
            ("abs", 0, 0, [4, 1, 0.5, 0.5, 2, 7]),
        ],
    )
    def test_activations_mean_what_onednn_means(self, name, alpha, beta, want) -> None:
        attrs = {"fuse_activation": name, "fuse_alpha": float(alpha), "fuse_beta": float(beta)}
        got = lookup("fused_conv2d")(self.X, np.ones((1, 1, 1, 1), np.float32), **attrs)
        np.testing.assert_allclose(got.reshape(-1), want, atol=2e-6)

    def test_activations_saved_without_their_numbers_get_the_usual_ones(self) -> None:
        one = np.ones((1, 1, 1, 1), np.float32)
        swish = lookup("fused_conv2d")(self.X, one, fuse_activation="hard_swish")
        np.testing.assert_allclose(swish.reshape(-1)[[0, 3, 5]], [0, 0.291667, 7], atol=1e-6)
        six = lookup("fused_conv2d")(self.X, one, fuse_activation="relu6")
        assert six.reshape(-1).tolist() == [0, 0, 0, 0.5, 2, 6]

    def test_an_unknown_activation_is_refused(self) -> None:
        with pytest.raises(ValueError, match="activation 'elu' is not known"):
            lookup("fused_conv2d")(self.X, np.ones((1, 1, 1, 1), np.float32), fuse_activation="elu")

    @pytest.mark.parametrize("name", SHAPES)
    def test_bias_residual_and_activation_meet_every_block(self, name, run_op) -> None:
        x_shape, w_shape, groups, window = SHAPES[name]
        x, w, bias = draw(*x_shape), draw(*w_shape), draw(w_shape[0])
        plain = convolve(x, PackedFilter(w, groups), window)
        residual = draw(*plain.shape)
        attrs = {
            "strides": list(window.strides),
            "dilations": list(window.dilations),
            "paddings": [p for pair in window.pads for p in pair],
            "groups": groups,
            "fuse_activation": "relu",
            "fuse_residual_connection": True,
        }
        kind = "fused_conv3d" if len(window.kernel) == 3 else "fused_conv2d"
        inputs = {"Input": x, "Filter": w, "Bias": bias, "ResidualData": residual}
        want = np.maximum(plain + bias.reshape(-1, *(1,) * len(window.kernel)) + residual, 0)
        for constants in ((), ("Filter", "Bias")):
            got = run_op(kind, inputs, attrs, constants=constants)["Output"]
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    def test_older_programs_fuse_into_conv2d_itself(self) -> None:
        got = lookup("conv2d")(self.X, np.ones((1, 1, 1, 1), np.float32), np.array([1], np.float32), fuse_relu=True)
        assert got.reshape(-1).tolist() == [0, 0, 0.5, 1.5, 3, 8]

    def test_split_channels_gives_the_output_in_pieces(self) -> None:
        x, w = count(1, 1, 2, 2), count(3, 1, 1, 1)
        attrs = {"activation": "identity", "split_channels": [1, 2]}
        out, parts = lookup("fused_conv2d_add_act")(x, w, None, None, **attrs)
        assert [part.shape for part in parts] == [(1, 1, 2, 2), (1, 2, 2, 2)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), out)

    def test_relu_is_the_default_of_the_cudnn_form(self) -> None:
        out, parts = lookup("conv2d_fusion")(-count(1, 1, 2, 2), count(1, 1, 1, 1), None, None)
        assert out.max() == 0 and parts == []

    def test_a_bias_of_another_length_is_refused(self) -> None:
        with pytest.raises(ValueError, match="Bias has 2 values for 1 output channels"):
            lookup("fused_conv2d")(self.X, np.ones((1, 1, 1, 1), np.float32), np.ones(2, np.float32))


class TestPrepared:
    def test_a_constant_filter_is_packed_once(self, monkeypatch) -> None:
        made = []
        monkeypatch.setattr(PackedFilter, "__init__", _counting(PackedFilter.__init__, made))
        run = lookup("conv2d").preparer({"Filter": draw(4, 3, 3, 3)}, paddings=[1, 1])
        w = np.zeros((4, 3, 3, 3), np.float32)
        assert {run(draw(n, 3, s, s), w).shape for n, s in ((1, 8), (2, 5))} == {(1, 4, 8, 8), (2, 4, 5, 5)}
        assert len(made) == 1

    def test_a_filter_that_changes_is_not_prepared(self) -> None:
        assert lookup("conv2d").preparer({}, paddings=[1, 1]) is None

    def test_threads_share_a_prepared_filter(self) -> None:
        w = draw(8, 1, 3, 3)
        run = lookup("depthwise_conv2d").preparer({"Filter": w}, groups=8, paddings=[1, 1])
        inputs = [draw(1, 8, 12 + i, 9) for i in range(6)]
        want = [conv(x, w, "depthwise_conv2d", groups=8, paddings=[1, 1]) for x in inputs]
        got: dict[int, Any] = {}
        threads = [
            threading.Thread(target=lambda i=i: got.__setitem__(i, [run(inputs[i], w) for _ in range(20)]))
            for i in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, results in got.items():
            for result in results:
                np.testing.assert_array_equal(result, want[i])


def _counting(original: Any, made: list[int]) -> Any:
    def init(self: Any, *args: Any) -> None:
        made.append(1)
        original(self, *args)

    return init


GRADIENTS = [
    ("conv2d", (2, 4, 5, 6), (6, 2, 3, 3), {"groups": 2, "strides": [2, 1], "paddings": [1, 0, 2, 1]}),
    ("conv2d", (1, 3, 6, 6), (4, 3, 2, 2), {"padding_algorithm": "SAME", "strides": [3, 3]}),
    ("conv2d", (2, 5, 6, 3), (4, 3, 2, 2), {"data_format": "NHWC", "dilations": [2, 2]}),
    ("depthwise_conv2d", (2, 3, 9, 7), (3, 1, 3, 3), {"groups": 3, "strides": [2, 2], "paddings": [1, 1]}),
    ("depthwise_conv2d", (1, 3, 9, 7), (6, 1, 3, 3), {"groups": 3, "paddings": [1, 1]}),
    ("conv3d", (1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"strides": [1, 2, 1], "paddings": [1, 1, 0]}),
]


@pytest.mark.parametrize(("kind", "x", "w", "attrs"), GRADIENTS)
def test_gradient(kind, x, w, attrs, gradcheck) -> None:
    found = gradcheck(kind, {"Input": draw(*x), "Filter": draw(*w)}, attrs)
    assert found["Input"].shape == x and found["Filter"].shape == w


def test_a_gradient_that_nobody_reads_is_not_computed() -> None:
    x, w, d_out = draw(1, 2, 4, 4), draw(3, 2, 3, 3), draw(1, 3, 2, 2)
    d_x, d_w = lookup("conv2d_grad")(x, w, d_out, want=frozenset({"Filter@GRAD"}))
    assert d_x is None and d_w.shape == w.shape
    d_x, d_w = lookup("conv2d_grad")(x, w, d_out, want=frozenset({"Input@GRAD"}))
    assert d_x.shape == x.shape and d_w is None


def test_a_fused_activation_has_no_gradient() -> None:
    with pytest.raises(ValueError, match="has no gradient"):
        lookup("conv2d_grad")(draw(1, 1, 3, 3), draw(1, 1, 2, 2), draw(1, 1, 2, 2), fuse_activation="relu")


def test_scratch_memory_stays_bounded_over_many_sizes() -> None:
    held: list[int] = []

    def work() -> None:
        w = PackedFilter(np.ones((8, 8, 3, 3), np.float32), 1)
        for size in (16, 40, 96, 200, 320, 64, 16):
            convolve(np.ones((1, 8, size, size), np.float32), w, window_of((3, 3), 1, 1, 1))
        held.extend(buffer.size for buffer in workspace._buffers.slots.values())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert held and max(held) <= workspace.KEPT_BYTES
    assert sum(held) <= 4 * workspace.KEPT_BYTES


@pytest.mark.parametrize("name", SHAPES)
def test_threads_change_no_bit(name, monkeypatch) -> None:
    from oarlock.executor.kernels import conv_back, conv_blocks, conv_fast

    x_shape, w_shape, groups, window = SHAPES[name]
    x, filter = draw(*x_shape), PackedFilter(draw(*w_shape), groups)
    d_out = draw(x_shape[0], w_shape[0], *window.output(x_shape[2:]))
    monkeypatch.setattr(conv_blocks, "_SMALL", 0)
    for module in (conv_blocks, conv_fast, conv_back):
        monkeypatch.setattr(module, "shares", lambda macs: 3)
    first = filter_gradient(x, d_out, groups, window)
    np.testing.assert_array_equal(filter_gradient(x, d_out, groups, window), first)
    forward = convolve(x, filter, window)
    np.testing.assert_allclose(forward, direct(x, filter.weight.reshape(w_shape), window, groups), rtol=1e-4, atol=1e-4)
    assert convolve_back(d_out, filter, window, x_shape[2:]).shape == x_shape
