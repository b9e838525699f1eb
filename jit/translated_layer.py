"""``TranslatedLayer``: a loaded model as a layer. It runs, it trains, it can sit inside a bigger layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..eager.graph import connect
from ..eager.mode import is_grad_enabled
from ..eager.nn.layer import Layer
from ..eager.static_mode import recorder
from ..eager.tensor import Parameter, Tensor, wrap
from ..errors import InputError
from ..executor.run_program import ProgramPair, run_forward
from ..executor.runner import InferenceRunner
from ..executor.scope import Scope
from ..executor.values import LoDTensor, Meta, array_of, memory_owner
from ..ir.desc import EMPTY_VAR, ProgramDesc, VarDesc
from .grad_node import RunProgramGradNode
from .holder import ProgramHolder
from .input_spec import InputSpec
from .inputs import InputChecker
from .params import LayerParams

__all__ = ["TranslatedLayer"]


class TranslatedLayer(Layer):
    """What :func:`oarlock.jit.load` returns; not for direct construction.

    Calling it runs the saved ``forward``; other saved methods are attributes. Inputs are numpy arrays or
    Tensors, by position or by their name in the model. One output comes as a Tensor, several as a list.

    It starts in ``eval()`` mode: dropout off, batch norm with its running statistics, no gradients. ``train()``
    turns that around; the backward program is built at the first call in train mode that needs a gradient.
    """

    def __init__(self, holders: Mapping[str, ProgramHolder], tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._program_holder_dict = dict(holders)
        self._persistable_var_name_dict: dict[str, str] = {}
        self._tensors = dict(tensors)
        self._register_tensors()
        self._store = LayerParams(self._tensors)
        self._methods = {name: _Method(name, holder, self) for name, holder in holders.items()}
        self.training = False

    @property
    def _is_test(self) -> bool:
        """Whether calls run the inference program: follows ``training``, which a layer around this one may set."""
        return not self.training

    @_is_test.setter
    def _is_test(self, is_test: bool) -> None:
        self.training = not is_test

    def _register_tensors(self) -> None:
        parameters = buffers = 0
        for name, tensor in self._tensors.items():
            if isinstance(tensor, Parameter):
                attribute = f"param_{parameters}"
                self.add_parameter(attribute, tensor)
                parameters += 1
            else:
                attribute = f"buffer_{buffers}"
                self.register_buffer(attribute, tensor)
                buffers += 1
            self._persistable_var_name_dict[name] = attribute

    @property
    def program_holder(self) -> ProgramHolder:
        """The holder of ``forward``: its programs, and ``is_backward_built``."""
        return self._holder("forward")

    def _holder(self, method: str) -> ProgramHolder:
        holder = self._program_holder_dict.get(method)
        if holder is None:
            raise InputError(
                f"The method `{method}` does not exist in loaded TranslatedLayer; it has "
                f"{', '.join(sorted(self._program_holder_dict))}"
            )
        return holder

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Run the saved ``forward``.

        Raises:
            InputError: inputs do not fit what the model declares.
            KernelError: an operator refused its inputs.
        """
        self._holder("forward")
        return self._methods["forward"](*inputs, **named)

    def __getattr__(self, name: str) -> Any:
        methods = self.__dict__.get("_methods")
        if methods is not None and name in methods:
            return methods[name]
        return super().__getattr__(name)

    def train(self) -> None:
        """Switch to train mode."""
        self.training = True

    def eval(self) -> None:
        """Switch to inference mode."""
        self.training = False

    def program(self, method_name: str = "forward") -> ProgramDesc:
        """The inference program of a saved method, without feed and fetch ops."""
        return self._holder(method_name).infer_program

    def _input_spec(self, method_name: str = "forward") -> list[InputSpec]:
        return [_spec(var) for var in self._holder(method_name).input_descs]

    def _output_spec(self, method_name: str = "forward") -> list[InputSpec]:
        return [_spec(var) for var in self._holder(method_name).output_descs]

    @property
    def _input_args_names(self) -> list[str]:
        return list(next(iter(self._program_holder_dict.values())).input_names)


