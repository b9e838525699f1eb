"""Layers that hold layers or parameters: Sequential, LayerList, LayerDict, ParameterList."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..tensor import Parameter
from .layer import Layer

__all__ = ["LayerDict", "LayerList", "ParameterList", "Sequential"]


class Sequential(Layer):
    """Layers run one after the other; given as such, or as ``(name, layer)`` pairs, or as one list of either."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        given = layers[0] if len(layers) == 1 and isinstance(layers[0], (list, tuple)) else layers
        if len(layers) == 1 and isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
            given = layers
        for index, each in enumerate(given):
            name, layer = each if isinstance(each, (list, tuple)) else (str(index), each)
            self.add_sublayer(str(name), layer)

    def forward(self, input: Any) -> Any:
        for layer in self._sub_layers.values():
            if layer is not None:
                input = layer(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Sequential(*list(self._sub_layers.items())[index])
        if isinstance(index, str):
            return self._sub_layers[index]
        return list(self._sub_layers.values())[index]

    def __setitem__(self, index: Any, layer: Layer) -> None:
        name = index if isinstance(index, str) else list(self._sub_layers)[index]
        self._sub_layers[name] = layer

    def __delitem__(self, index: Any) -> None:
        del self._sub_layers[index if isinstance(index, str) else list(self._sub_layers)[index]]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._sub_layers.values()))


class LayerList(Layer):
    """A list of layers."""

    def __init__(self, sublayers: Iterable[Layer] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or ())

    def _set(self, layers: list[Any]) -> None:
        self._sub_layers.clear()
        for index, layer in enumerate(layers):
            self.add_sublayer(str(index), layer)

    def __getitem__(self, index: Any) -> Any:
        layers = list(self._sub_layers.values())
        return (
            LayerList(each for each in layers[index] if each is not None) if isinstance(index, slice) else layers[index]
        )

    def __setitem__(self, index: int, layer: Layer) -> None:
        self._sub_layers[list(self._sub_layers)[index]] = layer

    def __delitem__(self, index: Any) -> None:
        layers = list(self._sub_layers.values())
        del layers[index]
        self._set(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._sub_layers.values()))

    def append(self, sublayer: Layer) -> LayerList:
        """Add a layer at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        """Add a layer before position ``index``."""
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        self._set(layers)

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        """Add layers at the end."""
        for each in sublayers:
            self.append(each)
        return self


class LayerDict(Layer):
    """Layers by name."""

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        self.update(sublayers or {})

    def update(self, sublayers: Any) -> None:
        """Add layers from a dict or from ``(name, layer)`` pairs."""
        for name, layer in sublayers.items() if isinstance(sublayers, Mapping) else sublayers:
            self.add_sublayer(name, layer)

    def __getitem__(self, name: str) -> Any:
        return self._sub_layers[name]

    def __setitem__(self, name: str, layer: Layer) -> None:
        self.add_sublayer(name, layer)

    def __delitem__(self, name: str) -> None:
        del self._sub_layers[name]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._sub_layers))

    def __contains__(self, name: object) -> bool:
        return name in self._sub_layers

    def keys(self) -> list[str]:
        """The names."""
        return list(self._sub_layers)

    def values(self) -> list[Any]:
        """The layers."""
        return list(self._sub_layers.values())

    def items(self) -> list[tuple[str, Any]]:
        """Names and layers."""
        return list(self._sub_layers.items())

    def pop(self, name: str) -> Any:
        """Take a layer out."""
        return self._sub_layers.pop(name)

    def clear(self) -> None:
        """Take all layers out."""
        self._sub_layers.clear()


class ParameterList(Layer):
    """A list of parameters."""

    def __init__(self, parameters: Iterable[Parameter] | None = None) -> None:
        super().__init__()
        for each in parameters or ():
            self.append(each)

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[index]

    def __setitem__(self, index: int, parameter: Parameter) -> None:
        self._parameters[list(self._parameters)[index]] = parameter

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def append(self, parameter: Parameter) -> ParameterList:
        """Add a parameter at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self
