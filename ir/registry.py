"""The table of operators: what each one reads, writes and is told, its kernel, and its gradient rule.

A family file under ``executor/kernels/`` declares an operator whole::

    @operator("softmax", inputs="X", outputs="Out", inplace="X->Out")
    def softmax(x, *, axis=-1): ...

    @softmax.gradient(takes="Out Out@GRAD", gives="X@GRAD")
    def softmax_grad(out, d_out, *, axis=-1): ...

Slots are written as words: ``X`` one argument, ``X*`` a list (empty when absent), ``X?`` absent is None,
``X~`` only shape and dtype are read (the array may be gone), ``A=B`` (gradients) slot ``A`` of the grad op
takes what the forward op calls ``B``. Attributes are the keyword-only parameters of the kernel with their
registered defaults; a trailing underscore is dropped (``lambda_``). Three keyword-only names are not attributes:
``want`` (the frozenset of output slots that somebody reads), ``ctx`` (an :class:`OpContext`) and ``env`` (the
variables of the running block, for control flow and tensor arrays; such an op also reads what it writes).
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .desc import EMPTY_VAR, GRAD_SUFFIX, BlockDesc, OpDesc, ProgramDesc, VarDesc

__all__ = [
    "IGNORED_ATTRS",
    "REQUIRED",
    "Kernel",
    "OpContext",
    "Operator",
    "Slot",
    "define",
    "exists",
    "families",
    "find",
    "lookup",
    "operator",
    "registered",
    "set_family_loader",
]

REQUIRED: Any = inspect.Parameter.empty
"""The default of an attribute that the op must state."""

IGNORED_ATTRS = frozenset(
    [
        "op_role",
        "op_role_var",
        "op_namescope",
        "op_callstack",
        "op_device",
        "with_quant_attr",
        "struct_name",
        "use_mkldnn",
        "use_cudnn",
        "use_quantizer",
        "mkldnn_data_type",
        "workspace_size_MB",
        "exhaustive_search",
        "use_addto",
        "force_fp32_output",
        "skip_eager_deletion_vars",
        "use_calc_stream",
        "force_cpu",
        "name",
        "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@",
    ]
)
"""Attributes that steer a back end or a debugger and never change a result."""

_SPECIAL = frozenset({"want", "ctx", "env"})


class Kernel(Protocol):
    """A function of arrays: input slots positionally, attributes by keyword, outputs in slot order.

    One declared output: the value itself. Several: a tuple with None for what was not computed. A list slot
    holds a list of values.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Slot:
    """One input or output slot of an operator; ``source`` is the forward slot a gradient slot takes."""

    name: str
    many: bool = False
    optional: bool = False
    meta: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class OpContext:
    """What a kernel may ask about the op it runs for, beyond its inputs and attributes."""

    op: OpDesc
    block: BlockDesc
    program: ProgramDesc

    def declared(self, slot: str, index: int = 0) -> VarDesc | None:
        """The variable description of an output argument, or None where the program has none."""
        names = self.op.outputs.get(slot) or ()
        return self.program.find_var(names[index], self.block) if index < len(names) else None

    def output_count(self, slot: str) -> int:
        """How many arguments an output slot has."""
        return len(self.op.outputs.get(slot) or ())

    @property
    def op_version(self) -> int:
        """The version of the operator's meaning that the program was saved with."""
        return self.program.op_version(self.op.type)


def parse_slots(words: str) -> tuple[Slot, ...]:
    """Slots from their written form, see the module docstring."""
    slots = []
    for word in words.split():
        name, _, source = word.partition("=")
        marks = (source or name)[len((source or name).rstrip("*?~")) :]
        bare = name.rstrip("*?~")
        slots.append(Slot(bare, "*" in marks, "?" in marks, "~" in marks, source.rstrip("*?~") or bare))
    return tuple(slots)


GradMaker = Callable[[OpDesc, frozenset[str]], list[OpDesc]]
"""``(forward op, names of gradients nobody wants) -> grad ops``."""

