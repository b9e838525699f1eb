"""What a call of a loaded layer is told when its inputs do not fit: what is declared, what came, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock.errors import InputError, KernelError

F32 = np.float32


@pytest.fixture
def layer(sample: Any) -> Any:
    """Takes ``x`` and ``y``, both float32 [-1, 4]."""
    return oarlock.jit.load(sample("two_in_two_out").path)


@pytest.fixture
def fixed(one_op_program: Any, tmp_path: Path) -> Any:
    """``out = relu(x)`` with ``x`` float32 [-1, 3, 8]."""
    variables = {"x": ("float32", [-1, 3, 8]), "out": ("float32", [-1, 3, 8])}
    (tmp_path / "net.pdmodel").write_bytes(one_op_program("relu", {"X": ["x"]}, {"Out": ["out"]}, variables))
    return oarlock.jit.load(tmp_path / "net")


def x(*shape: int, dtype: Any = F32) -> Any:
    return np.ones(shape or (2, 4), dtype)


TAKES = r"2 input\(s\): 'x' float32\[-1, 4\], 'y' float32\[-1, 4\]"


def test_another_dtype(layer: Any) -> None:
    expected = r"^input 'y' of forward\(\) is float32, got float64; cast it with .astype\('float32'\)$"
    with pytest.raises(InputError, match=expected):
        layer(x(), x(dtype=np.float64))


def test_integers_for_floats_are_not_cast_silently(layer: Any) -> None:
    with pytest.raises(InputError, match=r"is float32, got int64"):
        layer(x(dtype=np.int64), x())


def test_another_rank(layer: Any) -> None:
    expected = r"^input 'x' of forward\(\) has shape \[-1, 4\] \(-1 is any size\), got \[4\]; a batch dimension may be "
    with pytest.raises(InputError, match=expected + r"missing: add it with x\[None\]$"):
        layer(x(4), x())


def test_another_size_where_the_file_fixes_it(fixed: Any) -> None:
    expected = r"has shape \[-1, 3, 8\] \(-1 is any size\), got \[5, 3, 7\]; the file fixes these sizes"
    with pytest.raises(InputError, match=expected):
        fixed(x(5, 3, 7))


@pytest.mark.parametrize("batch", [0, 1, 5])
def test_any_size_where_the_file_leaves_it_open(batch: int, fixed: Any) -> None:
    assert fixed(x(batch, 3, 8)).shape == [batch, 3, 8]


def test_a_missing_input(layer: Any) -> None:
    with pytest.raises(InputError, match=rf"^forward\(\) misses input\(s\) y; it takes {TAKES}$"):
        layer(x())


def test_no_input_at_all(layer: Any) -> None:
    with pytest.raises(InputError, match=rf"^forward\(\) misses input\(s\) x, y; it takes {TAKES}$"):
        layer()


def test_too_many_inputs(layer: Any) -> None:
    with pytest.raises(InputError, match=rf"^forward\(\) takes {TAKES}, 3 were given$"):
        layer(x(), x(), x())


def test_an_unknown_name(layer: Any) -> None:
    with pytest.raises(InputError, match=rf"^forward\(\) has no input 'z'; it takes {TAKES}$"):
        layer(x(), z=x())


def test_an_input_twice(layer: Any) -> None:
    with pytest.raises(InputError, match=r"got input 'x' twice, by position and by name"):
        layer(x(), x=x())


@pytest.mark.parametrize("value", [[[1.0, 2.0, 3.0, 4.0]], 1.0, None, "x"])
def test_what_is_no_array(value: Any, layer: Any) -> None:
    expected = r"input 'x' of forward\(\) must be a numpy array or a Tensor, got \w+; wrap it with numpy.asarray"
    with pytest.raises(TypeError, match=expected):
        layer(value, x())


def test_another_method_is_named_in_the_message(sample: Any) -> None:
    layer = oarlock.jit.load(sample("extra_method_infer").path)
    with pytest.raises(InputError, match=r"input 'x' of infer\(\) is float32, got int32"):
        layer.infer(np.ones((1, 4), np.int32))


def test_an_input_with_a_name_that_is_no_identifier(sample: Any) -> None:
    layer = oarlock.jit.load(sample("unicode_names").path)
    value = sample("unicode_names").inputs()["图像"]
    np.testing.assert_array_equal(layer(图像=value).numpy(), layer(value).numpy())
    with pytest.raises(InputError, match="misses input"):
        layer()


def test_read_only_and_strided_arrays_are_inputs_too(layer: Any) -> None:
    wide = np.arange(16, dtype=F32).reshape(2, 8)
    frozen = np.ascontiguousarray(wide[:, ::2])
    frozen.flags.writeable = False
    strided = layer(wide[:, ::2], x())
    plain = layer(frozen, x())
    for mine, other in zip(strided, plain, strict=True):  # the BLAS may add up in another order
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-6)


def test_an_operator_that_refuses_names_its_place_and_its_inputs(one_op_program: Any, tmp_path: Path) -> None:
    variables = {"x": ("float32", [-1, -1]), "y": ("float32", [-1, -1]), "out": ("float32", [-1, -1])}
    program = one_op_program("elementwise_add", {"X": ["x"], "Y": ["y"]}, {"Out": ["out"]}, variables)
    (tmp_path / "net.pdmodel").write_bytes(program)
    layer = oarlock.jit.load(tmp_path / "net")
    with pytest.raises(
        KernelError, match=r"^block 0 op 0 \(elementwise_add\): .*'x' float32\[2, 3\].*'y' float32\[2, 4\]"
    ):
        layer(x(2, 3), x(2, 4))


def test_a_failed_call_leaves_the_layer_usable(layer: Any) -> None:
    before = [each.numpy() for each in layer(x(), x())]
    with pytest.raises(InputError):
        layer(x(3), x())
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, layer(x(), x()), strict=True))