def _spec(var: VarDesc) -> InputSpec:
    return InputSpec(var.shape or (), var.dtype if var.dtype is not None else "float32", var.name)


class _Method:
    """One callable method of a loaded layer."""

    def __init__(self, name: str, holder: ProgramHolder, layer: TranslatedLayer) -> None:
        self.__name__ = name
        self.holder = holder
        self._layer = layer
        self.checker = InputChecker(holder.input_descs, name)
        self.runner = InferenceRunner(holder.infer_program, holder.input_names, holder.output_names, layer._store)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = self.checker.arrange(args, kwargs)
        record = recorder()
        if record is not None:
            return record(self._layer, self.holder, arguments)
        values = self.checker.values(arguments)
        if self._layer._is_test:
            outputs = [_as_tensor(value) for value in self.runner.run(values)]
        else:
            outputs = self._train_call(arguments, values)
        return outputs[0] if len(outputs) == 1 else outputs

    def _train_call(self, arguments: Sequence[Any], values: Sequence[Any]) -> list[Tensor]:
        holder = self.holder
        tensors = [self._layer._tensors[name] for name in holder.persistable_names]
        inputs = [each if isinstance(each, Tensor) else None for each in arguments]
        sources = [*inputs, *tensors]
        records = is_grad_enabled() and any(each is not None and not each.stop_gradient for each in sources)
        pair = holder.train_pair if records else holder.forward_pair
        scope = holder.scopes.take()
        result = run_forward(pair, values, [each._array for each in tensors], scope)
        for name, value in result.updates:
            self._layer._store.assign(name, array_of(value))
        taken = {id(memory_owner(array_of(value))) for value in values}
        taken.update(id(memory_owner(each._array)) for each in tensors)
        outputs = [_as_tensor(_apart(value, taken)) for value in result.outputs]
        if records:
            self._record(pair, scope, sources, outputs)
        else:
            holder.scopes.give_back(scope)
        return outputs

    def _record(
        self, pair: ProgramPair, scope: Scope, sources: Sequence[Tensor | None], outputs: Sequence[Tensor]
    ) -> None:
        names = self.holder.grad_var_names
        grad_names = [*names.x, *names.param]
        needed, _ = pair.needed()
        wanted = [
            each if name != EMPTY_VAR and each is not None and not each.stop_gradient else None
            for each, name in zip(sources, grad_names, strict=True)
        ]
        own = [*self.holder.input_names, *self.holder.persistable_names]
        guarded = [
            (name, each)
            for name, each in zip(own, sources, strict=True)
            if name in needed and each is not None and not _is_statistic(each)
        ]
        kept = {id(memory_owner(value)) for value in scope.vars.values() if hasattr(value, "base")}
        guarded += [
            (name, each)
            for name, each in zip(pair.out_names, outputs, strict=True)
            if id(memory_owner(each._array)) in kept
        ]
        metas = [Meta(tuple(each._array.shape), each._array.dtype) for each in outputs]
        node = RunProgramGradNode(pair, scope, self.holder.scopes, wanted, grad_names, metas, guarded)
        connect(node, [each if each._array.dtype.kind in "fcV" else None for each in outputs])


def _is_statistic(tensor: Tensor) -> bool:
    """A stored tensor without gradient that the program itself moves (running mean and variance)."""
    return tensor.persistable and tensor.stop_gradient


def _apart(value: Any, taken: set[int]) -> Any:
    """A value whose memory belongs neither to an input nor to a parameter."""
    array = array_of(value)
    if id(memory_owner(array)) not in taken:
        return value
    return LoDTensor(array.copy(), value.lod) if isinstance(value, LoDTensor) else array.copy()


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, LoDTensor):
        made = wrap(value.array)
        made._lod = value.lod
        return made
    return wrap(value)
