"""Linear algebra. Literal numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(4)


def draw(*shape: int) -> Any:
    return np.asarray(RNG.standard_normal(shape))


def positive(*batch: int, n: int = 3) -> Any:
    x = draw(*batch, n, n)
    return x @ x.swapaxes(-1, -2) + n * np.eye(n)


def f32(*rows: Any) -> Any:
    return np.array(rows, np.float32)


class TestSystems:
    @pytest.mark.parametrize(
        ("x", "y", "out"),
        [
            ((3, 3), (3, 2), (3, 2)),
            ((3, 3), (3,), (3,)),
            ((2, 3, 3), (2, 3), (2, 3)),
            ((2, 3, 3), (3, 2), (2, 3, 2)),
            ((3, 3), (2, 3, 2), (2, 3, 2)),
            ((2, 3, 3), (1, 3, 2), (2, 3, 2)),
        ],
    )
    def test_solve_takes_columns_or_one_vector_for_each_matrix(self, run_op, gradcheck, x, y, out) -> None:
        inputs = {"X": draw(*x) + 3 * np.eye(3), "Y": draw(*y)}
        got = run_op("solve", inputs)["Out"]
        assert got.shape == out
        back = (inputs["X"] @ (got[..., None] if len(out) < len(x) or len(y) == 1 else got)).reshape(out)
        np.testing.assert_allclose(back, np.broadcast_to(inputs["Y"], out))
        gradcheck("solve", inputs)

    @pytest.mark.parametrize("upper", [False, True])
    @pytest.mark.parametrize("transpose", [False, True])
    @pytest.mark.parametrize("unit", [False, True])
    def test_triangular_solve_reads_one_triangle(self, run_op, gradcheck, upper, transpose, unit) -> None:
        x, y = draw(2, 3, 3) + 3 * np.eye(3), draw(3, 2)
        attrs = {"upper": upper, "transpose": transpose, "unitriangular": unit}
        triangle = np.triu(x) if upper else np.tril(x)
        if unit:
            triangle = triangle * (1 - np.eye(3)) + np.eye(3)
        want = np.linalg.solve(triangle.swapaxes(-1, -2) if transpose else triangle, np.stack([y, y]))
        np.testing.assert_allclose(run_op("triangular_solve", {"X": x, "Y": y}, attrs)["Out"], want)
        gradcheck("triangular_solve", {"X": x, "Y": y}, attrs)

    @pytest.mark.parametrize("upper", [False, True])
    def test_cholesky_and_its_solve(self, run_op, gradcheck, upper) -> None:
        matrix = positive(2)
        factor = run_op("cholesky", {"X": matrix}, {"upper": upper})["Out"]
        turned = factor.swapaxes(-1, -2)
        np.testing.assert_allclose(turned @ factor if upper else factor @ turned, matrix)
        assert np.array_equal(factor, np.triu(factor) if upper else np.tril(factor))
        inputs = {"X": draw(2, 3, 2), "Y": factor}
        solution = run_op("cholesky_solve", inputs, {"upper": upper})["Out"]
        np.testing.assert_allclose(matrix @ solution, inputs["X"])
        gradcheck("cholesky_solve", inputs, {"upper": upper})

    def test_cholesky_gradient_is_symmetric(self, run_op) -> None:
        x, d, step = positive(), draw(3, 3), 1e-6
        gradient = run_op("cholesky", {"X": x}, cotangents={"Out": d}).gradients["X"]
        np.testing.assert_allclose(gradient, gradient.T)
        direction = positive()
        ahead, behind = (np.linalg.cholesky(x + s * direction) for s in (step, -step))
        np.testing.assert_allclose((gradient * direction).sum(), (d * (ahead - behind)).sum() / (2 * step), rtol=1e-6)

    def test_what_has_no_solution_is_refused(self) -> None:
        for type, slot in [("inverse", "Input"), ("solve", "X")]:
            with pytest.raises(ValueError, match=slot):
                lookup(type).kernel(*[np.ones((2, 2))] * len(lookup(type).inputs))
        with pytest.raises(ValueError, match="not positive definite"):
            lookup("cholesky").kernel(-np.eye(2))
        with pytest.raises(ValueError, match=r"square matrices.*\[2, 3\]"):
            lookup("inverse").kernel(draw(2, 3))

    @pytest.mark.parametrize("driver", ["gels", "gelsy", "gelss", "gelsd"])
    def test_lstsq(self, run_op, driver) -> None:
        x, y = draw(2, 5, 3), draw(2, 5, 2)
        got = run_op("lstsq", {"X": x, "Y": y}, {"driver": driver, "rcond": 1e-10})
        for i in range(2):
            solution, residuals, _, values = np.linalg.lstsq(x[i], y[i], rcond=None)
            np.testing.assert_allclose(got["Solution"][i], solution)
            np.testing.assert_allclose(got["Residuals"][i], residuals)
            if driver in ("gelss", "gelsd"):
                np.testing.assert_allclose(got["SingularValues"][i], values)
        assert got["Rank"].tolist() == ([] if driver == "gels" else [3, 3])
        assert got["Rank"].dtype == np.int32
        wide = run_op("lstsq", {"X": draw(3, 5), "Y": draw(3, 2)}, {"driver": driver})
        assert wide["Solution"].shape == (5, 2) and wide["Residuals"].size == 0


class TestDeterminants:
    def test_shapes(self, run_op) -> None:
        assert run_op("determinant", {"Input": np.eye(3)})["Out"].shape == ()
        assert run_op("determinant", {"Input": np.eye(3)}, declared={"Out": (1,)})["Out"].shape == (1,)
        assert run_op("slogdeterminant", {"Input": draw(4, 3, 3)})["Out"].shape == (2, 4)

    def test_values(self, run_op) -> None:
        x = np.array([[1.0, 2.0], [3.0, 4.0]])
        np.testing.assert_allclose(run_op("determinant", {"Input": x})["Out"], -2)
        np.testing.assert_allclose(run_op("slogdeterminant", {"Input": x})["Out"], [-1, np.log(2)])

    @pytest.mark.parametrize("type", ["determinant", "slogdeterminant"])
    def test_singular_matrices_get_no_gradient(self, run_op, type) -> None:
        out = run_op(type, {"Input": np.ones((2, 2))})["Out"]
        got = run_op(type, {"Input": np.ones((2, 2))}, cotangents={"Out": np.ones_like(out)})
        np.testing.assert_array_equal(got.gradients["Input"], np.zeros((2, 2)))


class TestDecompositions:
    def test_lu_packs_its_factors(self, run_op) -> None:
        d_out = f32([1, 0], [0, 1])
        got = run_op("lu", {"X": f32([1, 2], [3, 4])}, cotangents={"Out": d_out})
        np.testing.assert_allclose(got["Out"], [[3, 4], [1 / 3, 2 / 3]], rtol=1e-6)  # Paddle, as all below
        assert got["Pivots"].tolist() == [2, 2] and got["Infos"].tolist() == [0]
        assert got["Pivots"].dtype == got["Infos"].dtype == np.int32
        np.testing.assert_allclose(got.gradients["X"], [[-4 / 3, 1], [13 / 9, -1 / 3]], rtol=1e-5)

    @pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
    def test_lu_multiplies_back(self, run_op, gradcheck, shape) -> None:
        x = draw(*shape)
        packed = run_op("lu", {"X": x})
        parts = run_op("lu_unpack", {"X": packed["Out"], "Pivots": packed["Pivots"]})
        np.testing.assert_allclose(parts["Pmat"] @ parts["L"] @ parts["U"], x, atol=1e-12)
        gradcheck("lu", {"X": x}, outputs=["Out"])
        gradcheck("lu_unpack", {"X": packed["Out"], "Pivots": packed["Pivots"]}, wrt=["X"], outputs=["L", "U"])

    def test_lu_tells_the_first_zero_pivot(self, run_op) -> None:
        assert run_op("lu", {"X": np.array([[1.0, 2.0], [2.0, 4.0]])})["Infos"].tolist() == [2]

    def test_qr(self, run_op) -> None:
        cotangents = {"Q": np.eye(2, dtype=np.float32), "R": f32([1, 1], [0, 1])}
        got = run_op("qr", {"X": f32([3, 1], [4, 2])}, cotangents=cotangents)
        np.testing.assert_allclose(got["Q"], [[-0.6, -0.8], [-0.8, 0.6]], rtol=1e-5)  # Paddle, as all below
        np.testing.assert_allclose(got["R"], [[-5, -2.2], [0, 0.4]], rtol=1e-5)
        np.testing.assert_allclose(got.gradients["X"], [[-0.184, -1.4001], [-1.112, -0.2]], rtol=1e-3)

    @pytest.mark.parametrize(("mode", "q"), [("reduced", (5, 3)), ("complete", (5, 5)), ("r", (0,))])
    def test_qr_modes(self, run_op, mode, q) -> None:
        got = run_op("qr", {"X": draw(5, 3)}, {"mode": mode})
        assert got["Q"].shape == q and got["R"].shape == ((5, 3) if mode == "complete" else (3, 3))

    @pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5)])
    def test_qr_gradient(self, gradcheck, shape) -> None:
        gradcheck("qr", {"X": draw(*shape)})

    @pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5)])
    def test_svd(self, run_op, gradcheck, shape) -> None:
        x = draw(*shape)
        got = run_op("svd", {"X": x})
        np.testing.assert_allclose(got["U"] * got["S"][..., None, :] @ got["VH"], x, atol=1e-12)
        gradcheck("svd", {"X": x}, outputs=["S"])

    def test_svd_gradient_of_the_vectors(self, run_op) -> None:
        """Of a function of both that no sign of a vector changes: ``sum(c * U VH)``, the nearest rotation."""
        x, c, direction, step = draw(4, 3), draw(4, 3), draw(4, 3), 1e-6
        parts = run_op("svd", {"X": x})
        cotangents = {"U": c @ parts["VH"].T, "VH": parts["U"].T @ c}
        gradient = run_op("svd", {"X": x}, cotangents=cotangents).gradients["X"]

        def value(at: Any) -> Any:
            u, _, vh = np.linalg.svd(at, full_matrices=False)
            return (c * (u @ vh)).sum()

        change = (value(x + step * direction) - value(x - step * direction)) / (2 * step)
        np.testing.assert_allclose((gradient * direction).sum(), change, rtol=1e-6)

    @pytest.mark.parametrize("uplo", ["L", "U"])
    def test_eigh_reads_one_half(self, run_op, uplo) -> None:
        x = draw(2, 3, 3)
        half = np.tril(x) if uplo == "L" else np.triu(x)
        whole = half + half.swapaxes(-1, -2) * (1 - np.eye(3))
        got = run_op("eigh", {"X": x}, {"UPLO": uplo})
        vectors = got["Eigenvectors"]
        np.testing.assert_allclose(whole @ vectors, vectors * got["Eigenvalues"][..., None, :], atol=1e-12)
        lengths = run_op("eigvalsh", {"X": x}, {"UPLO": uplo})
        np.testing.assert_allclose(lengths["Eigenvalues"], got["Eigenvalues"])
        assert run_op("eigvalsh", {"X": x}, {"UPLO": uplo, "is_test": True})["Eigenvectors"] is None

    @pytest.mark.parametrize("type", ["eigh", "eigvalsh"])
    def test_symmetric_eigenvalue_gradients(self, run_op, type) -> None:
        x, direction, d, step = positive(2), positive(2), draw(2, 3), 1e-6
        gradient = run_op(type, {"X": x}, cotangents={"Eigenvalues": d}).gradients["X"]
        ahead, behind = (np.linalg.eigvalsh(x + s * direction) for s in (step, -step))
        np.testing.assert_allclose((gradient * direction).sum(), (d * (ahead - behind)).sum() / (2 * step), rtol=1e-5)

    @pytest.mark.parametrize(("dtype", "out"), [(np.float32, np.complex64), (np.float64, np.complex128)])
    def test_eig_is_complex_with_unit_vectors(self, run_op, dtype, out) -> None:
        x = draw(5, 5).astype(dtype)
        got = run_op("eig", {"X": x})
        values, vectors = got["Eigenvalues"], got["Eigenvectors"]
        assert values.dtype == vectors.dtype == out
        np.testing.assert_allclose(x @ vectors, vectors * values, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1, rtol=1e-5)
        alone = run_op("eigvals", {"X": x})["Out"]
        np.testing.assert_allclose(np.sort_complex(alone), np.sort_complex(values), atol=1e-5)

    def test_eig_gradient_of_the_values(self, run_op) -> None:
        x, direction, step = draw(4, 4), draw(4, 4), 1e-6
        values = run_op("eig", {"X": x})["Eigenvalues"]
        d = 2 * values  # of sum |value|^2, which no order changes
        gradient = run_op("eig", {"X": x}, cotangents={"Eigenvalues": d}).gradients["X"].real
        ahead, behind = ((np.abs(np.linalg.eigvals(x + s * direction)) ** 2).sum() for s in (step, -step))
        np.testing.assert_allclose((gradient * direction).sum(), (ahead - behind) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize(
    ("attrs", "tolerance", "want"),
    [
        ({}, None, 4),
        ({"use_default_tol": False, "tol": 0.5}, None, 2),
        ({"use_default_tol": False, "tol": 0.05, "hermitian": True}, None, 3),
        ({}, np.array(0.05), 3),
        ({}, np.array([0.05, 2.0]), [3, 1]),
    ],
)
def test_matrix_rank(run_op, attrs, tolerance, want) -> None:
    inputs = {"X": np.diag([10, 1, 0.1, 1e-3, 0])}
    if tolerance is not None:
        inputs["TolTensor"] = tolerance
    got = run_op("matrix_rank", inputs, attrs)["Out"]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, want)  # Paddle


def test_renorm_scales_down_only(run_op) -> None:
    attrs = {"p": 2.0, "axis": 0, "max_norm": 1.0}
    got = run_op("renorm", {"X": f32([3, 4], [0.1, 0.2])}, attrs, cotangents={"Out": f32([1, 0], [1, 1])})
    np.testing.assert_allclose(got["Out"], [[0.6, 0.8], [0.1, 0.2]], rtol=1e-6)
    np.testing.assert_allclose(got.gradients["X"], [[0.128, -0.096], [1, 1]], rtol=1e-5)  # Paddle


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 3])
def test_matrix_power(run_op, gradcheck, n) -> None:
    x = draw(2, 3, 3)
    np.testing.assert_allclose(run_op("matrix_power", {"X": x}, {"n": n})["Out"], np.linalg.matrix_power(x, n))
    gradcheck("matrix_power", {"X": x}, {"n": n})


def test_multi_dot_with_vectors_at_the_ends(run_op) -> None:
    got = run_op("multi_dot", {"X": [np.ones(3), np.eye(3), np.arange(3.0)]})["Out"]
    assert got.shape == () and got == 3
    with pytest.raises(ValueError, match="at least 2"):
        lookup("multi_dot").kernel([np.eye(2)])


GRADIENTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("inverse", {"Input": draw(2, 3, 3)}, {}),
    ("inverse", {"Input": draw(3, 3) + 1j * draw(3, 3)}, {}),
    ("determinant", {"Input": draw(2, 3, 3)}, {}),
    ("slogdeterminant", {"Input": draw(2, 3, 3)}, {}),
    ("renorm", {"X": 3 * draw(2, 3, 4)}, {"p": 2.5, "axis": 1, "max_norm": 2.0}),
]


@pytest.mark.parametrize(("type", "inputs", "attrs"), GRADIENTS, ids=[f"{i}-{g[0]}" for i, g in enumerate(GRADIENTS)])
def test_gradients_agree_with_differences(gradcheck, type, inputs, attrs) -> None:
    gradcheck(type, inputs, attrs)
