# fmt: off
# ruff: noqa
"""The methods that ``methods.py`` gives to tensors. Written by ``tools/stub_tensor.py``."""

from typing import Any, Sequence

import numpy as np

from .tensor import Tensor

class TensorMethods:
    @property
    def T(self) -> Tensor:
        """All axes in reverse order."""
    def __abs__(self) -> Tensor: ...
    def __add__(self, other: Any) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __lt__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def abs(self, name: str | None = ...) -> Tensor:
        """The absolute value; of a complex number its modulus."""
    def abs_(self, name: str | None = ...) -> Tensor:
        """In place: The absolute value; of a complex number its modulus."""
    def acos(self, name: str | None = ...) -> Tensor:
        """The arc cosine."""
    def acos_(self, name: str | None = ...) -> Tensor:
        """In place: The arc cosine."""
    def acosh(self, name: str | None = ...) -> Tensor:
        """The inverse hyperbolic cosine."""
    def acosh_(self, name: str | None = ...) -> Tensor:
        """In place: The inverse hyperbolic cosine."""
    def add(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x + y."""
    def add_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x + y."""
    def add_n(self, name: str | None = ...) -> Tensor:
        """The sum of tensors of one shape."""
    def addmm(self, x: Tensor, y: Tensor, beta: float = ..., alpha: float = ..., name: str | None = ...) -> Tensor:
        """``beta * input + alpha * x @ y`` for matrices."""
    def addmm_(self, x: Tensor, y: Tensor, beta: float = ..., alpha: float = ..., name: str | None = ...) -> Tensor:
        """In place: ``beta * input + alpha * x @ y`` for matrices."""
    def all(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """Whether all are true."""
    def allclose(self, y: Tensor, rtol: float = ..., atol: float = ..., equal_nan: bool = ..., name: str | None = ...) -> Tensor:
        """Whether all elements are close (see :func:`isclose`), as a 0-d bool."""
    def amax(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The largest element; equal ones share its gradient."""
    def amin(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The smallest element; equal ones share its gradient."""
    def angle(self, name: str | None = ...) -> Tensor:
        """The phase of complex numbers; 0 or pi for real ones."""
    def any(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """Whether any is true."""
    def argmax(self, axis: int | None = ..., keepdim: bool = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """The position of the largest element, the first of equal ones; in the flattened tensor for ``axis=None``."""
    def argmin(self, axis: int | None = ..., keepdim: bool = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """The position of the smallest element, the first of equal ones; in the flattened tensor for ``axis=None``."""
    def argsort(self, axis: int = ..., descending: bool = ..., name: str | None = ...) -> Tensor:
        """The positions of the elements in order, int64."""
    def as_complex(self, name: str | None = ...) -> Tensor:
        """Pairs in the last axis as complex numbers."""
    def as_real(self, name: str | None = ...) -> Tensor:
        """Complex numbers as pairs in a new last axis."""
    def as_strided(self, shape: Sequence[int], stride: Sequence[int], offset: int = ...) -> Tensor:
        """The memory of ``x`` with any shape and steps, in elements."""
    def asin(self, name: str | None = ...) -> Tensor:
        """The arc sine."""
    def asin_(self, name: str | None = ...) -> Tensor:
        """In place: The arc sine."""
    def asinh(self, name: str | None = ...) -> Tensor:
        """The inverse hyperbolic sine."""
    def asinh_(self, name: str | None = ...) -> Tensor:
        """In place: The inverse hyperbolic sine."""
    def astype(self, dtype: Any) -> Tensor:
        """``x`` with another element type; a copy even when it has it already."""
    def atan(self, name: str | None = ...) -> Tensor:
        """The arc tangent."""
    def atan2(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The angle of the point (y, x)."""
    def atan_(self, name: str | None = ...) -> Tensor:
        """In place: The arc tangent."""
    def atanh(self, name: str | None = ...) -> Tensor:
        """The inverse hyperbolic tangent."""
    def atanh_(self, name: str | None = ...) -> Tensor:
        """In place: The inverse hyperbolic tangent."""
    def backward(self, grad_tensor: Tensor | None = ..., retain_graph: bool = ...) -> None:
        """Add the gradient of this tensor (of its sum, where it has several elements) to ``grad`` of every leaf."""
    def bernoulli(self, name: str | None = ...) -> Tensor:
        """1 with the probability ``x``, else 0."""
    def bincount(self, weights: Tensor | None = ..., minlength: int = ..., name: str | None = ...) -> Tensor:
        """How often each number of at least 0 occurs in a 1-d tensor, or the sum of the weights of its places."""
    def bitwise_and(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The bits set in both."""
    def bitwise_and_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: The bits set in both."""
    def bitwise_not(self, name: str | None = ...) -> Tensor:
        """All bits flipped; of bools the negation."""
    def bitwise_not_(self, name: str | None = ...) -> Tensor:
        """In place: All bits flipped; of bools the negation."""
    def bitwise_or(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The bits set in any."""
    def bitwise_or_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: The bits set in any."""
    def bitwise_xor(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The bits set in one only."""
    def bitwise_xor_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: The bits set in one only."""
    def bmm(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The products of two batches of matrices, each of three dimensions."""
    def broadcast_to(self, shape: Any, name: str | None = ...) -> Tensor:
        """``x`` repeated along axes of size one to ``shape``; -1 keeps a dimension."""
    def bucketize(self, sorted_sequence: Tensor, out_int32: bool = ..., right: bool = ..., name: str | None = ...) -> Tensor:
        """As :func:`searchsorted` with the operands the other way round."""
    def cast(self, dtype: Any) -> Tensor:
        """``x`` with another element type; a copy even when it has it already."""
    def cast_(self, dtype: Any) -> Tensor:
        """In place: ``x`` with another element type; a copy even when it has it already."""
    def cauchy_(self, loc: float = ..., scale: float = ..., name: str | None = ...) -> Tensor:
        """In place: Cauchy around ``loc``."""
    def ceil(self, name: str | None = ...) -> Tensor:
        """The smallest integer not below."""
    def ceil_(self, name: str | None = ...) -> Tensor:
        """In place: The smallest integer not below."""
    def cholesky(self, upper: bool = ..., name: str | None = ...) -> Tensor:
        """The triangular factor of positive definite matrices."""
    def chunk(self, chunks: int, axis: Any = ..., name: str | None = ...) -> list[Tensor]:
        """``chunks`` equal parts along an axis."""
    def clip(self, min: Any = ..., max: Any = ..., name: str | None = ...) -> Tensor:
        """Every element moved into ``[min, max]``; None leaves a side open."""
    def clip_(self, min: Any = ..., max: Any = ..., name: str | None = ...) -> Tensor:
        """In place: Every element moved into ``[min, max]``; None leaves a side open."""
    def clone(self, name: str | None = ...) -> Tensor:
        """A copy; gradients pass."""
    def concat(self, axis: Any = ..., name: str | None = ...) -> Tensor:
        """Tensors joined along an axis."""
    def conj(self, name: str | None = ...) -> Tensor:
        """The complex conjugate."""
    def contiguous(self) -> Tensor:
        """This tensor when its elements lie in row-major order, else a copy where they do."""
    def cos(self, name: str | None = ...) -> Tensor:
        """The cosine."""
    def cos_(self, name: str | None = ...) -> Tensor:
        """In place: The cosine."""
    def cosh(self, name: str | None = ...) -> Tensor:
        """The hyperbolic cosine."""
    def cosh_(self, name: str | None = ...) -> Tensor:
        """In place: The hyperbolic cosine."""
    def count_nonzero(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The number of elements that are not zero, int64."""
    def cpu(self) -> Tensor:
        """A copy that passes no gradient."""
    def cross(self, y: Tensor, axis: int = ..., name: str | None = ...) -> Tensor:
        """The cross product along an axis of size three, the first such by default."""
    def cuda(self, device_id: int | None = ..., blocking: bool = ...) -> Tensor:
        """Always an error: there is no GPU."""
    def cummax(self, axis: int | None = ..., dtype: Any = ..., name: str | None = ...) -> tuple[Tensor, Tensor]:
        """The largest element so far along ``axis`` (of the flattened tensor for None), and its position."""
    def cummin(self, axis: int | None = ..., dtype: Any = ..., name: str | None = ...) -> tuple[Tensor, Tensor]:
        """The smallest element so far along ``axis`` (of the flattened tensor for None), and its position."""
    def cumprod(self, dim: int | None = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """The running product along ``dim``, of the flattened tensor for None."""
    def cumprod_(self, dim: int | None = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """In place: The running product along ``dim``, of the flattened tensor for None."""
    def cumsum(self, axis: int | None = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """The running sum along ``axis``, of the flattened tensor for None."""
    def cumsum_(self, axis: int | None = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """In place: The running sum along ``axis``, of the flattened tensor for None."""
    def deg2rad(self, name: str | None = ...) -> Tensor:
        """Degrees to radians."""
    def det(self, name: str | None = ...) -> Tensor:
        """The determinants of square matrices."""
    def diag(self, offset: int = ..., padding_value: float = ..., name: str | None = ...) -> Tensor:
        """A matrix with a vector on a diagonal, or a diagonal of a matrix."""
    def diag_embed(self, offset: int = ..., dim1: int = ..., dim2: int = ...) -> Tensor:
        """The last axis as diagonals of planes in two new axes."""
    def diagflat(self, offset: int = ..., name: str | None = ...) -> Tensor:
        """A matrix with the flattened tensor on a diagonal."""
    def diagonal(self, offset: int = ..., axis1: int = ..., axis2: int = ..., name: str | None = ...) -> Tensor:
        """The diagonals of the planes of two axes, as a new last axis."""
    def diff(self, n: int = ..., axis: int = ..., prepend: Tensor | None = ..., append: Tensor | None = ..., name: str | None = ...) -> Tensor:
        """The n-th difference of neighbours along ``axis``, with tensors put before and after first."""
    def digamma(self, name: str | None = ...) -> Tensor:
        """The logarithmic derivative of the gamma function."""
    def digamma_(self, name: str | None = ...) -> Tensor:
        """In place: The logarithmic derivative of the gamma function."""
    def dist(self, y: Tensor, p: float = ..., name: str | None = ...) -> Tensor:
        """The p-norm of ``x - y``."""
    def divide(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x / y; of integers the quotient cut towards zero."""
    def divide_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x / y; of integers the quotient cut towards zero."""
    def dot(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The sum of products along the last axis of vectors, or of each row of matrices."""
    def equal(self, y: Tensor, name: str | None = ...) -> Tensor:
        """Whether equal, elementwise."""
    def equal_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: Whether equal, elementwise."""
    def equal_all(self, y: Tensor, name: str | None = ...) -> Tensor:
        """Whether all elements are equal, as a 0-d bool."""
    def erf(self, name: str | None = ...) -> Tensor:
        """The error function."""
    def erfinv(self, name: str | None = ...) -> Tensor:
        """The inverse of the error function."""
    def erfinv_(self, name: str | None = ...) -> Tensor:
        """In place: The inverse of the error function."""
    def exp(self, name: str | None = ...) -> Tensor:
        """e to the power of x."""
    def exp_(self, name: str | None = ...) -> Tensor:
        """In place: e to the power of x."""
    def expand(self, shape: Any, name: str | None = ...) -> Tensor:
        """``x`` repeated along axes of size one to ``shape``; -1 keeps a dimension."""
    def expand_as(self, y: Tensor, name: str | None = ...) -> Tensor:
        """``x`` repeated to the shape of ``y``."""
    def expm1(self, name: str | None = ...) -> Tensor:
        """exp(x) - 1, exact near 0."""
    def exponential_(self, lam: float = ..., name: str | None = ...) -> Tensor:
        """In place: exponential of rate ``lam``. As in Paddle this is allowed on any leaf."""
    def fill_(self, value: Any) -> Tensor:
        """In place: one number everywhere. The old value gets a zero gradient."""
    def fill_diagonal_(self, value: float, offset: int = ..., wrap: bool = ..., name: str | None = ...) -> Tensor:
        """In place: a number on a diagonal; with ``wrap`` again after each block of a tall matrix."""
    def fill_diagonal_tensor(self, y: Tensor, offset: int = ..., dim1: int = ..., dim2: int = ...) -> Tensor:
        """``x`` with a diagonal of the plane of two axes replaced by ``y``."""
    def fill_diagonal_tensor_(self, y: Tensor, offset: int = ..., dim1: int = ..., dim2: int = ...) -> Tensor:
        """In place: ``x`` with a diagonal of the plane of two axes replaced by ``y``."""
    def flatten(self, start_axis: int = ..., stop_axis: int = ..., name: str | None = ...) -> Tensor:
        """Axes ``start_axis`` to ``stop_axis`` as one."""
    def flatten_(self, start_axis: int = ..., stop_axis: int = ..., name: str | None = ...) -> Tensor:
        """In place: Axes ``start_axis`` to ``stop_axis`` as one."""
    def flip(self, axis: Any, name: str | None = ...) -> Tensor:
        """Axes turned round."""
    def floor(self, name: str | None = ...) -> Tensor:
        """The largest integer not above."""
    def floor_(self, name: str | None = ...) -> Tensor:
        """In place: The largest integer not above."""
    def floor_divide(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x / y rounded to an integer."""
    def floor_divide_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x / y rounded to an integer."""
    def floor_mod(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x - floor(x / y) * y; it has the sign of y."""
    def floor_mod_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x - floor(x / y) * y; it has the sign of y."""
    def fmax(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The larger of both; a number wins over nan."""
    def fmin(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The smaller of both; a number wins over nan."""
    def frac(self, name: str | None = ...) -> Tensor:
        """The part after the point, with the sign of x."""
    def frac_(self, name: str | None = ...) -> Tensor:
        """In place: The part after the point, with the sign of x."""
    def gather(self, index: Tensor, axis: Any = ..., name: str | None = ...) -> Tensor:
        """Slices of ``x`` along ``axis`` (the first by default) at the positions in ``index``."""
    def gather_nd(self, index: Tensor, name: str | None = ...) -> Tensor:
        """The elements or slices of ``x`` at the positions in the last axis of ``index``."""
    def gcd(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The greatest common divisor of integers."""
    def gcd_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: The greatest common divisor of integers."""
    def geometric_(self, probs: float, name: str | None = ...) -> Tensor:
        """In place: the continuous form of the geometric distribution that Paddle draws, ``log(u) / log(1 - probs)``."""
    def greater_equal(self, y: Tensor, name: str | None = ...) -> Tensor:
        """Whether x >= y, elementwise."""
    def greater_equal_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: Whether x >= y, elementwise."""
    def greater_than(self, y: Tensor, name: str | None = ...) -> Tensor:
        """Whether x > y, elementwise."""
    def greater_than_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: Whether x > y, elementwise."""
    def heaviside(self, y: Tensor, name: str | None = ...) -> Tensor:
        """0 below zero, y at zero, 1 above."""
    def histogram(self, bins: int = ..., min: float = ..., max: float = ..., name: str | None = ...) -> Tensor:
        """The number of elements in each of ``bins`` equal parts of ``[min, max]``; equal bounds mean those of the data."""
    def hypot(self, y: Tensor, name: str | None = ...) -> Tensor:
        """``sqrt(x^2 + y^2)``."""
    def hypot_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: ``sqrt(x^2 + y^2)``."""
    def i0(self, name: str | None = ...) -> Tensor:
        """The modified Bessel function of the first kind, order 0."""
    def i0_(self, name: str | None = ...) -> Tensor:
        """In place: The modified Bessel function of the first kind, order 0."""
    def i0e(self, name: str | None = ...) -> Tensor:
        """exp(-|x|) * i0(x)."""
    def i1(self, name: str | None = ...) -> Tensor:
        """The modified Bessel function of the first kind, order 1."""
    def i1e(self, name: str | None = ...) -> Tensor:
        """exp(-|x|) * i1(x)."""
    def imag(self, name: str | None = ...) -> Tensor:
        """The imaginary part of complex numbers."""
    def increment(self, value: float = ..., name: str | None = ...) -> Tensor:
        """``x + value`` for a tensor of one element."""
    def index_add(self, index: Tensor, axis: int, value: Tensor, name: str | None = ...) -> Tensor:
        """``x`` with slices of ``value`` added along ``axis`` at the positions in ``index``."""
    def index_add_(self, index: Tensor, axis: int, value: Tensor, name: str | None = ...) -> Tensor:
        """In place: ``x`` with slices of ``value`` added along ``axis`` at the positions in ``index``."""
    def index_fill(self, index: Tensor, axis: int, value: Any, name: str | None = ...) -> Tensor:
        """``x`` with slices along ``axis`` at the positions in ``index`` filled with a number or 0-d tensor."""
    def index_fill_(self, index: Tensor, axis: int, value: Any, name: str | None = ...) -> Tensor:
        """In place: ``x`` with slices along ``axis`` at the positions in ``index`` filled with a number or 0-d tensor."""
    def index_put(self, indices: Sequence[Tensor], value: Tensor, accumulate: bool = ..., name: str | None = ...) -> Tensor:
        """``x`` with ``value`` written (or added) at positions given per axis."""
    def index_put_(self, indices: Sequence[Tensor], value: Tensor, accumulate: bool = ..., name: str | None = ...) -> Tensor:
        """In place: ``x`` with ``value`` written (or added) at positions given per axis."""
    def index_sample(self, index: Tensor) -> Tensor:
        """Row i of the result: elements of row i of ``x`` at ``index[i]``."""
    def index_select(self, index: Tensor, axis: int = ..., name: str | None = ...) -> Tensor:
        """Slices of ``x`` along ``axis`` at the positions in a 1-d ``index``."""
    def inner(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The sums of products over the last axes."""
    def inverse(self, name: str | None = ...) -> Tensor:
        """The inverse of square matrices."""
    def is_complex(self) -> bool:
        """Whether the element type is complex."""
    def is_empty(self, name: str | None = ...) -> Tensor:
        """Whether there are no elements, as a 0-d bool."""
    def is_floating_point(self) -> bool:
        """Whether the element type is a real floating type."""
    def is_integer(self) -> bool:
        """Whether the element type is an integer type."""
    def isclose(self, y: Tensor, rtol: float = ..., atol: float = ..., equal_nan: bool = ..., name: str | None = ...) -> Tensor:
        """Whether ``|x - y| <= atol + rtol * |y|``, elementwise."""
    def isfinite(self, name: str | None = ...) -> Tensor:
        """Whether neither infinite nor nan."""
    def isinf(self, name: str | None = ...) -> Tensor:
        """Whether infinite."""
    def isnan(self, name: str | None = ...) -> Tensor:
        """Whether nan."""
    def kron(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The Kronecker product."""
    def kthvalue(self, k: int, axis: int | None = ..., keepdim: bool = ..., name: str | None = ...) -> tuple[Tensor, Tensor]:
        """The k-th smallest element along ``axis`` and its position."""
    def lcm(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The least common multiple of integers."""
    def lcm_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: The least common multiple of integers."""
    def ldexp(self, y: Tensor, name: str | None = ...) -> Tensor:
        """``x * 2^y``, as floats."""
    def ldexp_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: ``x * 2^y``, as floats."""
    def lerp(self, y: Tensor, weight: Any, name: str | None = ...) -> Tensor:
        """``x + weight * (y - x)``."""
    def lerp_(self, y: Tensor, weight: Any, name: str | None = ...) -> Tensor:
        """In place: ``x + weight * (y - x)``."""
    def less_equal(self, y: Tensor, name: str | None = ...) -> Tensor:
        """Whether x <= y, elementwise."""
    def less_equal_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: Whether x <= y, elementwise."""
    def less_than(self, y: Tensor, name: str | None = ...) -> Tensor:
        """Whether x < y, elementwise."""
    def less_than_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: Whether x < y, elementwise."""
    def lgamma(self, name: str | None = ...) -> Tensor:
        """The logarithm of the absolute value of the gamma function."""
    def lgamma_(self, name: str | None = ...) -> Tensor:
        """In place: The logarithm of the absolute value of the gamma function."""
    def log(self, name: str | None = ...) -> Tensor:
        """The natural logarithm."""
    def log10(self, name: str | None = ...) -> Tensor:
        """The logarithm to base 10."""
    def log10_(self, name: str | None = ...) -> Tensor:
        """In place: The logarithm to base 10."""
    def log1p(self, name: str | None = ...) -> Tensor:
        """log(1 + x), exact near 0."""
    def log1p_(self, name: str | None = ...) -> Tensor:
        """In place: log(1 + x), exact near 0."""
    def log2(self, name: str | None = ...) -> Tensor:
        """The logarithm to base 2."""
    def log2_(self, name: str | None = ...) -> Tensor:
        """In place: The logarithm to base 2."""
    def log_(self, name: str | None = ...) -> Tensor:
        """In place: The natural logarithm."""
    def logaddexp(self, y: Tensor, name: str | None = ...) -> Tensor:
        """``log(exp(x) + exp(y))`` without overflow."""
    def logcumsumexp(self, axis: int | None = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """The running ``logsumexp`` along ``axis``, of the flattened tensor for None."""
    def logical_and(self, y: Tensor, out: Tensor | None = ..., name: str | None = ...) -> Tensor:
        """Whether both are not zero."""
    def logical_and_(self, y: Tensor, out: Tensor | None = ..., name: str | None = ...) -> Tensor:
        """In place: Whether both are not zero."""
    def logical_not(self, name: str | None = ...) -> Tensor:
        """Whether zero."""
    def logical_not_(self, name: str | None = ...) -> Tensor:
        """In place: Whether zero."""
    def logical_or(self, y: Tensor, out: Tensor | None = ..., name: str | None = ...) -> Tensor:
        """Whether any is not zero."""
    def logical_or_(self, y: Tensor, out: Tensor | None = ..., name: str | None = ...) -> Tensor:
        """In place: Whether any is not zero."""
    def logical_xor(self, y: Tensor, out: Tensor | None = ..., name: str | None = ...) -> Tensor:
        """Whether one only is not zero."""
    def logical_xor_(self, y: Tensor, out: Tensor | None = ..., name: str | None = ...) -> Tensor:
        """In place: Whether one only is not zero."""
    def logit(self, eps: float | None = ..., name: str | None = ...) -> Tensor:
        """``log(x / (1 - x))``; with ``eps`` x is first moved into ``[eps, 1 - eps]``, else outside [0, 1] gives nan."""
    def logit_(self, eps: float | None = ..., name: str | None = ...) -> Tensor:
        """In place: ``log(x / (1 - x))``; with ``eps`` x is first moved into ``[eps, 1 - eps]``, else outside [0, 1] gives nan."""
    def logsumexp(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """``log(sum(exp(x)))`` without overflow."""
    def masked_fill(self, mask: Tensor, value: Any, name: str | None = ...) -> Tensor:
        """``x`` with ``value`` (a number or 0-d tensor) where ``mask`` is true."""
    def masked_fill_(self, mask: Tensor, value: Any, name: str | None = ...) -> Tensor:
        """In place: ``x`` with ``value`` (a number or 0-d tensor) where ``mask`` is true."""
    def masked_select(self, mask: Tensor, name: str | None = ...) -> Tensor:
        """The elements where ``mask`` is true, as a 1-d tensor."""
    def matmul(self, y: Tensor, transpose_x: bool = ..., transpose_y: bool = ..., name: str | None = ...) -> Tensor:
        """The matrix product; leading axes broadcast, a 1-d operand is a row on the left and a column on the right."""
    def matrix_power(self, n: int, name: str | None = ...) -> Tensor:
        """Square matrices to an integer power."""
    def max(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The largest element; its gradient goes to every element equal to it."""
    def maximum(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The larger of both; nan wins."""
    def mean(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The arithmetic mean."""
    def median(self, axis: int | None = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The middle value; of an even count the mean of the two middle ones. Integers give floats."""
    def min(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The smallest element; its gradient goes to every element equal to it."""
    def minimum(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The smaller of both; nan wins."""
    def mm(self, mat2: Tensor, name: str | None = ...) -> Tensor:
        """The matrix product."""
    def mod(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x - floor(x / y) * y; it has the sign of y."""
    def mod_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x - floor(x / y) * y; it has the sign of y."""
    def mode(self, axis: int = ..., keepdim: bool = ..., name: str | None = ...) -> tuple[Tensor, Tensor]:
        """The most frequent element along ``axis`` and the position of its last occurrence."""
    def moveaxis(self, source: Any, destination: Any, name: str | None = ...) -> Tensor:
        """Axes moved to other places, the rest in their order."""
    def multi_dot(self, name: str | None = ...) -> Tensor:
        """The product of several matrices, from left to right."""
    def multigammaln(self, p: int, name: str | None = ...) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension ``p``."""
    def multigammaln_(self, p: int, name: str | None = ...) -> Tensor:
        """In place: The logarithm of the multivariate gamma function of dimension ``p``."""
    def multinomial(self, num_samples: int = ..., replacement: bool = ..., name: str | None = ...) -> Tensor:
        """Positions drawn with the weights in the last axis, int64."""
    def multiplex(self, index: Tensor, name: str | None = ...) -> Tensor:
        """Row i of the result is row i of ``inputs[index[i]]``. ``index`` is int32 of shape [N, 1]."""
    def multiply(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x * y."""
    def multiply_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x * y."""
    def mv(self, vec: Tensor, name: str | None = ...) -> Tensor:
        """A matrix times a vector."""
    def nan_to_num(self, nan: float = ..., posinf: float | None = ..., neginf: float | None = ..., name: str | None = ...) -> Tensor:
        """Nan and infinities replaced; by default by 0 and the largest and smallest numbers of the type."""
    def nan_to_num_(self, nan: float = ..., posinf: float | None = ..., neginf: float | None = ..., name: str | None = ...) -> Tensor:
        """In place: Nan and infinities replaced; by default by 0 and the largest and smallest numbers of the type."""
    def nanmean(self, axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The mean of what is not nan."""
    def nansum(self, axis: Any = ..., dtype: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The sum of what is not nan."""
    def neg(self, name: str | None = ...) -> Tensor:
        """The negative."""
    def neg_(self, name: str | None = ...) -> Tensor:
        """In place: The negative."""
    def nextafter(self, y: Tensor, name: str | None = ...) -> Tensor:
        """The next number after x in the direction of y."""
    def nonzero(self, as_tuple: bool = ...) -> Any:
        """The positions of elements that are not zero: [n, ndim], or per axis a tensor of shape [n, 1]. int64."""
    def norm(self, p: Any = ..., axis: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """A norm over one axis, two axes or all: ``p`` is a number, ``"fro"``, or infinite. None means 2."""
    def normal_(self, mean: float = ..., std: float = ..., name: str | None = ...) -> Tensor:
        """In place: normal."""
    def not_equal(self, y: Tensor, name: str | None = ...) -> Tensor:
        """Whether not equal, elementwise."""
    def not_equal_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: Whether not equal, elementwise."""
    def numel(self, name: str | None = ...) -> Tensor:
        """The number of elements, 0-d int64."""
    def outer(self, y: Tensor, name: str | None = ...) -> Tensor:
        """All products of elements of the flattened tensors, a matrix."""
    def pin_memory(self) -> Tensor:
        """This tensor: host memory is all there is."""
    def polygamma(self, n: int, name: str | None = ...) -> Tensor:
        """The n-th derivative of the digamma function."""
    def polygamma_(self, n: int, name: str | None = ...) -> Tensor:
        """In place: The n-th derivative of the digamma function."""
    def pow(self, y: Any, name: str | None = ...) -> Tensor:
        """``x`` to the power of a number or of a tensor, elementwise."""
    def pow_(self, y: Any, name: str | None = ...) -> Tensor:
        """In place: ``x`` to the power of a number or of a tensor, elementwise."""
    def prod(self, axis: Any = ..., keepdim: bool = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """The product, of ``x`` as ``dtype`` where that is given."""
    def put_along_axis(self, indices: Tensor, values: Any, axis: int, reduce: str = ..., include_self: bool = ..., broadcast: bool = ...) -> Tensor:
        """``arr`` with elements along ``axis`` overwritten (or ``"add"``, ``"mul"``) at positions given for every place."""
    def put_along_axis_(self, indices: Tensor, values: Any, axis: int, reduce: str = ..., include_self: bool = ..., broadcast: bool = ...) -> Tensor:
        """In place: ``arr`` with elements along ``axis`` overwritten (or ``"add"``, ``"mul"``) at positions given for every place."""
    def quantile(self, q: Any, axis: Any = ..., keepdim: bool = ...) -> Tensor:
        """The value below which the share ``q`` of the elements lies, interpolated, as float64."""
    def rad2deg(self, name: str | None = ...) -> Tensor:
        """Radians to degrees."""
    def rank(self) -> Tensor:
        """The number of dimensions, 0-d int32."""
    def real(self, name: str | None = ...) -> Tensor:
        """The real part of complex numbers."""
    def reciprocal(self, name: str | None = ...) -> Tensor:
        """1 / x."""
    def reciprocal_(self, name: str | None = ...) -> Tensor:
        """In place: 1 / x."""
    def remainder(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x - floor(x / y) * y; it has the sign of y."""
    def remainder_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x - floor(x / y) * y; it has the sign of y."""
    def renorm(self, p: float, axis: int, max_norm: float) -> Tensor:
        """Every slice along ``axis`` whose p-norm exceeds ``max_norm`` scaled down to it."""
    def renorm_(self, p: float, axis: int, max_norm: float) -> Tensor:
        """In place: Every slice along ``axis`` whose p-norm exceeds ``max_norm`` scaled down to it."""
    def repeat_interleave(self, repeats: Any, axis: int | None = ..., name: str | None = ...) -> Tensor:
        """Every slice along ``axis`` repeated, in place of itself; of the flattened tensor for ``axis=None``."""
    def reshape(self, shape: Any, name: str | None = ...) -> Tensor:
        """``x`` with another shape over the same memory; -1 is worked out, 0 keeps the dimension at its place."""
    def reshape_(self, shape: Any, name: str | None = ...) -> Tensor:
        """In place: ``x`` with another shape over the same memory; -1 is worked out, 0 keeps the dimension at its place."""
    def reverse(self, axis: Any, name: str | None = ...) -> Tensor:
        """Axes turned round."""
    def roll(self, shifts: Any, axis: Any = ..., name: str | None = ...) -> Tensor:
        """Elements moved along axes, those that leave at the end come in at the start."""
    def rot90(self, k: int = ..., axes: Sequence[int] = ..., name: str | None = ...) -> Tensor:
        """Turned by ``k`` right angles in a plane of two axes."""
    def round(self, name: str | None = ...) -> Tensor:
        """The nearest integer, halves away from zero."""
    def round_(self, name: str | None = ...) -> Tensor:
        """In place: The nearest integer, halves away from zero."""
    def rsqrt(self, name: str | None = ...) -> Tensor:
        """1 / sqrt(x)."""
    def rsqrt_(self, name: str | None = ...) -> Tensor:
        """In place: 1 / sqrt(x)."""
    def scale(self, scale: Any = ..., bias: float = ..., bias_after_scale: bool = ..., act: str | None = ..., name: str | None = ...) -> Tensor:
        """``scale * x + bias``, or ``scale * (x + bias)``; then the activation ``act``."""
    def scale_(self, scale: Any = ..., bias: float = ..., bias_after_scale: bool = ..., act: str | None = ..., name: str | None = ...) -> Tensor:
        """In place: ``scale * x + bias``, or ``scale * (x + bias)``; then the activation ``act``."""
    def scatter(self, index: Tensor, updates: Tensor, overwrite: bool = ..., name: str | None = ...) -> Tensor:
        """``x`` with rows overwritten, or zeroed and summed up, by ``updates`` at the positions in ``index``."""
    def scatter_(self, index: Tensor, updates: Tensor, overwrite: bool = ..., name: str | None = ...) -> Tensor:
        """In place: ``x`` with rows overwritten, or zeroed and summed up, by ``updates`` at the positions in ``index``."""
    def scatter_nd_add(self, index: Tensor, updates: Tensor, name: str | None = ...) -> Tensor:
        """``x`` with ``updates`` added at the positions in the last axis of ``index``."""
    def sgn(self, name: str | None = ...) -> Tensor:
        """The sign; of a complex number ``x / |x|``."""
    def sigmoid(self, name: str | None = ...) -> Tensor:
        """1 / (1 + exp(-x))."""
    def sigmoid_(self, name: str | None = ...) -> Tensor:
        """In place: 1 / (1 + exp(-x))."""
    def sign(self, name: str | None = ...) -> Tensor:
        """-1, 0 or 1."""
    def sin(self, name: str | None = ...) -> Tensor:
        """The sine."""
    def sin_(self, name: str | None = ...) -> Tensor:
        """In place: The sine."""
    def sinh(self, name: str | None = ...) -> Tensor:
        """The hyperbolic sine."""
    def sinh_(self, name: str | None = ...) -> Tensor:
        """In place: The hyperbolic sine."""
    def slice(self, axes: Sequence[int], starts: Any, ends: Any) -> Tensor:
        """``input`` from start to end along some axes; negative positions count from the end."""
    def softmax(self, axis: int = ..., dtype: Any = ..., name: str | None = ...) -> Tensor:
        """``exp(x) / sum(exp(x))`` along ``axis``, of ``x`` as ``dtype`` where that is given."""
    def solve(self, y: Tensor, name: str | None = ...) -> Tensor:
        """``z`` with ``x @ z = y``, through the inverse so that gradients pass."""
    def sort(self, axis: int = ..., descending: bool = ..., name: str | None = ...) -> Tensor:
        """The elements in order."""
    def split(self, num_or_sections: Any, axis: Any = ..., name: str | None = ...) -> list[Tensor]:
        """Parts along an axis: a number of equal ones, or the given sizes, one of which may be -1."""
    def sqrt(self, name: str | None = ...) -> Tensor:
        """The square root."""
    def sqrt_(self, name: str | None = ...) -> Tensor:
        """In place: The square root."""
    def square(self, name: str | None = ...) -> Tensor:
        """x * x."""
    def squeeze(self, axis: Any = ..., name: str | None = ...) -> Tensor:
        """Without the axes of size one, or without those named in ``axis`` that have it."""
    def squeeze_(self, axis: Any = ..., name: str | None = ...) -> Tensor:
        """In place: Without the axes of size one, or without those named in ``axis`` that have it."""
    def stack(self, axis: int = ..., name: str | None = ...) -> Tensor:
        """Tensors of one shape joined along a new axis."""
    def stanh(self, scale_a: float = ..., scale_b: float = ..., name: str | None = ...) -> Tensor:
        """``scale_b * tanh(scale_a * x)``."""
    def std(self, axis: Any = ..., unbiased: bool = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The standard deviation."""
    def strided_slice(self, axes: Sequence[int], starts: Any, ends: Any, strides: Any, name: str | None = ...) -> Tensor:
        """``x`` from start to end in steps along some axes."""
    def subtract(self, y: Tensor, name: str | None = ...) -> Tensor:
        """x - y."""
    def subtract_(self, y: Tensor, name: str | None = ...) -> Tensor:
        """In place: x - y."""
    def sum(self, axis: Any = ..., dtype: Any = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The sum; of bools and int32 as int64, or as ``dtype``."""
    def t(self, name: str | None = ...) -> Tensor:
        """The transposed matrix; tensors of fewer dimensions as they are."""
    def t_(self, name: str | None = ...) -> Tensor:
        """In place: The transposed matrix; tensors of fewer dimensions as they are."""
    def take(self, index: Tensor, mode: str = ..., name: str | None = ...) -> Tensor:
        """Elements of the flattened tensor; ``mode`` says what positions outside do: raise, wrap, clip."""
    def take_along_axis(self, indices: Tensor, axis: int, broadcast: bool = ...) -> Tensor:
        """Elements of ``arr`` along ``axis`` at positions that are given for every place."""
    def tan(self, name: str | None = ...) -> Tensor:
        """The tangent."""
    def tan_(self, name: str | None = ...) -> Tensor:
        """In place: The tangent."""
    def tanh(self, name: str | None = ...) -> Tensor:
        """The hyperbolic tangent."""
    def tanh_(self, name: str | None = ...) -> Tensor:
        """In place: The hyperbolic tangent."""
    def tensordot(self, y: Tensor, axes: Any = ..., name: str | None = ...) -> Tensor:
        """The sum of products over pairs of axes: the last n of x with the first n of y, or those listed."""
    def tile(self, repeat_times: Any, name: str | None = ...) -> Tensor:
        """``x`` repeated along each axis."""
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """With another element type, or that of another tensor. The only device is the CPU."""
    def topk(self, k: Any, axis: int | None = ..., largest: bool = ..., sorted: bool = ..., name: str | None = ...) -> tuple[Tensor, Tensor]:
        """The ``k`` largest (or smallest) elements along ``axis``, the last by default, and their positions."""
    def trace(self, offset: int = ..., axis1: int = ..., axis2: int = ..., name: str | None = ...) -> Tensor:
        """The sums of diagonals of the planes of two axes."""
    def transpose(self, perm: Sequence[int], name: str | None = ...) -> Tensor:
        """Axis ``perm[i]`` of ``x`` becomes axis i."""
    def transpose_(self, perm: Sequence[int], name: str | None = ...) -> Tensor:
        """In place: Axis ``perm[i]`` of ``x`` becomes axis i."""
    def tril(self, diagonal: int = ..., name: str | None = ...) -> Tensor:
        """The lower triangle of matrices, zero above the diagonal."""
    def tril_(self, diagonal: int = ..., name: str | None = ...) -> Tensor:
        """In place: The lower triangle of matrices, zero above the diagonal."""
    def triu(self, diagonal: int = ..., name: str | None = ...) -> Tensor:
        """The upper triangle of matrices, zero below the diagonal."""
    def triu_(self, diagonal: int = ..., name: str | None = ...) -> Tensor:
        """In place: The upper triangle of matrices, zero below the diagonal."""
    def trunc(self, name: str | None = ...) -> Tensor:
        """The integer part."""
    def trunc_(self, name: str | None = ...) -> Tensor:
        """In place: The integer part."""
    def unbind(self, axis: int = ...) -> list[Tensor]:
        """The slices along an axis, which disappears."""
    def unflatten(self, axis: int, shape: Any, name: str | None = ...) -> Tensor:
        """One axis split into ``shape``."""
    def uniform_(self, min: float = ..., max: float = ..., seed: int = ..., name: str | None = ...) -> Tensor:
        """In place: uniform between ``min`` and ``max``."""
    def unique(self, return_index: bool = ..., return_inverse: bool = ..., return_counts: bool = ..., axis: int | None = ..., dtype: Any = ..., name: str | None = ...) -> Any:
        """The distinct elements in order (of the flattened tensor for ``axis=None``)."""
    def unique_consecutive(self, return_inverse: bool = ..., return_counts: bool = ..., axis: int | None = ..., dtype: Any = ..., name: str | None = ...) -> Any:
        """Each run of equal elements once; with the way back and counts as asked for."""
    def unsqueeze(self, axis: Any, name: str | None = ...) -> Tensor:
        """With new axes of size one."""
    def unsqueeze_(self, axis: Any, name: str | None = ...) -> Tensor:
        """In place: With new axes of size one."""
    def unstack(self, axis: int = ..., num: int | None = ...) -> list[Tensor]:
        """As :func:`unbind`, in memory of their own."""
    def var(self, axis: Any = ..., unbiased: bool = ..., keepdim: bool = ..., name: str | None = ...) -> Tensor:
        """The variance; ``unbiased`` divides by n - 1."""
    def view(self, shape_or_dtype: Any, name: str | None = ...) -> Tensor:
        """The same memory with another shape, or read as another element type."""
    def view_as(self, other: Tensor, name: str | None = ...) -> Tensor:
        """``x`` with the shape of ``other``."""
    def vsplit(self, num_or_sections: Any, name: str | None = ...) -> list[Tensor]:
        """Parts along the first axis."""
    def where(self, x: Any = ..., y: Any = ..., name: str | None = ...) -> Tensor | tuple[Tensor, ...]:
        """Elements of ``x`` where the condition holds, else of ``y``; without them the positions where it holds."""
    def where_(self, x: Any = ..., y: Any = ..., name: str | None = ...) -> Tensor:
        """In place in ``x``: elements of ``x`` where the condition holds, else of ``y``."""
    def zero_(self) -> Tensor:
        """In place: zero everywhere."""
