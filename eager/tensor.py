"""The eager tensor: an array, the storage it shares with its views, and its place in the autograd graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.values import Array, LoDTensor, Meta
from . import dtypes, printing, unique_name
from .graph import AccumulationNode, AutogradError, Edge, GradNode, Hook, HookHandle, StaleLeafNode, edge_of, retain
from .place import CPU, Place
from .storage import Storage
from .tensor_methods import TensorMethods

__all__ = ["Parameter", "Tensor", "borrow", "view_of", "wrap"]


class Tensor(TensorMethods):
    """An n-dimensional array that remembers how it was computed.

    Arithmetic, indexing, and the methods named after operators are those of ``oarlock.*`` functions.

    Args:
        value: the data; copied.
        dtype: element type, else that of ``value``.
        name: a name, else one is made when somebody asks.
        stop_gradient: whether backward ends here.
        persistable: whether the tensor belongs to a model and is saved with it.

    Attributes:
        stop_gradient: True (the default) when no gradient is wanted.
        grad: the gradient that backward accumulated, or None.
    """

    # Values that few tensors change stand on the class, so that making a tensor sets two attributes.
    _array: Array
    _storage: Storage
    _edge: Edge | None = None
    _stop: bool = True
    _name: str | None = None
    _grad: Tensor | None = None
    _persistable: bool = False
    _family: object = None  # tensors that detach() cut from each other differ in it
    _lod: list[list[int]] | None = None
    __array_priority__ = 100  # numpy arrays leave arithmetic with tensors to us

    def __init__(
        self,
        value: Any,
        dtype: Any = None,
        name: str | None = None,
        stop_gradient: bool = True,
        persistable: bool = False,
    ) -> None:
        source = value._array if isinstance(value, Tensor) else value
        array = np.array(source, None if dtype is None else dtypes.numpy_dtype(dtype))
        dtypes.of_numpy(array.dtype)
        self._array = array
        self._storage = Storage()
        self._stop = stop_gradient
        self._name = name
        if persistable:
            self.persistable = True

    # What it is

    @property
    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self._array.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    ndimension = dim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array.size

    @property
    def dtype(self) -> dtypes.dtype:
        """The element type, e.g. ``oarlock.float32``."""
        return dtypes.of_numpy(self._array.dtype)

    @property
    def place(self) -> Place:
        """Where it lives: the CPU."""
        return CPU

    @property
    def strides(self) -> list[int]:
        """The steps between neighbours along each axis, in elements."""
        return [step // self._array.itemsize for step in self._array.strides]

    def get_strides(self) -> list[int]:
        """As :attr:`strides`."""
        return self.strides

    def is_contiguous(self) -> bool:
        """Whether the elements lie in memory in row-major order without gaps."""
        return self._array.flags.c_contiguous

    def element_size(self) -> int:
        """The bytes of one element."""
        return self._array.itemsize

    @property
    def name(self) -> str:
        """A name of its own; made at the first question where none was given."""
        if self._name is None:
            self._name = unique_name.generate("eager_tmp")
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def persistable(self) -> bool:
        """Whether it belongs to a model; writes to it then move ``storage.mutation_epoch()``."""
        return self._persistable

    @persistable.setter
    def persistable(self, persistable: bool) -> None:
        self._persistable = bool(persistable)
        if persistable:
            self._storage.persistable = True

    @property
    def inplace_version(self) -> int:
        """How often the memory was changed in place, through this tensor or a view of it."""
        return self._storage.counter

    def _bump_inplace_version(self) -> None:
        self._storage.bump("_bump_inplace_version")

    def _meta(self) -> Meta:
        return Meta(self._array.shape, self._array.dtype)

    # Values

    def numpy(self) -> Array:
        """A copy of the data."""
        copied: Array = self._array.copy()
        return copied

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype)

    def tolist(self) -> Any:
        """The data as nested lists of Python numbers."""
        return self._array.tolist()

    def item(self, *index: int) -> Any:
        """One element as a Python number: the only one, or the one at ``index`` (flat or by axis).

        Raises:
            InputError: there are several elements and no index, or the index is outside.
        """
        if not index and self._array.size != 1:
            raise InputError(
                "(InvalidArgument) only one element tensors can be converted to Python scalars when no input "
                f"coordinates; this one has {self._array.size} elements"
            )
        try:
            return self._array.item(*index)
        except (IndexError, ValueError) as error:
            raise InputError(f"(InvalidArgument) item{index}: {error}") from error

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub":
            raise TypeError(f"a {self._array.dtype} tensor cannot be used as an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise AssertionError(
                "When Variable is used as the condition of if/while , Variable can only contain one element."
            )
        return bool(self._array.item())

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise ZeroDimensionError("len() of a 0-D tensor is wrong")
        return int(self._array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if self._array.ndim == 0:
            raise ZeroDimensionError("iteration over a 0-D tensor")
        return (self[index] for index in range(self._array.shape[0]))

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self._array.size == 1 else object.__format__(self, spec)

    def __repr__(self) -> str:
        head = f"Tensor(shape={self.shape}, dtype={self._array.dtype.name}, place={self.place}"
        body = printing.array_text(self._array, indent=7)
        return f"{head}, stop_gradient={self._stop},\n       {body})"

    __str__ = __repr__

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise AutogradLeafError(
                "only leaf tensors can be deep-copied: this one was computed; use clone() or detach().clone()"
            )
        made = object.__new__(type(self))
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in _OWN_ATTRIBUTES})
        made._array, made._storage, made._stop = self._array.copy(), Storage(), self._stop
        made._name = unique_name.generate(f"{self.name}_deepcopy")
        made.persistable = self._persistable
        memo[id(self)] = made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self._array, self.name, self._stop, self._persistable)

    # Ragged batches

    def lod(self) -> list[list[int]]:
        """The levels of a ragged batch as offsets; empty for a plain tensor."""
        return [list(level) for level in self._lod or ()]

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """The levels of a ragged batch as lengths; empty for a plain tensor."""
        return LoDTensor(self._array, self._lod or []).lengths()

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Set the levels, as offsets."""
        self._lod = [list(level) for level in lod]

    def set_recursive_sequence_lengths(self, lengths: Sequence[Sequence[int]]) -> None:
        """Set the levels, as lengths."""
        self._lod = LoDTensor.from_lengths(self._array, lengths).lod

    # The graph

    @property
    def stop_gradient(self) -> bool:
        """Whether backward ends here."""
        return self._stop

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self._stop = bool(stop)

    @property
    def is_leaf(self) -> bool:
        """Whether it was not computed by a recorded operator."""
        return self._edge is None or isinstance(self._edge[0], AccumulationNode)

    @property
    def grad_fn(self) -> GradNode | None:
        """The node that backward enters first, or None when there is none yet."""
        edge = edge_of(self)
        return None if edge is None else edge[0]

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient."""
        return self._grad

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if grad is not None and not isinstance(grad, Tensor):
            raise InputError(f"grad must be a Tensor or None, got {type(grad).__name__}")
        if grad is not None and grad._array.shape != self._array.shape:
            raise InputError(f"grad has shape {grad.shape}, the tensor {self.shape}")
        self._grad = grad

    def gradient(self) -> Array | None:
        """The accumulated gradient as an array, or None."""
        return None if self._grad is None else self._grad.numpy()

    def clear_gradient(self, set_to_zero: bool = True) -> None:
        """Make the gradient zero, or with ``set_to_zero=False`` forget it."""
        if self._grad is None:
            return
        if not set_to_zero:
            self._grad = None
            return
        zero = wrap(np.zeros_like(self._grad._array))
        zero._stop = self._grad._stop
        self._grad = zero

    clear_grad = clear_gradient

    def register_hook(self, hook: Hook) -> HookHandle:
        """Call ``hook(gradient)`` when the gradient of this tensor is known; what it returns replaces it.

        The hook belongs to the value that the tensor holds now: after an in-place operator it still sees the
        gradient of the old value.

        Raises:
            AutogradError: the tensor needs no gradient.
        """
        edge = edge_of(self)
        if edge is None:
            raise AutogradError("Cannot register hook on a tensor that stop gradient.")
        return HookHandle(edge, hook)

    def retain_grads(self) -> None:
        """Keep the gradient of a computed tensor in ``grad``; leaves keep theirs anyway."""
        edge = edge_of(self)
        if edge is not None and not self.is_leaf:
            retain(edge, self)

    # Writes that no operator makes

    def _assign(self, value: Array, writer: str, counted: bool = False) -> None:
        """Overwrite the data, or replace it where shape or dtype differ, and count the write."""
        if self._array.shape == value.shape and self._array.dtype == value.dtype:
            self._writable()[...] = value
        else:
            self._array = value
        self._written(writer, counted)

    def _writable(self) -> Array:
        """The array, after moving to memory of its own where that is shared; ``_written`` must follow."""
        if not (self._storage.owned and self._array.flags.writeable):
            self._storage.take_ownership(self)
        return self._array

    def _written(self, writer: str, counted: bool = False) -> None:
        """Count a write to the array that no operator made."""
        self._storage.bump(writer, counted)
        edge = self._edge
        if edge is not None and type(edge[0]) is StaleLeafNode:
            self._edge = edge[0].original

    def set_value(self, value: Any) -> None:
        """Overwrite the data with an array or tensor of the same shape and dtype.

        Raises:
            AssertionError: shape or dtype differ.
        """
        array = value._array if isinstance(value, Tensor) else np.asarray(value)
        if self._array.shape != array.shape:
            raise AssertionError(
                f"Variable Shape not match, Variable [ {self.name} ] need tensor with shape {self.shape} but load "
                f"set tensor with shape {list(array.shape)}"
            )
        if self._array.dtype != array.dtype:
            raise AssertionError(
                f"Variable dtype not match, Variable [ {self.name} ] need tensor with dtype {self.dtype}  but load "
                f"tensor with dtype paddle.{array.dtype.name}"
            )
        self._assign(array, "set_value")

    def copy_(self, source: Tensor, blocking: bool = True) -> Tensor:
        """Take over shape, dtype and a copy of the data of ``source``; returns this tensor."""
        self._assign(source._array.copy(), "copy_")
        return self

    def detach(self) -> Tensor:
        """A tensor over the same memory and version that needs no gradient."""
        made = view_of(self, self._array)
        made._family = object()
        return made

    def detach_(self) -> Tensor:
        """Make this tensor a leaf that needs no gradient."""
        self._edge = None
        self._stop = True
        return self

    def value(self) -> Tensor:
        """This tensor; Paddle's way to the inner tensor."""
        return self

    get_tensor = value

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._array.__array_interface__["data"][0])

    def is_tensor(self) -> bool:
        """True."""
        return True

    def is_dense(self) -> bool:
        """True: eager tensors are dense."""
        return True


