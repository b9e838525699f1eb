"""Matrix products, fused products and einsum. Literal numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(0)


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return np.asarray(RNG.standard_normal(shape)).astype(dtype)


class TestMatmulV2:
    @pytest.mark.parametrize(
        ("x", "y", "flags", "out"),
        [
            ((4,), (4,), {}, ()),
            ((4,), (4, 5), {}, (5,)),
            ((3, 4), (4,), {}, (3,)),
            ((4,), (2, 4, 5), {}, (2, 5)),
            ((2, 3, 4), (4,), {}, (2, 3)),
            ((2, 3, 4), (4, 5), {}, (2, 3, 5)),
            ((3, 4), (2, 4, 5), {}, (2, 3, 5)),
            ((2, 1, 3, 4), (6, 4, 5), {}, (2, 6, 3, 5)),
            ((4, 3), (5, 4), {"trans_x": True, "trans_y": True}, (3, 5)),
            ((4,), (5, 4), {"trans_x": True, "trans_y": True}, (5,)),
            ((0, 4), (4, 3), {}, (0, 3)),
            ((2, 0), (0, 3), {}, (2, 3)),
        ],
    )
    def test_shapes_follow_the_vector_and_broadcast_rules(self, run_op, x, y, flags, out) -> None:
        a, b = draw(*x), draw(*y)
        left = a.swapaxes(-1, -2) if flags.get("trans_x") and a.ndim > 1 else a
        right = b.swapaxes(-1, -2) if flags.get("trans_y") and b.ndim > 1 else b
        got = run_op("matmul_v2", {"X": a, "Y": b}, flags)["Out"]
        assert got.shape == out and got.dtype == np.float32
        np.testing.assert_allclose(got, np.matmul(left, right), rtol=1e-5)

    def test_two_vectors_give_what_the_program_declares(self, run_op) -> None:
        x = np.array([1, 2], np.float32)
        assert run_op("matmul_v2", {"X": x, "Y": x}, declared={"Out": ()})["Out"].shape == ()
        old = run_op("matmul_v2", {"X": x, "Y": x}, declared={"Out": (1,)})["Out"]
        np.testing.assert_array_equal(old, [5])

    def test_int64_is_exact_beyond_float64(self, run_op) -> None:
        x = np.array([[2**60 + 1, 1]])
        got = run_op("matmul_v2", {"X": x, "Y": np.array([[1], [1]])})["Out"]
        assert got.dtype == np.int64 and got.item() == 2**60 + 2

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_half_types_are_summed_in_float32_and_rounded_once(self, run_op, dtype) -> None:
        ones = np.ones((1, 4096), dtype)
        got = run_op("matmul_v2", {"X": ones, "Y": ones.T})["Out"]
        assert got.dtype == dtype and float(got.item()) == 4096.0

    def test_bool_has_no_product(self) -> None:
        with pytest.raises(TypeError, match="no matrix product of bool"):
            lookup("matmul_v2").kernel(np.ones((2, 2), bool), np.ones((2, 2), bool))

    def test_shapes_that_do_not_fit_are_named(self) -> None:
        with pytest.raises(ValueError, match=r"\[3, 4\] and \[3, 4\] do not multiply"):
            lookup("matmul_v2").kernel(draw(3, 4), draw(3, 4))

    def test_a_constant_right_side_is_prepared_even_when_it_is_unaligned(self, run_op) -> None:
        raw = np.zeros(4 * 20 + 1, np.uint8)
        weight = raw[1:].view(np.float32).reshape(4, 5)
        weight[...] = draw(4, 5)
        assert not weight.flags.aligned
        x = draw(2, 3, 4)
        plain = run_op("matmul_v2", {"X": x, "Y": weight})["Out"]
        ready = run_op("matmul_v2", {"X": x, "Y": weight}, constants=["Y"])["Out"]
        np.testing.assert_allclose(ready, plain, rtol=1e-6)
        vector = run_op("matmul_v2", {"X": draw(4), "Y": weight}, constants=["Y"])["Out"]
        assert vector.shape == (5,)


class TestMatmul:
    def test_vectors_are_matrices_and_transpose_as_such(self, run_op) -> None:
        x, y = np.array([1, 2], np.float32), np.array([3, 4, 5], np.float32)
        both = {"transpose_X": True, "transpose_Y": True}
        np.testing.assert_array_equal(run_op("matmul", {"X": x, "Y": y}, both)["Out"], [[3, 4, 5], [6, 8, 10]])

    def test_alpha_scales_the_product(self, run_op) -> None:
        got = run_op("matmul", {"X": np.eye(2, dtype=np.float32), "Y": np.ones((2, 1), np.float32)}, {"alpha": 0.5})
        np.testing.assert_array_equal(got["Out"], [[0.5], [0.5]])

    def test_heads_split_the_columns(self, run_op) -> None:
        x, y = np.arange(4, dtype=np.float32).reshape(1, 4), np.arange(8, dtype=np.float32).reshape(4, 2)
        got = run_op("matmul", {"X": x, "Y": y}, {"head_number": 2})["Out"]
        np.testing.assert_array_equal(got, [[2, 3, 26, 31]])  # Paddle

    def test_prepared_equals_plain(self, run_op) -> None:
        x, y, attrs = draw(2, 3, 4), draw(5, 4), {"transpose_Y": True, "alpha": 2.0}
        plain, ready = (run_op("matmul", {"X": x, "Y": y}, attrs, constants=c)["Out"] for c in ([], ["Y"]))
        np.testing.assert_allclose(ready, plain, rtol=1e-6)


class TestMul:
    def test_dimensions_are_flattened_on_both_sides(self, run_op) -> None:
        x, y = draw(2, 3, 4), draw(2, 2, 5)
        attrs = {"x_num_col_dims": 2, "y_num_col_dims": 2}
        for constants in ([], ["Y"]):
            got = run_op("mul", {"X": x, "Y": y}, attrs, constants=constants)["Out"]
            np.testing.assert_allclose(got, x @ y.reshape(4, 5), rtol=1e-5)

    def test_flattening_away_everything_is_refused(self) -> None:
        with pytest.raises(ValueError, match="first 2 dimension"):
            lookup("mul").kernel(draw(2, 3), draw(3, 4), x_num_col_dims=2)


def test_bmm_refuses_unequal_stacks() -> None:
    with pytest.raises(ValueError, match=r"\[2, 3, 4\] and \[1, 4, 5\]"):
        lookup("bmm").kernel(draw(2, 3, 4), draw(1, 4, 5))


def test_addmm_weights_both_terms(run_op) -> None:
    inputs = {"Input": np.array([[10.0, 20.0]]), "X": np.eye(2), "Y": np.array([[1.0, 2.0], [3.0, 4.0]])}
    got = run_op("addmm", inputs, {"Alpha": 2.0, "Beta": 0.5})["Out"]
    np.testing.assert_array_equal(got, [[7, 14], [11, 18]])


class TestFc:
    @pytest.mark.parametrize("constants", [[], ["W", "Bias"]])
    def test_rows_bias_and_relu(self, run_op, constants) -> None:
        x, w, bias = draw(2, 3, 4), draw(4, 5), draw(5)
        attrs = {"in_num_col_dims": 2, "activation_type": "relu"}
        got = run_op("fc", {"Input": x, "W": w, "Bias": bias}, attrs, constants=constants)["Out"]
        np.testing.assert_allclose(got, np.maximum(x @ w + bias, 0), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("constants", [[], ["W"]])
    def test_padding_of_the_weights_is_cut_off(self, run_op, constants) -> None:
        w = np.full((7, 6), 9, np.float32)
        w[:3, :2] = [[1, 0], [0, 1], [1, 1]]
        x = np.array([[1, 2, 3]], np.float32)
        got = run_op("fc", {"Input": x, "W": w}, {"padding_weights": True}, constants=constants)["Out"]
        np.testing.assert_array_equal(got, [[4, 5]])

    def test_what_does_not_fit_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"4 column\(s\).*\[3, 5\]"):
            lookup("fc").kernel(draw(2, 4), draw(3, 5))
        with pytest.raises(ValueError, match="activation_type is 'gelu'"):
            lookup("fc").kernel(draw(2, 4), draw(4, 5), activation_type="gelu")


class TestFusedMatmul:
    def test_operands_are_rearranged_for_attention(self, run_op) -> None:
        x, y = draw(2, 3, 8), draw(2, 3, 8)
        attrs = {
            "fused_reshape_X": [0, 0, 2, 4],
            "fused_transpose_X": [0, 2, 1, 3],
            "fused_reshape_Y": [0, 0, 2, 4],
            "fused_transpose_Y": [0, 2, 1, 3],
            "trans_y": True,
            "matmul_alpha": 0.5,
        }
        heads = [each.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3) for each in (x, y)]
        want = 0.5 * heads[0] @ heads[1].swapaxes(-1, -2)
        np.testing.assert_allclose(run_op("fused_matmul", {"X": x, "Y": y}, attrs)["Out"], want, rtol=1e-5)

    def test_the_residual_comes_before_the_activation_and_the_scale_after(self, run_op) -> None:
        inputs = {"X": np.eye(2), "Y": np.eye(2), "ResidualData": np.array([[-3.0, 1.0], [1.0, 1.0]])}
        attrs = {"fuse_activation": "relu", "fused_output_scale": 10.0}
        np.testing.assert_array_equal(run_op("fused_matmul", inputs, attrs)["Out"], [[0, 10], [10, 20]])

    def test_the_result_is_rearranged(self, run_op) -> None:
        attrs = {"fused_transpose_Out": [0, 2, 1, 3], "fused_reshape_Out": [0, 0, 8]}
        got = run_op("fused_matmul", {"X": draw(2, 2, 3, 4), "Y": draw(2, 2, 4, 4)}, attrs)["Out"]
        assert got.shape == (2, 3, 8)

    def test_an_unknown_activation_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'sine' is unknown"):
            lookup("fused_matmul").kernel(np.eye(2), np.eye(2), fuse_activation="sine")


def test_fused_fc_elementwise_layernorm(run_op) -> None:
    x, w, y = draw(3, 4, dtype=float), draw(4, 6, dtype=float), draw(3, 6, dtype=float)
    scale, shift = draw(6, dtype=float), draw(6, dtype=float)
    inputs = {"X": x, "W": w, "Y": y, "Scale": scale, "Bias1": shift}
    got = run_op("fused_fc_elementwise_layernorm", inputs)
    total = x @ w + y
    mean, variance = total.mean(1), total.var(1)
    want = (total - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * scale + shift
    np.testing.assert_allclose(got["Out"], want, rtol=1e-6)
    np.testing.assert_allclose(got["Mean"], mean)
    np.testing.assert_allclose(got["Variance"], variance)


def test_factorisation_fusions(run_op) -> None:
    x, y = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    got = run_op("fusion_squared_mat_sub", {"X": x, "Y": y}, {"scalar": 0.5})
    assert got["Out"].item() == 0.5 * (11**2 - (9 + 64)) and got["SquaredXY"].item() == 121
    chain = run_op(
        "fusion_repeated_fc_relu",
        {"X": x, "W": [-np.eye(2), np.ones((2, 1))], "Bias": [np.array([3.0, 1.0]), np.array([0.5])]},
    )
    np.testing.assert_array_equal(chain["ReluOut"][0], [[2, 0]])
    np.testing.assert_array_equal(chain["Out"], [[2.5]])


class TestEinsum:
    @pytest.mark.parametrize(
        ("equation", "shapes"),
        [
            ("ij,jk->ik", [(2, 3), (3, 4)]),
            ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
            ("ij,kj", [(2, 3), (4, 3)]),
            ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
            ("i,j->ij", [(2,), (3,)]),
            ("ii->i", [(3, 3)]),
            ("ii->", [(3, 3)]),
            ("ijk->k", [(2, 3, 4)]),
            ("a...a->...", [(3, 2, 4, 3)]),
            ("i...,...k->k...", [(4, 2, 3), (2, 3, 5)]),
            ("ij,ij->ij", [(1, 3), (2, 3)]),
            ("aB,Bc -> ac", [(2, 3), (3, 4)]),
            ("i,i,i->", [(4,), (4,), (4,)]),
        ],
    )
    def test_value_and_gradient(self, run_op, gradcheck, equation, shapes) -> None:
        operands = [draw(*shape, dtype=float) for shape in shapes]
        counts = {"InnerCache": len(shapes), "XShape": len(shapes)}
        got = run_op("einsum", {"Operands": operands}, {"equation": equation}, counts=counts)
        np.testing.assert_allclose(got["Out"], np.einsum(equation, *operands), rtol=1e-10)
        assert [each.shape for each in got["XShape"]] == [(0, *shape) for shape in shapes]
        gradcheck("einsum", {"Operands": operands}, {"equation": equation}, counts=counts)

    def test_a_saved_program_without_the_cache_still_has_a_gradient(self, run_op) -> None:
        x, y = draw(2, 3), draw(3, 4)
        got = run_op(
            "einsum",
            {"Operands": [x, y]},
            {"equation": "ij,jk->ik"},
            without=["InnerCache", "XShape"],
            cotangents={"Out": np.ones((2, 4), np.float32)},
        )
        np.testing.assert_allclose(got.gradients["Operands_0"], np.tile(y.sum(1), (2, 1)), rtol=1e-5)

    @pytest.mark.parametrize(
        ("equation", "message"),
        [("ij->k", "in its result"), ("i->i", "1 label"), ("ij,jk->ik", "2 operand"), ("i1->i", "letter")],
    )
    def test_what_is_no_equation_is_refused(self, equation, message) -> None:
        with pytest.raises(ValueError, match=message):
            lookup("einsum").kernel([draw(2, 3)], equation=equation)


GRADIENTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("matmul_v2", {"X": draw(2, 3, 4), "Y": draw(4, 5)}, {}),
    ("matmul_v2", {"X": draw(2, 4, 3), "Y": draw(5, 4)}, {"trans_x": True, "trans_y": True}),
    ("matmul_v2", {"X": draw(4), "Y": draw(2, 4, 5)}, {}),
    ("matmul_v2", {"X": draw(2, 1, 3, 4), "Y": draw(5, 4, 2)}, {}),
    ("matmul_v2", {"X": draw(4), "Y": draw(4)}, {}),
    ("matmul_v2", {"X": draw(2, 3) + 1j * draw(2, 3), "Y": draw(3, 2) + 1j * draw(3, 2)}, {}),
    ("matmul", {"X": draw(2, 3, 4), "Y": draw(2, 5, 4)}, {"transpose_Y": True, "alpha": 1.5}),
    ("matmul", {"X": draw(3), "Y": draw(4)}, {"transpose_X": True, "transpose_Y": True}),
    ("mul", {"X": draw(2, 3, 4), "Y": draw(12, 5)}, {}),
    ("bmm", {"X": draw(2, 3, 4), "Y": draw(2, 4, 5)}, {}),
    ("mv", {"X": draw(3, 4), "Vec": draw(4)}, {}),
    ("addmm", {"Input": draw(5), "X": draw(3, 4), "Y": draw(4, 5)}, {"Alpha": 2.0, "Beta": 0.5}),
    ("multi_dot", {"X": [draw(4), draw(4, 5), draw(5, 2), draw(2)]}, {}),
    (
        "bilinear_tensor_product",
        {"X": draw(3, 4), "Y": draw(3, 5), "Weight": draw(2, 4, 5), "Bias": draw(1, 2)},
        {},
    ),
    ("matmul_v2_grad", {"X": draw(2, 3), "Y": draw(3, 4), "Out@GRAD": draw(2, 4)}, {}),
    (
        "matmul_grad",
        {"X": draw(2, 3), "Y": draw(4, 3), "Out@GRAD": draw(2, 4)},
        {"transpose_Y": True, "alpha": 2.0},
    ),
    ("mul_grad", {"X": draw(2, 3), "Y": draw(3, 4), "Out@GRAD": draw(2, 4)}, {}),
]


@pytest.mark.parametrize(("type", "inputs", "attrs"), GRADIENTS, ids=[f"{i}-{g[0]}" for i, g in enumerate(GRADIENTS)])
def test_gradients_agree_with_differences(gradcheck, type, inputs, attrs) -> None:
    gradcheck(type, inputs, attrs)


def test_unwanted_gradients_are_not_computed() -> None:
    grad = lookup("matmul_v2_grad").kernel
    d_x, d_y = grad(draw(2, 3), draw(3, 4), draw(2, 4), want=frozenset({"Y@GRAD"}))
    assert d_x is None and d_y.shape == (3, 4)
