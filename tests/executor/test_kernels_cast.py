"""Conversions, hand-overs, scaling and bounding, sums, and products of two tensors."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.executor.values import LoDTensor, SelectedRows, TensorArray
from oarlock.ir.desc import BlockDesc, OpDesc, ProgramDesc
from oarlock.ir.dtypes import bfloat16
from oarlock.ir.registry import OpContext, lookup

RNG = np.random.default_rng(3)
CODES = {
    "bool": 0,
    "int16": 1,
    "int32": 2,
    "int64": 3,
    "float16": 4,
    "float32": 5,
    "float64": 6,
    "uint8": 20,
    "int8": 21,
    "bfloat16": 22,
    "complex64": 23,
    "complex128": 24,
}


def run(type: str, *arguments: Any, **attrs: Any) -> Any:
    return lookup(type).kernel(*arguments, **attrs)


def cast(x: Any, to: str) -> Any:
    return run("cast", np.asarray(x), out_dtype=CODES[to])


class TestCast:
    odd = np.array([np.nan, np.inf, -np.inf, 1e20, 300.7, -300.7, 2.5, -0.5, 3e9], np.float32)
    low = -(2**31)

    @pytest.mark.parametrize(
        ("to", "expected"),
        [
            ("bool", [True] * 9),
            ("int8", [0, 0, 0, 0, 44, -44, 2, 0, 0]),
            ("uint8", [0, 0, 0, 0, 44, 212, 2, 0, 0]),
            ("int16", [0, 0, 0, 0, 300, -300, 2, 0, 0]),
            ("int32", [low] * 4 + [300, -300, 2, 0, low]),
            ("int64", [-(2**63)] * 4 + [300, -300, 2, 0, 3 * 10**9]),
        ],
    )
    def test_floats_to_integers_as_c_converts(self, to: str, expected: list[Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for x in (self.odd, self.odd.astype(np.float64)):
                made = cast(x, to)
                assert made.dtype == np.dtype(to) and made.tolist() == expected

    def test_integers_wrap(self) -> None:
        assert cast(np.array([70000, -1, 300], np.int32), "int16").tolist() == [4464, -1, 300]
        assert cast(np.array([70000, -1, 300], np.int32), "uint8").tolist() == [112, 255, 44]

    def test_every_pair_of_dtypes(self) -> None:
        for source in CODES:
            x = np.array([[0, 1], [1, 0]]).astype(bfloat16() if source == "bfloat16" else source)
            for target in CODES:
                made = cast(x, target)
                assert made.dtype == (bfloat16() if target == "bfloat16" else np.dtype(target))
                np.testing.assert_array_equal(made.astype(complex), [[0, 1], [1, 0]])

    def test_complex_numbers_lose_the_imaginary_part_but_count_for_truth(self) -> None:
        assert cast([1 + 2j, 3j, 0j], "float32").tolist() == [1, 0, 0]
        assert cast([1 + 2j, 3j, 0j], "bool").tolist() == [True, True, False]

    def test_bfloat16_drops_the_low_bits_as_paddle_2_does(self) -> None:
        x = np.array([1.7, -1.7, 1.0 + 2**-8, np.nan, np.inf], np.float32)
        np.testing.assert_array_equal(cast(x, "bfloat16").astype(np.float32)[:3], [1.6953125, -1.6953125, 1.0])
        assert np.isnan(cast(x, "bfloat16")[3]) and np.isinf(cast(x, "bfloat16")[4])

    def test_the_same_dtype_gives_the_tensor_itself(self) -> None:
        x = np.ones(3)
        assert run("cast", x, out_dtype=6) is x

    def test_no_dimension_no_element_and_strides(self) -> None:
        assert cast(np.float32(1.5), "int32").shape == ()
        assert cast(np.zeros((0, 2)), "bfloat16").shape == (0, 2)
        x = np.arange(6.0).reshape(2, 3).T
        np.testing.assert_array_equal(cast(x, "bfloat16").astype(float), x)

    def test_the_gradient_is_cast_back(self, run_op: Any) -> None:
        attrs = {"in_dtype": 5, "out_dtype": 6}
        made = run_op("cast", {"X": np.ones(2, np.float32)}, attrs, cotangents={"Out": np.array([0.1, 0.2])})
        assert made.gradients["X"].dtype == np.float32
        made = run_op("transfer_dtype", {"X": np.ones(2, np.float32)}, attrs, cotangents={"Out": np.array([0.1, 0.2])})
        assert made.gradients["X"].tolist() == [np.float32(0.1), np.float32(0.2)]


class TestTransferLayout:
    x = np.arange(24).reshape(1, 2, 3, 4)

    def test_to_nhwc_and_back(self) -> None:
        there = run("transfer_layout", self.x, src_layout=0, dst_layout=1)
        assert there.shape == (1, 3, 4, 2)
        np.testing.assert_array_equal(run("transfer_layout", there, src_layout=1, dst_layout=2), self.x)

    @pytest.mark.parametrize(("src", "dst"), [(1, 1), (0, 0), (1, 0), (-1, 7)])
    def test_other_layouts_are_refused(self, src: int, dst: int) -> None:
        with pytest.raises(ValueError, match=f"attribute dst_layout={dst}"):
            run("transfer_layout", self.x, src_layout=src, dst_layout=dst)


class TestHandOvers:
    @pytest.mark.parametrize("type", ["assign", "share_data", "npu_identity", "memcpy", "memcpy_h2d", "memcpy_d2h"])
    def test_values_of_every_kind_pass(self, type: str) -> None:
        ragged = LoDTensor.from_lengths(np.ones((3, 1)), [[1, 2]])
        rows = SelectedRows(np.array([1]), np.ones((1, 2)), 4)
        for value in (np.ones((2, 3), np.int64), ragged, rows):
            assert run(type, value) is value

    def test_assign_copies_the_list_of_a_tensor_array(self) -> None:
        array = TensorArray([np.ones(2)])
        copy = run("assign", array)
        copy.append(np.zeros(2))
        assert len(array) == 1 and isinstance(copy, TensorArray) and copy[0] is array[0]

    def test_the_gradient_of_assign(self, gradcheck: Any) -> None:
        gradcheck("assign", {"X": np.ones((2, 3))})

    def test_share_buffer_and_nop(self) -> None:
        x = [np.ones(2), np.zeros(3)]
        out, again = run("share_buffer", x)
        assert all(a is b is c for a, b, c in zip(x, out, again, strict=True))
        assert run("nop", x)[1] is x[1]


class TestPrint:
    def test_it_hands_on_and_logs(self, run_op: Any, caplog: pytest.LogCaptureFixture) -> None:
        x = np.arange(4.0)
        with caplog.at_level(logging.INFO, "oarlock.print"):
            made = run_op("print", {"In": x}, {"message": "seen", "summarize": 2, "print_tensor_layout": False})
        assert made["Out"] is x
        assert caplog.messages == ["seen  variable: In  shape: [4]  dtype: float64  data: [0.0, 1.0] ..."]

    def test_phase(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "oarlock.print"):
            run("print", np.ones(1), print_phase="BACKWARD")
            assert not caplog.messages
            run("print", np.ones(1), print_phase="BACKWARD", is_forward=False)
            assert len(caplog.messages) == 1
        with pytest.raises(ValueError, match="attribute print_phase='both'"):
            run("print", np.ones(1), print_phase="both")

    def test_first_n(self, caplog: pytest.LogCaptureFixture) -> None:
        context = OpContext(OpDesc("print", {"In": ["v"]}), BlockDesc(0), ProgramDesc())
        with caplog.at_level(logging.INFO, "oarlock.print"):
            for _ in range(5):
                run("print", np.ones(1), first_n=2, ctx=context)
        assert len(caplog.messages) == 2

    def test_the_gradient_passes(self, run_op: Any) -> None:
        made = run_op("print", {"In": np.ones(2)}, cotangents={"Out": np.array([3.0, 4.0])})
        assert made.gradients["In"].tolist() == [3, 4]


class TestScale:
    x = np.array([[1.0, -2.0], [3.0, 0.5]])

    def test_bias_before_or_after(self, gradcheck: Any) -> None:
        np.testing.assert_allclose(run("scale", self.x, None, scale=2.5, bias=1.0), 2.5 * self.x + 1)
        before = run("scale", self.x, None, scale=2.5, bias=1.0, bias_after_scale=False)
        np.testing.assert_allclose(before, 2.5 * (self.x + 1))
        for after in (True, False):
            gradcheck("scale", {"X": self.x}, {"scale": 2.5, "bias": 1.0, "bias_after_scale": after})

    def test_the_tensor_has_priority(self, gradcheck: Any) -> None:
        factor = np.array([3.0])
        np.testing.assert_allclose(run("scale", self.x, factor, scale=2.0, bias=1.0), 3 * self.x + 1)
        gradcheck("scale", {"X": self.x, "ScaleTensor": factor}, {"scale": 2.0, "bias": 1.0}, wrt=["X"])

    def test_integers_drop_the_fractions_of_scale_and_bias(self) -> None:
        x = np.array([7, 0, 3], np.int64)
        assert run("scale", x, None, scale=2.5, bias=1.7).tolist() == [15, 1, 7]
        assert run("scale", x, None, scale=2.5, bias=1.7, bias_after_scale=False).tolist() == [16, 2, 8]

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "complex64", "bool"])
    def test_the_dtype_stays(self, dtype: str) -> None:
        x = np.ones((2, 2), dtype)
        assert run("scale", x, None, scale=2.0, bias=1.0).dtype == dtype
        assert np.asarray(run("scale", x[0, 0], None, scale=2.0, bias=1.0)).dtype == dtype

    def test_scale_one_gives_the_tensor_itself_and_out_is_used(self) -> None:
        x = np.ones(3, np.float32)
        assert run("scale", x, None) is x
        assert run("scale", x, None, scale=2.0, out=x) is x and x[0] == 2

    def test_selected_rows(self) -> None:
        rows = SelectedRows(np.array([1, 3]), np.ones((2, 2)), 5)
        made = run("scale", rows, None, scale=3.0)
        assert made.height == 5 and made.values.tolist() == [[3, 3], [3, 3]]


class TestClip:
    x = np.array([-2.0, -0.5, 0.25, 1.5, 3.0])

    def test_values_and_gradient(self, gradcheck: Any) -> None:
        np.testing.assert_array_equal(run("clip", self.x, None, None, min=-1.0, max=2.0), np.clip(self.x, -1, 2))
        gradcheck("clip", {"X": self.x}, {"min": -1.0, "max": 2.0})

    def test_tensors_have_priority(self, gradcheck: Any) -> None:
        low, high = np.array([0.0]), np.array([1.0])
        np.testing.assert_array_equal(run("clip", self.x, low, high, min=-9.0, max=9.0), np.clip(self.x, 0, 1))
        gradcheck("clip", {"X": self.x, "Min": low, "Max": high}, {"min": -9.0, "max": 9.0}, wrt=["X"])

    def test_on_the_bounds_there_is_no_gradient(self) -> None:
        x = np.array([1.0, 1.5, 2.0, np.nan])
        assert lookup("clip_grad").kernel(x, None, None, np.ones(4), min=1.0, max=2.0).tolist() == [0, 1, 0, 0]

    def test_integers_take_the_whole_part_of_the_bounds(self) -> None:
        assert run("clip", np.array([-7, 0, 3]), None, None, min=-2.5, max=1.5).tolist() == [-2, 0, 1]

    def test_bounds_in_the_wrong_order_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"attribute min=3.0 is above max=1.0"):
            run("clip", self.x, None, None, min=3.0, max=1.0)

    def test_nan_stays_in_small_and_large_tensors(self) -> None:
        for size in (3, 200_000):
            x = np.full(size, np.nan, np.float32)
            x[0] = 5
            made = run("clip", x, None, None, min=0.0, max=1.0)
            assert made[0] == 1 and np.isnan(made[1:]).all()


class TestClipByNorm:
    def test_only_what_is_longer_is_scaled_down(self) -> None:
        np.testing.assert_allclose(run("clip_by_norm", np.array([3.0, 4.0]), max_norm=1.0), [0.6, 0.8])
        np.testing.assert_allclose(run("clip_by_norm", np.array([0.3, 0.4]), max_norm=1.0), [0.3, 0.4])
        assert run("clip_by_norm", np.zeros(2), max_norm=1.0).tolist() == [0, 0]

    def test_repeated_selected_rows_are_added_first(self) -> None:
        rows = SelectedRows(np.array([2, 2]), np.array([[1.5, 2.0], [1.5, 2.0]]), 5)
        made = run("clip_by_norm", rows, max_norm=1.0)
        assert made.rows.tolist() == [2]
        np.testing.assert_allclose(made.values, [[0.6, 0.8]])

    def test_the_norm_must_be_positive(self) -> None:
        with pytest.raises(ValueError, match="attribute max_norm"):
            run("clip_by_norm", np.ones(2), max_norm=0.0)


class TestIncrement:
    @pytest.mark.parametrize(("dtype", "expected"), [(np.int32, 4), (np.int64, 4), (np.float64, 4.5)])
    def test_values(self, dtype: Any, expected: float) -> None:
        for shape in ((), (1,), (1, 1)):
            made = run("increment", np.full(shape, 3, dtype), step=1.5)
            assert (made.shape, made.dtype) == (shape, dtype) and made.reshape(()) == expected

    def test_more_than_one_element_is_refused(self) -> None:
        with pytest.raises(ValueError, match="slot X: one element"):
            run("increment", np.ones(2))

    def test_backward_puts_the_counter_back(self) -> None:
        maker = lookup("increment").grad_maker
        assert maker is not None
        (back,) = maker(OpDesc("increment", {"X": ["i"]}, {"Out": ["j"]}, {"step": 2.0}), frozenset())
        assert (back.type, back.inputs, back.outputs, back.attrs["step"]) == (
            "increment",
            {"X": ["j"]},
            {"Out": ["i"]},
            -2.0,
        )


class TestSum:
    def test_dense_tensors(self, gradcheck: Any) -> None:
        parts = [RNG.standard_normal((2, 3)) for _ in range(4)]
        np.testing.assert_allclose(run("sum", parts), sum(parts))
        assert run("sum", parts[:1]) is parts[0]
        gradcheck("sum", {"X": parts[:3]})

    def test_its_inputs_are_left_alone(self) -> None:
        parts = [np.ones(2), np.ones(2), np.ones(2)]
        run("sum", parts)
        assert all(part.tolist() == [1, 1] for part in parts)

    def test_half_types_are_summed_in_float32(self) -> None:
        parts = [np.array([2048.0], np.float16)] + [np.array([1.0], np.float16)] * 4
        assert run("sum", parts).dtype == np.float16 and run("sum", parts).tolist() == [2052]

    def test_empty_and_absent_tensors_are_left_out(self) -> None:
        assert run("sum", [np.ones(3), np.ones(0), None]).tolist() == [1, 1, 1]
        assert run("sum", [np.ones((0, 2)), np.ones((0, 2))]).shape == (0, 2)

    def test_shapes_and_dtypes_must_agree(self) -> None:
        with pytest.raises(ValueError, match=r"slot X\[1\]: shape"):
            run("sum", [np.ones(3), np.ones((3, 1))])
        with pytest.raises(TypeError, match=r"slot X\[1\]: dtype"):
            run("sum", [np.ones(3), np.ones(3, np.float32)])
        with pytest.raises(TypeError, match="slot X: sum takes"):
            run("sum", [np.ones(3, np.bool_), np.ones(3, np.bool_)])
        with pytest.raises(ValueError, match="at least one tensor"):
            run("sum", [None])

    def test_selected_rows_are_joined_and_added_to_dense_tensors(self) -> None:
        a = SelectedRows(np.array([1, 2]), np.ones((2, 2)), 4)
        b = SelectedRows(np.array([2]), np.ones((1, 2)), 4)
        joined = run("sum", [a, b])
        assert isinstance(joined, SelectedRows) and joined.rows.tolist() == [1, 2, 2]
        assert run("sum", [a, np.ones((4, 2)), b])[:, 0].tolist() == [1, 2, 3, 1]

    def test_tensor_arrays_add_up_by_element(self) -> None:
        made = run("sum", [TensorArray([np.ones(2), None]), TensorArray([np.ones(2), np.ones(3), np.ones(1)])])
        assert isinstance(made, TensorArray)
        assert [each.tolist() for each in made] == [[2, 2], [1, 1, 1], [1]]

    def test_ragged_batches_keep_their_lengths(self) -> None:
        block = BlockDesc(0, ops=[OpDesc("sum", {"X": ["a", "b"]}, {"Out": ["c"]})])
        plan = compile_block(ProgramDesc([block]), 0, PlanRequest(("a", "b"), ("c",), lod=True))
        (made,) = plan.run([LoDTensor.from_lengths(np.ones((3, 1)), [[1, 2]]), np.ones((3, 1))])
        assert isinstance(made, LoDTensor) and made.lengths() == [[1, 2]] and made.array.tolist() == [[2]] * 3


class TestMean:
    x = RNG.standard_normal((3, 4))

    def test_values_and_gradient(self, gradcheck: Any) -> None:
        np.testing.assert_allclose(run("mean", self.x), self.x.mean())
        gradcheck("mean", {"X": self.x})
        gradcheck("mean", {"X": self.x + 1j * self.x[::-1]})

    def test_the_rank_is_what_the_program_declares(self, gradcheck: Any, run_op: Any) -> None:
        assert run_op("mean", {"X": self.x})["Out"].shape == ()
        assert run_op("mean", {"X": self.x}, declared={"Out": (1,)})["Out"].shape == (1,)
        gradcheck("mean", {"X": self.x}, declared={"Out": (1,)})

    def test_half_types_are_summed_in_float32(self) -> None:
        x = np.full(100_000, 1.0, np.float16)
        assert run("mean", x).dtype == np.float16 and run("mean", x) == 1

    def test_of_nothing_it_is_nan_and_integers_are_refused(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isnan(run("mean", np.zeros((0, 3))))
        with pytest.raises(TypeError, match="slot X: mean takes floating or complex"):
            run("mean", np.ones(3, np.int32))

    @pytest.mark.parametrize(("reduction", "expected"), [(0, 66.0), (1, 5.5)])
    def test_identity_loss(self, reduction: int, expected: float, gradcheck: Any) -> None:
        x = np.arange(12.0).reshape(3, 4)
        assert run("identity_loss", x, reduction=reduction) == expected
        gradcheck("identity_loss", {"X": x}, {"reduction": reduction})

    def test_identity_loss_without_reduction(self, gradcheck: Any) -> None:
        assert run("identity_loss", self.x, reduction=2) is self.x
        gradcheck("identity_loss", {"X": self.x}, {"reduction": 2})
        with pytest.raises(ValueError, match="attribute reduction=3"):
            run("identity_loss", self.x, reduction=3)


class TestLabelSmooth:
    x = np.eye(4)[:3]

    def test_uniform_and_given_priors(self, gradcheck: Any) -> None:
        prior = np.array([[0.1, 0.2, 0.3, 0.4]])
        np.testing.assert_allclose(run("label_smooth", self.x, None, epsilon=0.2), 0.8 * self.x + 0.05)
        np.testing.assert_allclose(run("label_smooth", self.x, prior, epsilon=0.2), 0.8 * self.x + 0.2 * prior)
        gradcheck("label_smooth", {"X": self.x, "PriorDist": prior}, {"epsilon": 0.2}, wrt=["X"])

    def test_a_prior_of_another_size_is_refused(self) -> None:
        with pytest.raises(ValueError, match="slot PriorDist"):
            run("label_smooth", self.x, np.ones(3), epsilon=0.2)


class TestMultiplex:
    x = np.arange(12.0).reshape(3, 4) + np.array([0, 100, 200])[:, None, None]

    def test_rows_are_picked_and_gradients_go_back(self, gradcheck: Any) -> None:
        ids = np.array([[2], [0], [2]], np.int32)
        made = run("multiplex", list(self.x), ids)
        np.testing.assert_array_equal(made, [self.x[2][0], self.x[0][1], self.x[2][2]])
        gradcheck("multiplex", {"X": list(self.x), "Ids": ids})

    @pytest.mark.parametrize("ids", [[[3]], [[-1]], [0], [[0]] * 4])
    def test_ids_that_do_not_fit_are_refused(self, ids: Any) -> None:
        with pytest.raises(ValueError, match="slot Ids"):
            run("multiplex", list(self.x), np.array(ids))


class TestProducts:
    @pytest.mark.parametrize(("a", "b"), [((2, 3), (4, 2)), ((2, 3), (3,)), ((3,), (2, 1, 2)), ((), (2,))])
    def test_kron(self, a: Any, b: Any, gradcheck: Any) -> None:
        x, y = RNG.standard_normal(a), RNG.standard_normal(b)
        np.testing.assert_allclose(run("kron", x, y), np.kron(x, y))
        gradcheck("kron", {"X": x, "Y": y})
        gradcheck("kron", {"X": x + 1j * x, "Y": y - 2j * y})

    def test_kron_of_integers_and_two_dtypes(self) -> None:
        x = np.arange(4, dtype=np.int32).reshape(2, 2)
        assert run("kron", x, x).dtype == np.int32
        with pytest.raises(TypeError, match="slot Y"):
            run("kron", x, x.astype(np.int64))

    def test_cross(self, gradcheck: Any) -> None:
        x, y = RNG.standard_normal((2, 3, 3)), RNG.standard_normal((2, 3, 3))
        np.testing.assert_allclose(run("cross", x, y), np.cross(x, y, axis=1))
        np.testing.assert_allclose(run("cross", x, y, dim=-1), np.cross(x, y, axis=2))
        gradcheck("cross", {"X": x, "Y": y}, {"dim": 2})
        gradcheck("cross", {"X": x + 1j * y, "Y": y - 1j * x})

    def test_cross_refuses_what_has_no_three(self) -> None:
        with pytest.raises(ValueError, match="slot X: no dimension of size 3"):
            run("cross", np.ones((2, 4)), np.ones((2, 4)))
        with pytest.raises(ValueError, match="attribute dim=0"):
            run("cross", np.ones((2, 3)), np.ones((2, 3)), dim=0)
        with pytest.raises(ValueError, match="slot Y"):
            run("cross", np.ones((2, 3)), np.ones((1, 3)))

    def test_dot(self, gradcheck: Any, run_op: Any) -> None:
        x, y = RNG.standard_normal((2, 5)), RNG.standard_normal((2, 5))
        np.testing.assert_allclose(run("dot", x, y), (x * y).sum(-1))
        assert run("dot", x[0], y[0]).shape == ()
        assert run_op("dot", {"X": x[0], "Y": y[0]}, declared={"Out": (1,)})["Out"].shape == (1,)
        assert run_op("dot", {"X": x, "Y": y}, declared={"Out": (2, 1)})["Out"].shape == (2, 1)
        gradcheck("dot", {"X": x, "Y": y})
        gradcheck("dot", {"X": x[0] + 1j * y[0], "Y": y[0] - 1j * x[1]})

    @pytest.mark.parametrize(("a", "b"), [((2, 3), (3,)), ((), ()), ((2, 2, 2), (2, 2, 2))])
    def test_dot_refuses_other_ranks(self, a: Any, b: Any) -> None:
        with pytest.raises(ValueError, match="slots X and Y"):
            run("dot", np.ones(a), np.ones(b))

    @pytest.mark.parametrize("offset", [0, 1, -2, 9])
    @pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 2), (-1, 0)])
    def test_trace(self, offset: int, first: int, second: int, gradcheck: Any) -> None:
        x = RNG.standard_normal((3, 4, 5))
        attrs = {"offset": offset, "axis1": first, "axis2": second}
        np.testing.assert_allclose(run("trace", x, **attrs), np.trace(x, offset, first, second))
        np.testing.assert_allclose(run("trace", x, offset=offset, dim1=first, dim2=second), run("trace", x, **attrs))
        gradcheck("trace", {"Input": x}, attrs)

    def test_trace_keeps_the_dtype_and_refuses_one_axis_twice(self) -> None:
        assert run("trace", np.ones((2, 2), np.int32)).dtype == np.int32
        with pytest.raises(ValueError, match="attributes axis1 and axis2"):
            run("trace", np.ones((2, 2)), axis1=0, axis2=-2)
        with pytest.raises(ValueError, match="axis 2 is outside"):
            run("trace", np.ones((2, 2)), axis1=0, axis2=2)


class TestDist:
    x, y = RNG.standard_normal((2, 3)), RNG.standard_normal(3)

    @pytest.mark.parametrize("p", [1.0, 2.0, 3.0, 1.5, 0.5, np.inf, -np.inf])
    def test_norms_and_their_gradients(self, p: float, gradcheck: Any) -> None:
        expected = np.linalg.norm((self.x - self.y).reshape(-1), p)
        np.testing.assert_allclose(run("dist", self.x, self.y, p=p), expected, rtol=1e-6)
        gradcheck("dist", {"X": self.x, "Y": self.y}, {"p": p})

    def test_how_many_differ(self) -> None:
        assert run("dist", np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 4.0]), p=0.0) == 2

    @pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0])
    def test_at_distance_zero_the_gradient_is_zero(self, p: float) -> None:
        d_x, d_y = lookup("dist_grad").kernel(self.y, self.y, np.zeros(()), np.ones(()), p=p)
        assert not d_x.any() and not d_y.any()