class ZeroDimensionError(InputError, AssertionError):
    """A tensor without dimensions was used as a sequence."""


class AutogradLeafError(InputError, RuntimeError):
    """A computed tensor was given where a leaf is needed."""


_OWN_ATTRIBUTES = frozenset({"_array", "_storage", "_edge", "_stop", "_name", "_grad", "_persistable", "_family"})


def wrap(array: Array) -> Tensor:
    """A tensor that takes over an array which nobody else holds. No gradient, no name."""
    made = _new(Tensor)
    made._array = array
    made._storage = Storage()
    return made


def view_of(source: Tensor, array: Array) -> Tensor:
    """A tensor over part of the memory of ``source``, sharing its storage. No gradient."""
    made = _new(Tensor)
    made._array = array
    made._storage = storage = source._storage
    storage.add_alias(source, made)
    if source._family is not None:
        made._family = source._family
    return made


_new = object.__new__


def borrow(array: Array) -> Tensor:
    """A tensor over an array that others may hold: its first in-place write copies."""
    made = wrap(array)
    made._storage.owned = False
    return made


def _restore(kind: type[Tensor], array: Array, name: str, stop_gradient: bool, persistable: bool) -> Tensor:
    made = object.__new__(kind)
    Tensor.__init__(made, array, name=name, stop_gradient=stop_gradient, persistable=persistable)
    return made


