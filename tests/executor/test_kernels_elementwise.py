"""Arithmetic on two tensors: broadcasting by axis, integer rules, dtypes, memory, gradients of both orders."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from oarlock.executor.kernels.elementwise import aligned_shapes
from oarlock.executor.values import SelectedRows
from oarlock.ir.desc import BlockDesc, OpDesc, ProgramDesc
from oarlock.ir.dtypes import bfloat16
from oarlock.ir.registry import OpContext, lookup

RNG = np.random.default_rng(11)
A = RNG.uniform(0.5, 2.0, (2, 3, 4))
B = RNG.uniform(0.5, 2.0, (2, 3, 4))


def run(name: str, x: Any, y: Any, **attrs: Any) -> Any:
    return lookup(f"elementwise_{name}").kernel(np.asarray(x), np.asarray(y), **attrs)


FUNCTIONS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "mod": np.mod,
    "floordiv": np.floor_divide,
}
DIFFERENTIABLE = ("add", "sub", "mul", "div", "pow", "max", "min", "fmax", "fmin")

SHAPES = [
    ((2, 3, 4), (2, 3, 4), -1, (2, 3, 4)),
    ((2, 3, 4), (4,), -1, (1, 1, 4)),
    ((2, 3, 4), (3,), 1, (1, 3, 1)),
    ((2, 3, 4), (2, 3), 0, (2, 3, 1)),
    ((2, 3, 4), (3, 1), 1, (1, 3, 1)),
    ((2, 3, 4), (4, 1), 2, (1, 1, 4)),
    ((2, 3, 4), (1,), 2, (1, 1, 1)),
    ((2, 3, 4), (), -1, ()),
    ((2, 3, 4), (2, 1, 4), 0, (2, 1, 4)),
]


@pytest.mark.parametrize(("x_shape", "y_shape", "axis", "aligned"), SHAPES)
class TestBroadcasting:
    def test_the_shorter_shape_starts_at_axis(self, x_shape: Any, y_shape: Any, axis: int, aligned: Any) -> None:
        x, y = RNG.uniform(0.5, 2.0, x_shape), RNG.uniform(0.5, 2.0, y_shape)
        for name, function in FUNCTIONS.items():
            np.testing.assert_array_equal(run(name, x, y, axis=axis), function(x, y.reshape(aligned)))

    def test_either_operand_may_be_the_shorter_one(self, x_shape: Any, y_shape: Any, axis: int, aligned: Any) -> None:
        x, y = RNG.uniform(0.5, 2.0, y_shape), RNG.uniform(0.5, 2.0, x_shape)
        np.testing.assert_array_equal(run("sub", x, y, axis=axis), x.reshape(aligned) - y)

    def test_gradients_come_back_in_the_shapes_of_the_operands(
        self, x_shape: Any, y_shape: Any, axis: int, aligned: Any, gradcheck: Any
    ) -> None:
        x, y = RNG.uniform(0.5, 2.0, x_shape), RNG.uniform(0.5, 2.0, y_shape)
        for name in DIFFERENTIABLE:
            gradcheck(f"elementwise_{name}", {"X": x, "Y": y}, {"axis": axis}, directions=1)
            gradcheck(f"elementwise_{name}", {"X": y, "Y": x}, {"axis": axis}, directions=1)

    def test_gradients_have_gradients(
        self, x_shape: Any, y_shape: Any, axis: int, aligned: Any, gradcheck: Any
    ) -> None:
        x, y = RNG.uniform(0.5, 2.0, x_shape), RNG.uniform(0.5, 2.0, y_shape)
        d_out = RNG.standard_normal(x_shape)
        for name in ("add", "sub", "mul"):
            gradcheck(f"elementwise_{name}_grad", {"X": x, "Y": y, "Out@GRAD": d_out}, {"axis": axis}, directions=1)
        out = run("div", x, y, axis=axis)
        inputs = {"X": x, "Y": y, "Out": out, "Out@GRAD": d_out}
        gradcheck("elementwise_div_grad", inputs, {"axis": axis}, wrt=["Y", "Out", "Out@GRAD"], directions=1)


@pytest.mark.parametrize(
    ("x", "y", "axis"), [((2, 3), (2,), 3), ((2, 3), (2,), -2), ((2, 3), (2, 3), 1), ((2, 3), (3, 2), 1)]
)
def test_an_axis_that_does_not_fit_is_refused(x: Any, y: Any, axis: int) -> None:
    with pytest.raises(ValueError, match=f"attribute axis={axis}"):
        run("add", np.ones(x), np.ones(y), axis=axis)


def test_trailing_ones_beyond_the_longer_shape_are_dropped() -> None:
    assert aligned_shapes((5, 2, 3), (3, 1), 2) == ((5, 2, 3), (3,))


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        run("add", np.ones((2, 3)), np.ones(2))


class TestDtypes:
    @pytest.mark.parametrize(
        "dtype", [np.float32, np.float64, np.int16, np.int32, np.int64, np.complex64, np.complex128]
    )
    def test_the_dtype_stays(self, dtype: Any) -> None:
        x = np.array([[6, 4], [9, 2]]).astype(dtype)
        for name in ("add", "sub", "mul", "div"):
            assert run(name, x, x[0]).dtype == dtype
        assert run("add", x[0, 0], x[0, 1]).dtype == dtype

    def test_half_types(self) -> None:
        for dtype in (np.dtype(np.float16), bfloat16()):
            x, y = np.array([1.5, -2.0]).astype(dtype), np.array([0.5, 4.0]).astype(dtype)
            for name in ("add", "sub", "mul", "div", "max", "min", "floordiv", "mod"):
                made = run(name, x, y)
                assert made.dtype == dtype
                np.testing.assert_allclose(made.astype(float), FUNCTIONS[name](x.astype(float), y.astype(float)))

    def test_sums_of_half_gradients_are_kept_in_float32(self) -> None:
        d_out = np.full((4096, 2), 1.0, np.float16)
        x, y = np.zeros((4096, 2), np.float16), np.zeros(2, np.float16)
        _, d_y = lookup("elementwise_add_grad").kernel(x, y, d_out)
        assert d_y.dtype == np.float16 and d_y.tolist() == [4096, 4096]

    def test_two_dtypes_are_refused_but_for_complex_ones(self) -> None:
        for y in (np.ones(2, np.float64), np.ones(2, np.int64)):
            with pytest.raises(
                TypeError, match="slot Y: elementwise_add takes two tensors of one dtype, got X float32"
            ):
                run("add", np.ones(2, np.float32), y)
        assert run("add", np.ones(2, np.float32), np.ones(2, np.complex64)).dtype == np.complex64

    def test_a_real_operand_receives_the_real_part(self, gradcheck: Any) -> None:
        z = np.array([1 + 2j, -1j, 3 + 0.5j])
        for name in ("add", "sub", "mul", "div"):
            gradcheck(f"elementwise_{name}", {"X": np.array([0.5, 2.0, -1.0]), "Y": z})

    def test_complex_gradients_are_conjugated(self, gradcheck: Any) -> None:
        x, y = np.array([1 + 2j, -1j, 3 + 0.5j]), np.array([0.5 - 1j, 2 + 1j, 1j])
        for name in ("add", "sub", "mul", "div"):
            gradcheck(f"elementwise_{name}", {"X": x, "Y": y})

    @pytest.mark.parametrize("name", ["max", "min", "fmax", "mod", "floordiv", "heaviside"])
    def test_what_has_no_order_is_refused(self, name: str) -> None:
        with pytest.raises(TypeError, match=f"slot X: elementwise_{name} takes floating or integer tensors"):
            run(name, np.ones(2, np.complex64), np.ones(2, np.complex64))

    def test_booleans(self) -> None:
        x, y = np.array([True, False]), np.array([True, True])
        assert run("add", x, y).tolist() == [True, True]
        assert run("mul", x, y).tolist() == run("div", x, y).tolist() == [True, False]
        with pytest.raises(TypeError, match="takes floating"):
            run("sub", x, y)


class TestIntegers:
    x = np.array([-7, 7, -8, 3, 0, 5], np.int32)
    y = np.array([2, -2, 3, -4, 5, -5], np.int32)

    def test_division_drops_the_fraction(self) -> None:
        assert run("div", self.x, self.y).tolist() == [-3, -3, -2, 0, 0, -1]

    def test_floordiv_rounds_down(self) -> None:
        assert run("floordiv", self.x, self.y).tolist() == [-4, -4, -3, -1, 0, -1]

    def test_programs_from_before_2_5_mean_the_whole_part_by_floordiv(self) -> None:
        def at(version: int, x: Any, y: Any) -> Any:
            context = OpContext(OpDesc("elementwise_floordiv"), BlockDesc(0), ProgramDesc(version=version))
            return lookup("elementwise_floordiv").kernel(x, y, ctx=context).tolist()

        assert at(2004002, self.x, self.y) == [-3, -3, -2, 0, 0, -1]
        assert at(2004002, np.array([-7.5]), np.array([2.0])) == [-3.0]
        assert at(2006002, self.x, self.y) == at(0, self.x, self.y) == [-4, -4, -3, -1, 0, -1]

    def test_mod_has_the_sign_of_the_divisor(self) -> None:
        assert run("mod", self.x, self.y).tolist() == [1, -1, 1, -1, 0, 0]
        np.testing.assert_allclose(run("mod", [7.5, -7.5], [-2.0, 2.0]), [-0.5, 0.5])

    def test_unsigned_division(self) -> None:
        x, y = np.array([249, 7], np.uint8), np.array([2, 254], np.uint8)
        assert run("div", x, y).tolist() == run("floordiv", x, y).tolist() == [124, 0]

    def test_power_goes_by_way_of_float64(self) -> None:
        x = np.array([2, 3, -2, 10], np.int64)
        assert run("pow", x, np.array([62, 39, 63, 18])).tolist() == [2**62, 4052555153018976256, -(2**63), 10**18]
        assert run("pow", np.array([7], np.int32), np.array([-2], np.int32)).tolist() == [0]

    @pytest.mark.parametrize("name", ["div", "floordiv", "mod"])
    def test_a_zero_divisor_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="slot Y: integer division by zero"):
            run(name, np.array([1, 2]), np.array([0, 1]))


class TestSpecialValues:
    nan = np.array([np.nan, 1.0, np.nan, np.inf])
    other = np.array([1.0, np.nan, np.nan, 2.0])

    def test_max_keeps_nan_and_fmax_drops_it(self) -> None:
        np.testing.assert_array_equal(run("max", self.nan, self.other), [np.nan, np.nan, np.nan, np.inf])
        np.testing.assert_array_equal(run("fmax", self.nan, self.other), [1, 1, np.nan, np.inf])
        np.testing.assert_array_equal(run("fmin", self.nan, self.other), [1, 1, np.nan, 2])

    def test_gradients_of_fmax_go_to_the_number(self) -> None:
        d_x, d_y = lookup("elementwise_fmax_grad").kernel(self.nan, self.other, np.ones(4))
        assert d_x.tolist() == [0, 1, 1, 1] and d_y.tolist() == [1, 0, 0, 0]

    def test_ties_of_max_and_min_go_to_y(self) -> None:
        for name in ("max", "min"):
            d_x, d_y = lookup(f"elementwise_{name}_grad").kernel(np.ones(1), np.ones(1), np.ones(1))
            assert (d_x.tolist(), d_y.tolist()) == ([0], [1])

    def test_ties_of_fmax_and_fmin_go_to_x(self) -> None:
        for name in ("fmax", "fmin"):
            d_x, d_y = lookup(f"elementwise_{name}_grad").kernel(np.ones(1), np.ones(1), np.ones(1))
            assert (d_x.tolist(), d_y.tolist()) == ([1], [0])

    def test_heaviside(self, run_op: Any) -> None:
        x, y = np.array([0.0, -1.0, 2.0, np.nan]), np.array([5.0, 6.0, 7.0, 8.0])
        made = run_op("elementwise_heaviside", {"X": x, "Y": y}, cotangents={"Out": np.ones(4)})
        assert made["Out"].tolist() == [5, 0, 1, 0]
        assert made.gradients["X"].tolist() == [0] * 4 and made.gradients["Y"].tolist() == [1, 0, 0, 0]

    def test_nothing_warns(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = np.array([0.0, 1e38, np.inf, -np.inf, np.nan], np.float32)
            for name in FUNCTIONS:
                assert run(name, x, x[::-1]).dtype == np.float32
            for name in DIFFERENTIABLE:
                kept = [x] * (len(lookup(f"elementwise_{name}_grad").inputs) - 1)
                lookup(f"elementwise_{name}_grad").kernel(*kept, x)


class TestMemory:
    def test_out_is_used_where_the_result_fits(self) -> None:
        x = np.ones((64, 64), np.float32)
        assert run("add", x, np.ones(64, np.float32), out=x) is x and x[0, 0] == 2
        wide = run("add", np.ones((1, 64), np.float32), x, out=np.empty((1, 64), np.float32))
        assert wide.shape == (64, 64)

    def test_operands_are_left_alone(self) -> None:
        x, y = A.copy(), B.copy()
        x.flags.writeable = y.flags.writeable = False
        for name in FUNCTIONS:
            run(name, x, y)

    @pytest.mark.parametrize("shapes", [((700, 500), (700, 500)), ((700, 500), (500,)), ((1, 700, 500), (700, 1))])
    def test_large_tensors_are_split_without_a_trace(self, shapes: Any) -> None:
        x, y = RNG.uniform(1, 9, shapes[0]), RNG.uniform(1, 9, shapes[1])
        for name, function in FUNCTIONS.items():
            np.testing.assert_array_equal(run(name, x, y), function(x, y))
        whole, by = (x * 100).astype(np.int64), y.astype(np.int64)
        np.testing.assert_array_equal(run("div", whole, by), np.trunc(whole / by))
        np.testing.assert_array_equal(run("heaviside", whole, by), np.ones_like(whole))

    def test_no_element(self) -> None:
        assert run("add", np.ones((2, 0)), np.ones((2, 0))).shape == (2, 0)

    def test_only_wanted_gradients_are_made(self) -> None:
        d_x, d_y = lookup("elementwise_mul_grad").kernel(A, B, A, want=frozenset({"Y@GRAD"}))
        assert d_x is None and d_y.shape == B.shape


class TestSelectedRows:
    def test_a_sparse_gradient_is_scaled_by_one_number(self) -> None:
        rows = SelectedRows(np.array([1, 3]), np.ones((2, 2)), 5)
        for name, expected in (("mul", 4.0), ("div", 0.25)):
            made = lookup(f"elementwise_{name}").kernel(rows, np.array([4.0]))
            assert made.height == 5 and made.values.tolist() == [[expected] * 2] * 2

    def test_nothing_else_is_done_to_it(self) -> None:
        rows = SelectedRows(np.array([1]), np.ones((1, 2)), 5)
        with pytest.raises(TypeError, match="slot X: elementwise_add takes selected rows only to scale them"):
            lookup("elementwise_add").kernel(rows, np.array([4.0]))
        with pytest.raises(TypeError, match="by one number, Y is"):
            lookup("elementwise_mul").kernel(rows, np.ones(2))


class TestFused:
    def test_activation_scale_and_new_axes_follow(self) -> None:
        kernel = lookup("fused_elementwise_add").kernel
        made = kernel(A, -B, fuse_activation="relu", fused_output_scale=2.0, fused_unsqueeze2_axes=[0])
        np.testing.assert_allclose(made, 2 * np.maximum(A - B, 0)[None])
        np.testing.assert_allclose(kernel(A, B[0, :, 0], axis=1), A + B[0, :, 0][None, :, None])

    @pytest.mark.parametrize("name", ["sub", "mul", "div"])
    def test_the_other_operations(self, name: str) -> None:
        made = lookup(f"fused_elementwise_{name}").kernel(A, B, fuse_activation="leaky_relu", fuse_alpha=0.5)
        plain = FUNCTIONS[name](A, B)
        np.testing.assert_allclose(made, np.where(plain > 0, plain, plain / 2))

    @pytest.mark.parametrize("unary", ["relu", "tanh", "sigmoid", "gelu", "scale"])
    @pytest.mark.parametrize("two", ["elementwise_add", "elementwise_mul"])
    def test_compound_functions_and_their_gradients(self, unary: str, two: str, gradcheck: Any) -> None:
        y = B[0, :, 0] - 1.2
        for functors in ([unary, two], [two, unary]):
            attrs = {"functor_list": functors, "axis": 1, "scale": 0.7, "save_intermediate_out": True}
            gradcheck("fused_elemwise_activation", {"X": A, "Y": y}, attrs, directions=1)
            gradcheck(
                "fused_elemwise_add_activation", {"X": A, "Y": y}, attrs, directions=1, without=["IntermediateOut"]
            )

    def test_the_order_of_the_functions(self) -> None:
        x, y = np.array([-3.0]), np.array([-1.0])
        kernel = lookup("fused_elemwise_activation").kernel
        assert kernel(x, y, functor_list=["relu", "elementwise_add"])[0].tolist() == [0.0]
        assert kernel(x, y, functor_list=["elementwise_add", "relu"])[0].tolist() == [-3.0]
        with pytest.raises(ValueError, match="attribute functor_list="):
            kernel(x, y, functor_list=["relu", "tanh"])


class TestOthers:
    def test_grad_add_is_addition(self) -> None:
        np.testing.assert_array_equal(lookup("grad_add").kernel(A, B), A + B)

    def test_minus(self, gradcheck: Any) -> None:
        np.testing.assert_array_equal(lookup("minus").kernel(A, B), A - B)
        gradcheck("minus", {"X": A, "Y": B})
        with pytest.raises(ValueError, match="slot Y: shape"):
            lookup("minus").kernel(A, B[:1])

    def test_atan2(self, gradcheck: Any) -> None:
        np.testing.assert_array_equal(lookup("atan2").kernel(A, -B), np.arctan2(A, -B))
        gradcheck("atan2", {"X1": A, "X2": -B})
        whole = lookup("atan2").kernel(np.array([1, -1], np.int32), np.array([0, 1], np.int32))
        assert whole.dtype == np.float64
        np.testing.assert_allclose(whole, [np.pi / 2, -np.pi / 4])
        with pytest.raises(ValueError, match="slot X2"):
            lookup("atan2").kernel(A, B[0])

    def test_nextafter(self) -> None:
        made = lookup("nextafter").kernel(np.array([1.0, 2.0], np.float32), np.array([2.0, 1.0], np.float32))
        assert made.tolist() == [1.0000001192092896, 1.9999998807907104]
        with pytest.raises(TypeError, match="slot x"):
            lookup("nextafter").kernel(np.ones(1, np.int32), np.ones(1, np.int32))

    def test_lerp(self, gradcheck: Any) -> None:
        weight = np.array([0.1, 0.2, 0.3, 0.4])
        np.testing.assert_allclose(lookup("lerp").kernel(A, B, weight), A + weight * (B - A))
        gradcheck("lerp", {"X": A, "Y": B[:, :1], "Weight": weight}, wrt=["X", "Y"])
