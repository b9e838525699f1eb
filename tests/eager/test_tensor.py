"""Tensors: making them, looking at them, arithmetic, element types, indexing, printing, copying."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import oarlock as paddle
import pytest
from oarlock.eager import dtypes


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int64", []),
        (2.5, "float32", []),
        (True, "bool", []),
        (1 + 2j, "complex64", []),
        ([1, 2.5], "float32", [2]),
        ([[1, 2], [3, 4]], "int64", [2, 2]),
        (np.array([1.0]), "float64", [1]),
        (np.float64(3), "float64", []),
        (np.array([1], "int32"), "int32", [1]),
    ],
    ids=str,
)
def test_to_tensor_chooses_paddles_types(data: Any, dtype: str, shape: list[int]) -> None:
    made = paddle.to_tensor(data)
    assert (str(made.dtype), made.shape, made.stop_gradient) == (f"paddle.{dtype}", shape, True)


def test_to_tensor_copies_and_refuses_text() -> None:
    data = np.ones(2)
    made = paddle.to_tensor(data)
    data[0] = 5
    assert made.tolist() == [1.0, 1.0]
    assert paddle.to_tensor([made, made]).shape == [2, 2]
    with pytest.raises(TypeError, match=r"Can't constructs a 'paddle\.Tensor' with data type <class 'str'>"):
        paddle.to_tensor("a")
    with pytest.raises(ValueError, match="inhomogeneous"):
        paddle.to_tensor([[1, 2], [3]])


def test_the_default_float_type_can_be_changed() -> None:
    paddle.set_default_dtype("float64")
    try:
        assert paddle.to_tensor([1.5]).dtype == paddle.float64
        assert paddle.get_default_dtype() == "float64"
        assert paddle.nn.Linear(1, 1).weight.dtype == paddle.float64
    finally:
        paddle.set_default_dtype("float32")


def test_element_types_are_objects_and_not_their_names() -> None:
    dtype = paddle.ones([1]).dtype
    assert dtype is paddle.float32
    assert dtype != "float32"
    assert str(dtype) == "paddle.float32"
    assert np.dtype(dtype) == np.float32
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert dtypes.numpy_dtype("paddle.int64") == np.int64
    with pytest.raises(ValueError, match="'foo' names no element type"):
        paddle.ones([1]).astype("foo")


def test_bfloat16_works_like_the_others() -> None:
    x = paddle.to_tensor([1.5, 2.0]).astype("bfloat16")
    assert str((x + x).dtype) == "paddle.bfloat16"
    assert (x * 2).astype("float32").tolist() == [3.0, 4.0]
    assert repr(x).startswith("Tensor(shape=[2], dtype=bfloat16")


def test_what_a_tensor_says_of_itself() -> None:
    x = paddle.to_tensor(np.zeros((2, 3), "float32"))
    assert (x.shape, x.ndim, x.dim(), x.size, len(x)) == ([2, 3], 2, 2, 6, 2)
    assert (int(x.numel()), int(x.rank()), x.element_size(), x.strides) == (6, 2, 4, [3, 1])
    assert (str(x.place), x.is_leaf, x.persistable, x.grad) == ("Place(cpu)", True, False, None)
    assert x.name.startswith("generated_tensor_")
    assert (x + 1).name.startswith("eager_tmp_")


def test_values_come_out_as_copies() -> None:
    x = paddle.to_tensor([1.0, 2.0])
    x.numpy()[0] = 9
    np.asarray(x)[0] = 9
    assert x.tolist() == [1.0, 2.0]
    assert np.asarray(x, dtype="float64").dtype == np.float64


def test_items() -> None:
    x = paddle.to_tensor([[1, 2], [3, 4]])
    assert (x.item(1, 0), x.item(3), paddle.to_tensor([[2.5]]).item()) == (3, 4, 2.5)
    assert (float(paddle.to_tensor(2.5)), int(paddle.to_tensor([7])), bool(paddle.to_tensor(0))) == (2.5, 7, False)
    with pytest.raises(ValueError, match=r"\(InvalidArgument\) only one element tensors can be converted"):
        x.item()
    with pytest.raises(AssertionError, match="condition of if/while"):
        bool(x)
    assert [1, 2, 3][paddle.to_tensor(1)] == 2
    with pytest.raises(TypeError):
        [1, 2, 3][paddle.to_tensor(1.0)]


def test_iteration_and_zero_dimensions() -> None:
    assert [each.tolist() for each in paddle.to_tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    scalar = paddle.to_tensor(1.0)
    assert (scalar.shape, scalar.numpy().shape) == ([], ())
    for attempt in (len, list):
        with pytest.raises(AssertionError, match="0-D tensor"):
            attempt(scalar)


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("i + 1", "int64"),
        ("i + 1.5", "float32"),
        ("i / 2", "float32"),
        ("i // 2", "int64"),
        ("i ** 2", "int64"),
        ("2 ** i", "int64"),
        ("i + f", "int64"),
        ("f + i", "float32"),
        ("f + d", "float64"),
        ("d + f", "float64"),
        ("h * 2", "float16"),
        ("h + b", "float32"),
        ("b + d", "float64"),
        ("i / d", "float32"),
        ("f * c", "complex64"),
        ("d * c", "complex128"),
        ("f * 1j", "complex64"),
        ("t * 2", "bool"),
        ("i == f", "bool"),
        ("i < 1.5", "bool"),
        ("-i", "int64"),
        ("~t", "bool"),
        ("f + np.ones(1)", "float64"),
        ("f + np.float64(1)", "float32"),
        ("np.ones(1) + f", "float64"),
        ("f % 2", "float32"),
        ("f ** d", "float32"),
    ],
)
def test_operators_find_paddles_types(expression: str, dtype: str) -> None:
    names = {
        "i": "int64",
        "f": "float32",
        "d": "float64",
        "h": "float16",
        "b": "bfloat16",
        "c": "complex64",
        "t": "bool",
    }
    scope = {name: paddle.ones([1]).astype(kind) for name, kind in names.items()}
    assert str(eval(expression, {"np": np, **scope}).dtype) == f"paddle.{dtype}"


def test_functions_are_stricter_than_operators() -> None:
    i, f = paddle.to_tensor([1]), paddle.to_tensor([1.0])
    with pytest.raises(ValueError, match="the element types differ, X is int64 and Y is float32"):
        paddle.add(i, f)
    with pytest.raises(ValueError, match="the element types differ"):
        paddle.maximum(f, f.astype("float64"))
    assert paddle.add(f, f.astype("float64")).dtype == paddle.float64


def test_indices_mean_what_they_mean_to_numpy() -> None:
    data = np.arange(24).reshape(2, 3, 4)
    t = paddle.to_tensor(data)
    picks: list[Any] = [
        0,
        -1,
        (0, 1, 2),
        (slice(None), 1),
        (..., -1),
        (None, 1),
        slice(0, 10),
        (slice(None), slice(None, None, -1)),
        ([1, 0],),
        (slice(None), [0, 2], 1),
        (0, [0, 2], [1, 1]),
        data > 12,
        (slice(None), np.array([True, False, True])),
        True,
    ]
    for pick in picks:
        np.testing.assert_array_equal(t[pick].numpy(), data[pick], err_msg=str(pick))
    one = paddle.to_tensor(1)
    np.testing.assert_array_equal(t[:, one].numpy(), data[:, 1])
    np.testing.assert_array_equal(t[paddle.to_tensor([1, 0])].numpy(), data[[1, 0]])
    np.testing.assert_array_equal(t[one : one + 1].numpy(), data[1:2])


@pytest.mark.parametrize(
    ("pick", "error"), [(5, IndexError), ((0, 0, 0, 0), IndexError), ("a", ValueError), (1.5, ValueError)]
)
def test_bad_indices_are_named(pick: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        paddle.ones([2, 3])[pick]


def test_assignment_converts_and_broadcasts() -> None:
    t = paddle.zeros([2, 3])
    t[0] = 1
    t[1, 1:] = paddle.to_tensor([5.0, 6.0])
    t[t > 5] = -1
    t[:, 0] = np.array([7, 8])
    assert t.tolist() == [[7.0, 1.0, 1.0], [8.0, 5.0, -1.0]]
    with pytest.raises(ValueError, match=r"a value of shape \[5\] does not fit into the selected \[3\]"):
        t[0] = paddle.ones([5])
    with pytest.raises(ValueError, match="complex64 value does not fit into a float32 tensor"):
        t[0] = paddle.ones([3]).astype("complex64")


def test_set_value_demands_shape_and_dtype() -> None:
    x = paddle.ones([3])
    x.name = "x"
    with pytest.raises(
        AssertionError, match=r"Variable \[ x \] need tensor with shape \[3\] but load set tensor with shape \[4\]"
    ):
        x.set_value(np.ones(4, "float32"))
    with pytest.raises(
        AssertionError, match=r"need tensor with dtype paddle.float32  but load tensor with dtype paddle.int32"
    ):
        x.set_value(np.ones(3, "int32"))


def test_parameters_keep_trainable_and_stop_gradient_together() -> None:
    p = paddle.Parameter(np.ones(2, "float32"), name="p")
    assert (p.trainable, p.stop_gradient, p.persistable, p.name) == (True, False, True, "p")
    p.stop_gradient = True
    assert not p.trainable
    p.trainable = True
    assert not p.stop_gradient
    assert p.optimize_attr == {"learning_rate": 1.0}
    assert repr(p).startswith(
        "Parameter containing:\nTensor(shape=[2], dtype=float32, place=Place(cpu), stop_gradient=False"
    )


def test_copies_are_apart() -> None:
    p = paddle.Parameter(np.ones(2, "float32"), learning_rate=0.5)
    again = copy.deepcopy(p)
    with paddle.no_grad():
        again.zero_()
    assert p.tolist() == [1.0, 1.0]
    assert (type(again), again.trainable, again.optimize_attr) == (paddle.Parameter, True, {"learning_rate": 0.5})
    loaded = pickle.loads(pickle.dumps(p))
    assert (type(loaded), loaded.tolist(), loaded.name, loaded.trainable) == (
        paddle.Parameter,
        [1.0, 1.0],
        p.name,
        True,
    )
    with pytest.raises(RuntimeError, match="only leaf tensors can be deep-copied"):
        copy.deepcopy(p * 2)


def test_devices_other_than_the_cpu_are_refused() -> None:
    x = paddle.ones([1])
    assert str(x.cpu().place) == "Place(cpu)"
    assert x.to("cpu", "float64").dtype == paddle.float64
    for attempt in (x.cuda, lambda: x.to("gpu:0"), lambda: paddle.set_device("gpu:0")):
        with pytest.raises(ValueError, match="CPU"):
            attempt()


def test_ragged_batches_carry_their_lengths() -> None:
    x = paddle.create_lod_tensor(np.arange(10).reshape(5, 2), [[2, 3]])
    assert x.lod() == [[0, 2, 5]]
    assert x.recursive_sequence_lengths() == [[2, 3]]
    with pytest.raises(ValueError, match="adds up to 4, but there are 5"):
        paddle.create_lod_tensor(np.zeros((5, 2)), [[2, 2]])


PRINTED = [
    (
        "[[1., 2.], [3.5, 4.]]",
        """
        Tensor(shape=[2, 2], dtype=float32, place=Place(cpu), stop_gradient=True,
               [[1.        , 2.        ],
                [3.50000000, 4.        ]])""",
    ),
    (
        "np.arange(6, dtype='float32').reshape(2, 3) * -1.5",
        """
        Tensor(shape=[2, 3], dtype=float32, place=Place(cpu), stop_gradient=True,
               [[ -0.       , -1.50000000, -3.        ],
                [-4.50000000, -6.        , -7.50000000]])""",
    ),
    (
        "np.zeros((2, 1, 2), 'int64')",
        """
        Tensor(shape=[2, 1, 2], dtype=int64, place=Place(cpu), stop_gradient=True,
               [[[0, 0]],

                [[0, 0]]])""",
    ),
    (
        "np.arange(2000)",
        """
        Tensor(shape=[2000], dtype=int64, place=Place(cpu), stop_gradient=True,
               [0   , 1   , 2   , ..., 1997, 1998, 1999])""",
    ),
    (
        "np.array([np.nan, np.inf, -np.inf, 1.], 'float32')",
        """
        Tensor(shape=[4], dtype=float32, place=Place(cpu), stop_gradient=True,
               [ nan ,  inf., -inf.,  1.  ])""",
    ),
    (
        "[True, False]",
        """
        Tensor(shape=[2], dtype=bool, place=Place(cpu), stop_gradient=True,
               [True , False])""",
    ),
    ("2.5", "Tensor(shape=[], dtype=float32, place=Place(cpu), stop_gradient=True,\n       2.50000000)"),
]


@pytest.mark.parametrize(("expression", "text"), PRINTED, ids=[each[0] for each in PRINTED])
def test_tensors_print_as_paddles(expression: str, text: str) -> None:
    assert repr(paddle.to_tensor(eval(expression))) == textwrap.dedent(text).strip()


def test_the_stub_lists_the_methods_as_they_are() -> None:
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location("stub_tensor", root / "tools" / "stub_tensor.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (root / "eager" / "tensor_methods.pyi").read_text() == module.text()


def test_importing_eager_imports_no_operator_family() -> None:
    code = (
        "import sys, oarlock.eager.api\n"
        "print([name for name in sys.modules if name.startswith('oarlock.executor.kernels.')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(eval(out)) <= {"oarlock.executor.kernels.common", "oarlock.executor.kernels.index"}
