"""Complex numbers, Fourier transforms in every mode, framing of signals; gradients by finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(2)
REAL = RNG.standard_normal((2, 5, 6))
COMPLEX = REAL + 1j * RNG.standard_normal((2, 5, 6))
NORMS = ("backward", "forward", "ortho")
AXES = ([0], [1, 2], [2, 0], [-1], [0, 1, 2])


def run(type: str, *arrays: Any, **attrs: Any) -> Any:
    return lookup(type).kernel(*arrays, **attrs)


class TestComplexNumbers:
    def test_parts(self, gradcheck: Any) -> None:
        np.testing.assert_array_equal(run("real", COMPLEX), COMPLEX.real)
        np.testing.assert_array_equal(run("imag", COMPLEX), COMPLEX.imag)
        for type in ("real", "imag"):
            gradcheck(type, {"X": COMPLEX})
            assert run(type, COMPLEX.astype(np.complex64)).dtype == np.float32
            with pytest.raises(TypeError, match=f"slot X: {type} takes complex tensors, got float64"):
                run(type, REAL)

    def test_conj(self, gradcheck: Any) -> None:
        np.testing.assert_array_equal(run("conj", COMPLEX), COMPLEX.conj())
        assert run("conj", REAL) is REAL
        gradcheck("conj", {"X": COMPLEX})

    def test_angle(self, gradcheck: Any, run_op: Any) -> None:
        np.testing.assert_allclose(run("angle", COMPLEX), np.angle(COMPLEX))
        gradcheck("angle", {"X": COMPLEX})
        x = np.array([-2.0, 0.0, 3.0], np.float32)
        made = run_op("angle", {"X": x}, cotangents={"Out": np.ones(3, np.float32)})
        assert made["Out"].dtype == np.float32
        np.testing.assert_allclose(made["Out"], [np.pi, 0, 0], rtol=1e-6)
        assert made.gradients["X"].tolist() == [0, 0, 0]
        with pytest.raises(TypeError, match="slot X: angle takes"):
            run("angle", np.arange(3))

    def test_complex_broadcasts_its_parts(self, gradcheck: Any) -> None:
        np.testing.assert_array_equal(run("complex", REAL, REAL[0, 0]), REAL + 1j * REAL[0, 0])
        gradcheck("complex", {"X": REAL, "Y": REAL[0, :, :1]})
        assert run("complex", np.float32(1), np.float32(2)).dtype == np.complex64
        with pytest.raises(TypeError, match="slot Y"):
            run("complex", REAL, REAL.astype(np.float32))

    def test_pairs_and_numbers(self, gradcheck: Any) -> None:
        pairs = np.stack([COMPLEX.real, COMPLEX.imag], -1)
        np.testing.assert_array_equal(run("as_complex", pairs), COMPLEX)
        turned = run("as_complex", np.moveaxis(pairs[..., ::-1], 0, 1))
        np.testing.assert_array_equal(turned, np.swapaxes(COMPLEX.imag + 1j * COMPLEX.real, 0, 1))
        np.testing.assert_array_equal(run("as_real", COMPLEX), pairs)
        gradcheck("as_complex", {"X": pairs})
        gradcheck("as_real", {"X": COMPLEX})
        with pytest.raises(ValueError, match="slot X: the last dimension must be 2"):
            run("as_complex", REAL)


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("axes", AXES, ids=str)
class TestTransforms:
    def test_complex_to_complex(self, axes: list[int], norm: str, forward: bool, gradcheck: Any) -> None:
        attrs = {"axes": axes, "normalization": norm, "forward": forward}
        function = np.fft.fftn if forward else np.fft.ifftn
        np.testing.assert_allclose(
            run("fft_c2c", COMPLEX, **attrs), function(COMPLEX, axes=axes, norm=norm), atol=1e-13
        )
        gradcheck("fft_c2c", {"X": COMPLEX}, attrs, directions=1)

    def test_real_to_complex(self, axes: list[int], norm: str, forward: bool, gradcheck: Any) -> None:
        attrs = {"axes": axes, "normalization": norm, "forward": forward}
        whole = (np.fft.fftn if forward else np.fft.ifftn)(REAL, axes=axes, norm=norm)
        np.testing.assert_allclose(run("fft_r2c", REAL, onesided=False, **attrs), whole, atol=1e-13)
        half = np.take(whole, np.arange(REAL.shape[axes[-1]] // 2 + 1), axes[-1])
        np.testing.assert_allclose(run("fft_r2c", REAL, onesided=True, **attrs), half, atol=1e-13)
        for onesided in (True, False):
            gradcheck("fft_r2c", {"X": REAL}, {**attrs, "onesided": onesided}, directions=1)

    @pytest.mark.parametrize("size", [0, 7, 8])
    def test_complex_to_real(self, axes: list[int], norm: str, forward: bool, size: int, gradcheck: Any) -> None:
        attrs = {"axes": axes, "normalization": norm, "forward": forward, "last_dim_size": size}
        shape = list(REAL.shape)
        shape[axes[-1]] = size or 6
        signal = RNG.standard_normal(shape)
        # the half spectrum of a real signal by the transform of the other sign gives the signal back
        half = run("fft_r2c", signal, axes=axes, normalization=norm, forward=not forward, onesided=True)
        np.testing.assert_allclose(run("fft_c2r", half, **attrs), signal, atol=1e-13)
        gradcheck("fft_c2r", {"X": half + 0.1j}, attrs, directions=1)


class TestTransformRules:
    def test_single_precision_stays(self) -> None:
        attrs = {"axes": [1], "normalization": "backward", "forward": True}
        single = COMPLEX.astype(np.complex64)
        assert run("fft_c2c", single, **attrs).dtype == np.complex64
        assert run("fft_r2c", REAL.astype(np.float32), onesided=True, **attrs).dtype == np.complex64
        assert run("fft_c2r", single, **attrs).dtype == np.float32

    def test_other_dtypes_norms_and_axes_are_refused(self) -> None:
        attrs = {"axes": [1], "normalization": "backward", "forward": True}
        with pytest.raises(TypeError, match="slot X: fft_c2c takes complex tensors"):
            run("fft_c2c", REAL, **attrs)
        with pytest.raises(TypeError, match="slot X: fft_r2c takes floating tensors"):
            run("fft_r2c", COMPLEX, onesided=True, **attrs)
        with pytest.raises(ValueError, match="attribute normalization='unit'"):
            run("fft_c2c", COMPLEX, **{**attrs, "normalization": "unit"})
        with pytest.raises(ValueError, match="axis 3 is outside"):
            run("fft_c2c", COMPLEX, **{**attrs, "axes": [3]})


def frames_of(x: Any, length: int, hop: int) -> Any:
    starts = range(0, len(x) - length + 1, hop)
    return np.stack([x[start : start + length] for start in starts], axis=-1)


SIGNAL = RNG.standard_normal((2, 30))


class TestFraming:
    @pytest.mark.parametrize(("length", "hop"), [(7, 3), (8, 8), (5, 9), (30, 1)])
    def test_frame(self, length: int, hop: int, gradcheck: Any) -> None:
        attrs = {"frame_length": length, "hop_length": hop}
        expected = np.stack([frames_of(row, length, hop) for row in SIGNAL])
        np.testing.assert_array_equal(run("frame", SIGNAL, **attrs), expected)
        np.testing.assert_array_equal(run("frame", SIGNAL[0], **attrs), expected[0])
        np.testing.assert_array_equal(run("frame", SIGNAL.T, axis=0, **attrs), expected.transpose(2, 1, 0))
        gradcheck("frame", {"X": SIGNAL}, {**attrs, "axis": -1})
        gradcheck("frame", {"X": SIGNAL.T.copy()}, {**attrs, "axis": 0})

    @pytest.mark.parametrize("hop", [1, 3, 7])
    def test_overlap_add(self, hop: int, gradcheck: Any) -> None:
        frames = RNG.standard_normal((2, 7, 4))
        expected = np.zeros((2, 3 * hop + 7))
        for index in range(4):
            expected[:, index * hop : index * hop + 7] += frames[:, :, index]
        np.testing.assert_allclose(run("overlap_add", frames, hop_length=hop), expected)
        turned = frames.transpose(2, 1, 0)
        np.testing.assert_allclose(run("overlap_add", turned, hop_length=hop, axis=0), expected.T)
        gradcheck("overlap_add", {"X": frames}, {"hop_length": hop, "axis": -1})
        gradcheck("overlap_add", {"X": turned}, {"hop_length": hop, "axis": 0})

    def test_integers_and_complex_numbers(self) -> None:
        assert run("frame", np.arange(6), frame_length=2, hop_length=2).tolist() == [[0, 2, 4], [1, 3, 5]]
        assert run("overlap_add", np.ones((2, 3), np.int64), hop_length=1).tolist() == [1, 2, 2, 1]
        assert run("frame", SIGNAL + 1j, frame_length=4, hop_length=2).dtype == np.complex128

    @pytest.mark.parametrize(
        ("attrs", "message"),
        [
            ({"frame_length": 31, "hop_length": 1}, "attribute frame_length=31 is longer"),
            ({"frame_length": 3, "hop_length": 0}, "positive numbers"),
            ({"frame_length": 3, "hop_length": 1, "axis": 1}, "attribute axis=1"),
        ],
    )
    def test_frames_that_do_not_fit_are_refused(self, attrs: dict[str, int], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            run("frame", SIGNAL, **attrs)

    def test_a_hop_beyond_the_frame_is_refused(self) -> None:
        with pytest.raises(ValueError, match="attribute hop_length=9: 1 to the frame length 7"):
            run("overlap_add", np.ones((7, 4)), hop_length=9)
        with pytest.raises(ValueError, match="slot X: at least 2 dimensions"):
            run("overlap_add", np.ones(7), hop_length=1)


class TestStft:
    @pytest.mark.parametrize("size", [7, 8])
    @pytest.mark.parametrize("normalized", [True, False])
    @pytest.mark.parametrize("onesided", [True, False])
    def test_spectra_of_windowed_frames(self, size: int, normalized: bool, onesided: bool, gradcheck: Any) -> None:
        window = np.hanning(size + 2)[1:-1]
        attrs = {"n_fft": size, "hop_length": 3, "normalized": normalized, "onesided": onesided}
        framed = np.stack([frames_of(row, size, 3) for row in SIGNAL]) * window[:, None]
        expected = (np.fft.rfft if onesided else np.fft.fft)(framed, axis=1, norm="ortho" if normalized else "backward")
        np.testing.assert_allclose(run("stft", SIGNAL, window, **attrs), expected, atol=1e-13)
        gradcheck("stft", {"X": SIGNAL, "Window": window}, attrs, wrt=["X"])

    def test_a_window_or_signal_of_another_shape_is_refused(self) -> None:
        attrs = {"n_fft": 8, "hop_length": 3, "normalized": False, "onesided": True}
        with pytest.raises(ValueError, match=r"slot Window: shape \[8\]"):
            run("stft", SIGNAL, np.ones(7), **attrs)
        with pytest.raises(ValueError, match="slot X: 2 dimensions"):
            run("stft", SIGNAL[0], np.ones(8), **attrs)