class Parameter(Tensor):
    """A tensor that training changes; Paddle's ``EagerParamBase``.

    Args:
        value: the initial data; copied unless ``copy`` is False.
        name: its name in programs and optimizer states.
        trainable: whether it gets a gradient; the opposite of ``stop_gradient``, either may be set.
        copy: False takes over the array, which may be read-only (a mapped file): the first write copies.

    Attributes:
        optimize_attr: ``{"learning_rate": factor}``.
        regularizer: overrides the optimizer's weight decay.
        need_clip: whether gradient clipping applies.
    """

    optimize_attr: dict[str, float]
    regularizer: Any = None
    need_clip: bool = True
    is_distributed: bool = False
    do_model_average: bool | None = None
    initializer: Any = None

    def __init__(
        self,
        value: Any,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        *,
        copy: bool = True,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        need_clip: bool = True,
    ) -> None:
        if copy or not isinstance(value, np.ndarray):
            super().__init__(value, dtype, name or unique_name.generate("_eager_param_base"))
        else:
            self._array = value
            self._storage = Storage()
            self._storage.owned = value.flags.writeable and value.base is None
            self._name = name or unique_name.generate("_eager_param_base")
        self._stop = not trainable
        self.persistable = True
        self.optimize_attr = {"learning_rate": learning_rate}
        if regularizer is not None:
            self.regularizer = regularizer
        if not need_clip:
            self.need_clip = False

    @property
    def trainable(self) -> bool:
        """Whether it gets a gradient: ``not stop_gradient``."""
        return not self._stop

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        if not isinstance(trainable, bool):
            raise InputError(f"trainable must be True or False, got {trainable!r}")
        self._stop = not trainable

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {"optimize_attr": self.optimize_attr, "regularizer": self.regularizer, "need_clip": self.need_clip}
        return _restore_parameter, (self._array, self.name, self.trainable, settings)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    __str__ = __repr__


def _restore_parameter(array: Array, name: str, trainable: bool, settings: dict[str, Any]) -> Parameter:
    made = Parameter(array, name=name, trainable=trainable)
    made.__dict__.update(settings)
    return made