BlockGradMaker = Callable[[OpDesc, frozenset[str], ProgramDesc, BlockDesc], list[OpDesc]]
"""As :data:`GradMaker` for an op that runs a sub-block: it is also given the program and the grad block."""


@dataclass(slots=True, eq=False)
class Operator:
    """One operator type (at one version of its meaning) with all that oarlock knows about it.

    Attributes:
        type: the op type in programs.
        kernel: the forward function of arrays; an Operator is callable and calls it.
        attrs: attribute name -> default (:data:`REQUIRED` when it has none).
        refuse: attribute name -> the only value that is supported; any other is refused at plan time.
        ignores: attributes that this operator accepts and that change nothing.
        lod: the kernel sees ``LoDTensor`` values instead of plain arrays.
        lod_through: it also makes none: it only hands values on (choices, array reads).
        share_lod: the input slot whose LoD the outputs inherit when the kernel does not handle LoD itself
            (the first slot when empty).
        inplace: ``(input slot, output slot)``: the kernel takes ``out=`` and may write over that input.
        since: the op version from which this meaning holds.
        differentiable: False when Paddle registers no gradient, so that backward stops here silently.
        grad_maker: builds the grad ops, or None.
        block_grad_maker: the same for an op that runs a sub-block.
        family: the module that declares it.
        preparer: ``preparer(constants, **attrs) -> run(*arrays) | None``, see :meth:`prepare`.
    """

    type: str
    kernel: Kernel
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    attrs: dict[str, Any]
    refuse: Mapping[str, Any] = field(default_factory=dict)
    ignores: frozenset[str] = frozenset()
    takes_want: bool = False
    takes_ctx: bool = False
    takes_env: bool = False
    lod: bool = False
    lod_through: bool = False
    share_lod: str = ""
    inplace: tuple[str, str] | None = None
    since: int = 0
    differentiable: bool = True
    grad_maker: GradMaker | None = None
    block_grad_maker: BlockGradMaker | None = None
    preparer: Callable[..., Callable[..., Any] | None] | None = None
    siblings: tuple[Operator, ...] = ()
    forward_of: Operator | None = None
    family: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*args, **kwargs)

    def gradient(
        self,
        takes: str,
        gives: str,
        *,
        lod: bool | Literal["through"] | None = None,
        inplace: str = "",
        forgets: str = "",
        without: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> Callable[[Kernel], Operator]:
        """Declare the gradient kernel: grad op ``<type>_grad`` reads ``takes`` and writes ``gives``.

        For an operator declared with several types every type gets its own grad op. ``forgets`` lists the
        attributes of the forward op that the grad op does not have; ``without(attrs)`` the slots that it lacks
        by the attributes. Returns the grad Operator (of the first type), which may itself be given a gradient.
        """

        def declare(kernel: Kernel) -> Operator:
            made = []
            for each in (self, *self.siblings):
                grad = define(
                    f"{each.type}_grad",
                    kernel,
                    inputs=takes,
                    outputs=gives,
                    lod=self.lod if lod is None else lod,
                    inplace=inplace,
                    since=each.since,
                    ignores=" ".join((*each.ignores, *(name for name in each.attrs))),
                    refuse=each.refuse,
                    gradient=None,
                )
                grad.forward_of = each
                each.differentiable = True
                each.grad_maker = _standard_maker(grad.type, grad.inputs, grad.outputs, None, forgets, without)
                made.append(grad)
            made[0].siblings = tuple(made[1:])
            return made[0]

        return declare

    def gradient_op(
        self,
        type: str,
        takes: str,
        gives: str,
        attrs: Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        forgets: str = "",
    ) -> None:
        """Declare that the gradient is an operator that exists anyway (``cast``, ``scale``, ``concat``)."""
        for each in (self, *self.siblings):
            each.differentiable = True
            each.grad_maker = _standard_maker(type, parse_slots(takes), parse_slots(gives), attrs, forgets)

    def gradient_maker(self, maker: GradMaker) -> GradMaker:
        """Declare how the grad ops are made, where neither a kernel nor one existing operator says it."""
        for each in (self, *self.siblings):
            each.grad_maker = maker
        return maker

    def block_gradient_maker(self, maker: BlockGradMaker) -> BlockGradMaker:
        """Declare how the grad op of an op with a sub-block is made, once the grad block is built."""
        for each in (self, *self.siblings):
            each.block_grad_maker = maker
        return maker

    def prepare(self, preparer: Callable[..., Callable[..., Any] | None]) -> Callable[..., Any]:
        """Declare work that is done once: ``preparer(constants, **attrs)``.

        ``constants`` maps input slots whose values do not change between runs to their arrays (a list for
        a list slot). The result is called with all input slots positionally instead of the kernel; None
        declines. The plan prepares again when a constant was written to.
        """
        for each in (self, *self.siblings):
            each.preparer = preparer
        return preparer

    def input_slot(self, name: str) -> Slot | None:
        """The declaration of an input slot."""
        return next((slot for slot in self.inputs if slot.name == name), None)


_TABLE: dict[str, list[Operator]] = {}
_load_family: Callable[[str], None] | None = None
_load_all: Callable[[], Sequence[str]] | None = None
_is_listed: Callable[[str], bool] = {}.__contains__


def set_family_loader(
    load: Callable[[str], None], load_all: Callable[[], Sequence[str]], is_listed: Callable[[str], bool]
) -> None:
    """Tell the registry how to import the family of a type, and all families, and which types are known to have one.

    Called by executor.kernels.
    """
    global _load_family, _load_all, _is_listed
    _load_family, _load_all, _is_listed = load, load_all, is_listed


def define(
    type: str,
    kernel: Kernel,
    *,
    inputs: str,
    outputs: str,
    lod: bool | Literal["through"] = False,
    share_lod: str = "",
    inplace: str = "",
    since: int = 0,
    ignores: str = "",
    refuse: Mapping[str, Any] | None = None,
    gradient: str | None = "declared",
) -> Operator:
    """Register one operator; the function form of :func:`operator`, for tables.

    ``gradient=None`` says that Paddle has no gradient for it. ``inplace`` is written ``"X->Out"``.
    """
    attrs, specials = _attributes(kernel)
    source, _, target = inplace.partition("->")
    made = Operator(
        type,
        kernel,
        parse_slots(inputs),
        parse_slots(outputs),
        attrs,
        refuse=dict(refuse or {}),
        ignores=frozenset(ignores.split()),
        takes_want="want" in specials,
        takes_ctx="ctx" in specials,
        takes_env="env" in specials,
        lod=bool(lod),
        lod_through=lod == "through",
        share_lod=share_lod,
        inplace=(source, target) if inplace else None,
        since=since,
        differentiable=gradient is not None,
        family=_declaring_module(),
    )
    versions = _TABLE.setdefault(type, [])
    versions[:] = sorted([v for v in versions if v.since != since] + [made], key=lambda v: v.since)
    return made


def operator(
    *types: str,
    inputs: str,
    outputs: str,
    lod: bool | Literal["through"] = False,
    share_lod: str = "",
    inplace: str = "",
    since: int = 0,
    ignores: str = "",
    refuse: Mapping[str, Any] | None = None,
    gradient: str | None = "declared",
) -> Callable[[Kernel], Operator]:
    """Decorator: the function below is the kernel of these op types. Returns the first type's Operator."""

    def declare(kernel: Kernel) -> Operator:
        made = [
            define(
                type,
                kernel,
                inputs=inputs,
                outputs=outputs,
                lod=lod,
                share_lod=share_lod,
                inplace=inplace,
                since=since,
                ignores=ignores,
                refuse=refuse,
                gradient=gradient,
            )
            for type in types
        ]
        made[0].siblings = tuple(made[1:])
        return made[0]

    return declare


def find(type: str, version: int | None = None) -> Operator | None:
    """The operator of a type, at the newest meaning not newer than ``version``, or None."""
    versions = _TABLE.get(type)
    if versions is None and _load_family is not None:
        _load_family(type)
        versions = _TABLE.get(type)
    if not versions:
        return None
    if version is None:
        return versions[-1]
    fitting = [each for each in versions if each.since <= version]
    return fitting[-1] if fitting else versions[0]


def exists(type: str) -> bool:
    """Whether there is an operator of a type; a listed one is believed, and its family not imported for that."""
    return type in _TABLE or _is_listed(type) or find(type) is not None


def lookup(type: str, version: int | None = None) -> Operator:
    """As :func:`find`, for an operator that must exist.

    Raises:
        KeyError: oarlock has no such operator.
    """
    found = find(type, version)
    if found is None:
        raise KeyError(type)
    return found


def families() -> Sequence[str]:
    """Import every family file; the names of the modules."""
    return _load_all() if _load_all is not None else ()


def registered() -> Iterator[Operator]:
    """Every operator of the families imported so far, newest meaning, by type."""
    for type in sorted(_TABLE):
        yield _TABLE[type][-1]


def _declaring_module() -> str:
    """The name of the module whose top-level code is running: the family file, helpers that define left out."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return name.rpartition(".")[2]


def _attributes(kernel: Kernel) -> tuple[dict[str, Any], frozenset[str]]:
    attrs: dict[str, Any] = {}
    specials = set()
    for name, parameter in inspect.signature(kernel).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or name == "out":
            continue
        if name in _SPECIAL:
            specials.add(name)
        else:
            bare = name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name
            attrs[bare] = parameter.default
    return attrs, frozenset(specials)


def parameter_name(attr: str) -> str:
    """The kernel's parameter for an attribute: itself, with an underscore where it is a Python keyword."""
    return f"{attr}_" if keyword.iskeyword(attr) else attr


def _grad_name(name: str, no_grad: frozenset[str]) -> str:
    grad = name + GRAD_SUFFIX
    return EMPTY_VAR if name == EMPTY_VAR or grad in no_grad else grad


def _forward_arguments(op: OpDesc, source: str) -> list[str]:
    """What a gradient input slot takes: forward arguments, or the gradients of forward outputs.

    Where the forward op is a grad op itself, its own input ``Out@GRAD`` is a forward argument.
    """
    if source.endswith(GRAD_SUFFIX) and source not in op.inputs:
        names = op.outputs.get(source[: -len(GRAD_SUFFIX)]) or []
        return [name if name == EMPTY_VAR else name + GRAD_SUFFIX for name in names]
    return list(op.inputs.get(source) or op.outputs.get(source) or ())


def _standard_maker(
    type: str,
    takes: tuple[Slot, ...],
    gives: tuple[Slot, ...],
    attrs: Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]] | None,
    forgets: str,
    without: Callable[[Mapping[str, Any]], str] | None = None,
) -> GradMaker:
    """The maker that follows from ``takes`` and ``gives``: names by suffix, all forward attributes copied."""
    forgotten = forgets.split()

    def make(op: OpDesc, no_grad: frozenset[str]) -> list[OpDesc]:
        outputs: dict[str, list[str]] = {}
        for slot in gives:
            forward = op.inputs.get(slot.source[: -len(GRAD_SUFFIX)]) or []
            names = [_grad_name(name, no_grad) for name in forward]
            if names and (slot.many or names != [EMPTY_VAR]):
                outputs[slot.name] = names
        if all(name == EMPTY_VAR for names in outputs.values() for name in names):
            return []
        inputs = {slot.name: names for slot in takes if (names := _forward_arguments(op, slot.source))}
        grad = OpDesc(type, inputs, outputs, dict(op.attrs), dict(op.attr_types))
        for name in forgotten:
            grad.attrs.pop(name, None)
            grad.attr_types.pop(name, None)
        changed = attrs(op.attrs) if callable(attrs) else attrs
        for name, value in (changed or {}).items():
            grad.attrs[name] = value
        for slot_name in without(op.attrs).split() if without is not None else ():
            grad.inputs.pop(slot_name, None)
            grad.outputs.pop(slot_name, None)
        return [grad]

    return make
