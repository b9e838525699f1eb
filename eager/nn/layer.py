"""``Layer``: parameters, buffers and layers in a tree, with a forward function."""

from __future__ import annotations

import itertools
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import InputError
from .. import dtypes, unique_name
from ..place import parse_place
from ..tensor import Parameter, Tensor
from .attr import ParamAttr
from .initializer import Constant, XavierUniform

__all__ = ["Layer"]


class _HookHandle:
    """``remove()`` takes the hook away."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Take the hook away; again is harmless."""
        self._hooks.pop(self._key, None)


def _snake(name: str) -> str:
    """``BatchNorm2D`` -> ``batch_norm2d``."""
    parted = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", parted).lower()


class Layer:
    """The base of all layers. Assigning a Parameter, Layer or registered buffer as attribute puts it in the tree.

    Args:
        name_scope: first part of the names of its parameters, else made from the class name.
        dtype: element type of the parameters it creates.

    Attributes:
        training: whether the layer is in training mode; set by :meth:`train` and :meth:`eval`.
    """

    training: bool
    _parameters: OrderedDict[str, Parameter | None]
    _buffers: OrderedDict[str, Tensor | None]
    _sub_layers: OrderedDict[str, Layer | None]
    _non_persistable_buffer_names_set: set[str]

    def __init__(self, name_scope: str | None = None, dtype: Any = None) -> None:
        put = object.__setattr__
        put(self, "training", True)
        put(self, "_full_name", unique_name.generate(name_scope or _snake(type(self).__name__)))
        put(self, "_dtype", dtypes.get_default_dtype() if dtype is None else dtypes.name_of(dtype))
        for table in ("_parameters", "_buffers", "_sub_layers", "_pre_hooks", "_post_hooks"):
            put(self, table, OrderedDict())
        put(self, "_non_persistable_buffer_names_set", set())
        put(self, "_hook_ids", itertools.count())

    def full_name(self) -> str:
        """The unique name of the layer, e.g. ``linear_0``."""
        name: str = self._full_name
        return name

    # Running

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run pre-hooks, :meth:`forward`, post-hooks."""
        for hook in list(self._pre_hooks.values()):
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        outputs = self.forward(*inputs, **kwargs)
        for hook in list(self._post_hooks.values()):
            changed = hook(self, inputs, outputs)
            if changed is not None:
                outputs = changed
        return outputs

    def register_forward_pre_hook(self, hook: Callable[[Layer, Any], Any]) -> _HookHandle:
        """Call ``hook(layer, inputs)`` before forward; what it returns replaces the inputs."""
        return self._hook(self._pre_hooks, hook)

    def register_forward_post_hook(self, hook: Callable[[Layer, Any, Any], Any]) -> _HookHandle:
        """Call ``hook(layer, inputs, outputs)`` after forward; what it returns replaces the outputs."""
        return self._hook(self._post_hooks, hook)

    def _hook(self, table: dict[int, Any], hook: Callable[..., Any]) -> _HookHandle:
        key = next(self._hook_ids)
        table[key] = hook
        return _HookHandle(table, key)

    def train(self) -> None:
        """Put this layer and all below in training mode."""
        for layer in self.sublayers(include_self=True):
            layer.training = True

    def eval(self) -> None:
        """Put this layer and all below in inference mode."""
        for layer in self.sublayers(include_self=True):
            layer.training = False

    # The tree

    def __setattr__(self, name: str, value: Any) -> None:
        if "_parameters" not in self.__dict__:
            raise RuntimeError(f"call super().__init__() before assigning {name!r} to a Layer")
        tables: tuple[tuple[dict[str, Any], type], ...] = ((self._parameters, Parameter), (self._sub_layers, Layer))
        for table, kind in tables:
            if isinstance(value, kind):
                self._forget(name)
                table[name] = value
                return
            if name in table and value is None:
                table[name] = None
                return
        if name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise InputError(f"buffer {name!r} takes a Tensor or None, got {type(value).__name__}")
            self._buffers[name] = value
            return
        self._parameters.pop(name, None)
        self._sub_layers.pop(name, None)
        object.__setattr__(self, name, value)

    def _forget(self, name: str) -> None:
        self.__dict__.pop(name, None)
        for table in (self._parameters, self._buffers, self._sub_layers):
            if name in table:
                table.pop(name)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_sub_layers", "_buffers"):
            held = self.__dict__.get(table)
            if held is not None and name in held:
                return held[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._sub_layers, self._buffers):
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._parameters, *self._sub_layers, *self._buffers]

    def add_parameter(self, name: str, parameter: Parameter | None) -> Parameter | None:
        """Put a parameter in the tree (None declares that the layer has none under this name)."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise InputError(f"add_parameter({name!r}) takes a Parameter or None, got {type(parameter).__name__}")
        self._check_name(name, self._parameters)
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Layer) -> Layer:
        """Put a layer in the tree."""
        if not isinstance(sublayer, Layer):
            raise InputError(f"add_sublayer({name!r}) takes a Layer, got {type(sublayer).__name__}")
        self._sub_layers[str(name)] = sublayer
        return sublayer

    def register_buffer(self, name: str, tensor: Tensor | None, persistable: bool = True) -> None:
        """Put a tensor that is no parameter in the tree; it is saved with the layer when ``persistable``."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise InputError(f"register_buffer({name!r}) takes a Tensor or None, got {type(tensor).__name__}")
        self._check_name(name, self._buffers)
        if tensor is not None:
            tensor.persistable = persistable
        self._buffers[name] = tensor
        if persistable:
            self._non_persistable_buffer_names_set.discard(name)
        else:
            self._non_persistable_buffer_names_set.add(name)

    def _check_name(self, name: str, table: Mapping[str, Any]) -> None:
        if not isinstance(name, str) or "." in name or not name:
            raise KeyError(f"the name of a parameter or buffer is a string without a dot, got {name!r}")
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute {name!r} already exists in {type(self).__name__}")

    def create_parameter(
        self,
        shape: Iterable[int],
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Parameter | None:
        """A new parameter, not yet in the tree; None when ``attr`` is False."""
        chosen = ParamAttr.of(attr)
        if chosen is None:
            return None
        initializer = chosen.initializer or default_initializer or (Constant(0.0) if is_bias else XavierUniform())
        kind = dtypes.numpy_dtype(self._dtype if dtype is None else dtype)
        name = chosen.name or unique_name.generate(f"{self._full_name}.{'b' if is_bias else 'w'}")
        return Parameter(
            initializer.array(tuple(int(n) for n in shape), kind),
            name=name,
            trainable=chosen.trainable,
            copy=False,
            learning_rate=chosen.learning_rate,
            regularizer=chosen.regularizer,
            need_clip=chosen.need_clip,
        )

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """The layers directly below, with names; each once."""
        seen: set[int] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def children(self) -> Iterator[Layer]:
        """The layers directly below."""
        return (layer for _, layer in self.named_children())

    def named_sublayers(
        self, prefix: str = "", include_self: bool = False, layers_set: set[Layer] | None = None
    ) -> Iterator[tuple[str, Layer]]:
        """All layers below, depth first, with dotted names; each once."""
        seen: set[Layer] = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                yield from layer.named_sublayers(f"{prefix}.{name}" if prefix else name, True, seen)

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """All layers below."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def _named(self, table: str, prefix: str, include_sublayers: bool) -> Iterator[tuple[str, Any]]:
        layers = self.named_sublayers(prefix, include_self=True) if include_sublayers else iter([(prefix, self)])
        seen: set[int] = set()
        for at, layer in layers:
            for name, value in getattr(layer, table).items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{at}.{name}" if at else name, value

    def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with dotted names; each once."""
        return self._named("_parameters", prefix, include_sublayers)

    def parameters(self, include_sublayers: bool = True) -> list[Parameter]:
        """All parameters."""
        return [each for _, each in self.named_parameters(include_sublayers=include_sublayers)]

    def named_buffers(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names; each once."""
        return self._named("_buffers", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Tensor]:
        """All buffers."""
        return [each for _, each in self.named_buffers(include_sublayers=include_sublayers)]

    def apply(self, function: Callable[[Layer], Any]) -> Layer:
        """Call ``function`` on every layer below, then on this one."""
        for layer in self.children():
            layer.apply(function)
        function(self)
        return self

    def clear_gradients(self) -> None:
        """Make the gradients of all trainable parameters zero."""
        for parameter in self.parameters():
            if parameter.trainable:
                parameter.clear_gradient()

    # State

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Tensor]:
        """Dotted name -> parameter or persistable buffer; the tensors themselves, not copies."""
        found: dict[str, Tensor] = OrderedDict() if destination is None else destination
        for name, parameter in self._parameters.items():
            if parameter is not None:
                found[structured_name_prefix + name] = parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistable_buffer_names_set:
                found[structured_name_prefix + name] = buffer
        for name, layer in self._sub_layers.items() if include_sublayers else ():
            if layer is not None:
                layer.state_dict(found, True, f"{structured_name_prefix}{name}.")
        return found

    to_static_state_dict = state_dict

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Overwrite parameters and buffers from arrays or tensors by name.

        Args:
            use_structured_name: the keys are dotted names; else the tensors' own names.

        Returns:
            The names that the layer has and the dict lacks, and those that the dict has and the layer lacks. A
            value of another shape is left out with a warning and counts as missing and as left over.
        """
        missing: list[str] = []
        matched: set[str] = set()
        for structured, tensor in self.state_dict().items():
            key = structured if use_structured_name else tensor.name
            if key not in state_dict:
                missing.append(key)
                warnings.warn(f"Skip loading for {structured}. {key} is not found in the provided dict.", stacklevel=2)
                continue
            value = state_dict[key]
            array = value._array if isinstance(value, Tensor) else np.asarray(value)
            if list(array.shape) != tensor.shape:
                missing.append(key)
                warnings.warn(
                    f"Skip loading for {structured}. {key} receives a shape {list(array.shape)}, but the expected "
                    f"shape is {tensor.shape}.",
                    stacklevel=2,
                )
                continue
            matched.add(key)
            tensor.set_value(array.astype(tensor._array.dtype, copy=False))
        return missing, [key for key in state_dict if key not in matched]

    set_dict = set_state_dict
    load_dict = set_state_dict

    def to(self, device: Any = None, dtype: Any = None, blocking: bool | None = None) -> Layer:
        """Change the element type of all floating parameters and buffers. The only device is the CPU."""
        parse_place(device)
        if dtype is not None:
            kind = dtypes.numpy_dtype(dtype)
            for tensor in (*self.parameters(), *self.buffers()):
                if dtypes.is_floating(tensor._array.dtype):
                    tensor._assign(tensor._array.astype(kind), "Layer.to", counted=True)
            for layer in self.sublayers(include_self=True):
                object.__setattr__(layer, "_dtype", kind.name)
        return self

    def astype(self, dtype: Any) -> Layer:
        """As ``to(dtype=dtype)``."""
        return self.to(dtype=dtype)

    def float(self) -> Layer:
        """As ``to(dtype="float32")``."""
        return self.to(dtype="float32")

    # Text

    def extra_repr(self) -> str:
        """What :func:`repr` shows between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        below = [f"({name}): {layer!r}" for name, layer in self._sub_layers.items()]
        if not below:
            return f"{type(self).__name__}({extra})"
        lines = ([extra] if extra else []) + below
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {body}\n)"
