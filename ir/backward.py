"""Append the backward part to a program: grad ops in reverse order, repeated gradients summed, variables made.

The rules are those of Paddle's ``calc_gradient`` and ``append_backward``: a gradient is named
``<name>@GRAD``, pieces of a repeated one ``...@RENAME@block<b>@<i>``, and the grad ops come from the
operators' declarations in the registry.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ..errors import ProgramError, UnsupportedOpError
from .desc import GRAD_SUFFIX, AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from .dtypes import DType
from .grad_names import hidden, hide_gradients, show_gradients
from .grad_sums import drop_unneeded, drop_without_gradient, sum_repeated
from .registry import Operator, find

__all__ = ["BACKWARD", "append_gradients", "differentiable_inputs", "gradient_path"]

BACKWARD = 1
"""The ``op_role`` of a grad op."""


def append_gradients(
    program: ProgramDesc,
    targets: Sequence[str],
    *,
    target_gradients: Sequence[str | None] | None = None,
    inputs: Iterable[str] | None = None,
    no_grad: Iterable[str] = (),
) -> dict[str, str]:
    """Append to block 0 the ops that compute gradients of the targets; edits ``program``.

    Args:
        targets: variables to differentiate; their gradients add up.
        target_gradients: per target the variable that holds its incoming gradient, or None for ones. One op
            per target (``fill_any_like``, or ``assign``) is appended in order before all grad ops.
        inputs: the variables to differentiate for; None means everything reachable.
        no_grad: variables that get no gradient, besides those marked ``stop_gradient``.

    Returns:
        Variable name -> name of its gradient, for all that got one.

    Raises:
        ProgramError: a target does not exist.
        UnsupportedOpError: an operator on the way has no gradient in oarlock.

    A given gradient that already has the name ``<target>@GRAD`` needs no op; its target must not be an inner node.
    Where a target is an inner node of another, its seed is added to what flows in (Paddle loses the seed). In a
    program that holds grad ops already, a new gradient whose name is taken is called ``grad/<name>@GRAD``.
    """
    given = list(target_gradients or [None] * len(targets))
    kept = {name for name in given if name is not None}
    names = hide_gradients(program, kept)
    if not names:
        return _append(program, targets, given, inputs, no_grad)

    def shown(name: str) -> str:
        return hidden(name, kept)

    sources = None if inputs is None else [shown(name) for name in inputs]
    made = _append(program, [shown(name) for name in targets], given, sources, [shown(name) for name in no_grad])
    renamed = show_gradients(program, names)
    return {renamed.get(name, name): renamed.get(gradient, gradient) for name, gradient in made.items()}


def _append(
    program: ProgramDesc,
    targets: Sequence[str],
    given: Sequence[str | None],
    inputs: Iterable[str] | None,
    no_grad: Iterable[str],
) -> dict[str, str]:
    """:func:`append_gradients` in a program whose variables have no names of gradients."""
    block = program.global_block
    for name in targets:
        if program.find_var(name, block) is None:
            raise ProgramError(f"block 0 has no variable '{name}' to differentiate")
    stopped = _stopped(program) | {name + GRAD_SUFFIX for name in no_grad}
    forward = list(block.ops)
    path = gradient_path(program, block, targets, stopped, inputs)
    _stop_unread(path, targets, stopped)
    seeds = _seed_ops(program, targets, given)
    builder = _Builder(program, stopped, frozenset(name + GRAD_SUFFIX for name in targets))
    fill = functools.partial(_zero_fill, program, block)
    grads = drop_unneeded(builder.grad_ops(block, path, seeds), {*_produced(forward), *block.vars}, fill)
    block.ops = forward + grads
    return _create_vars(program, block, grads)


def _stopped(program: ProgramDesc) -> set[str]:
    return {var.name + GRAD_SUFFIX for block in program.blocks for var in block.vars.values() if var.stop_gradient}


def _produced(ops: Iterable[OpDesc]) -> set[str]:
    return {name for op in ops for name in op.output_names()}


def _differentiable(op: OpDesc, lenient: bool = False) -> Operator | None:
    """The operator when gradients pass through it, None when Paddle registers no gradient for it."""
    declared = find(op.type)
    if declared is None:
        raise UnsupportedOpError({op.type: 1})
    if not declared.differentiable:
        return None
    if not lenient and declared.grad_maker is None and declared.block_grad_maker is None:
        raise UnsupportedOpError({f"{op.type}_grad": 1}, "the backward program")
    return declared


def gradient_path(
    program: ProgramDesc,
    block: BlockDesc,
    targets: Iterable[str],
    stopped: set[str],
    inputs: Iterable[str] | None = None,
    lenient: bool = False,
) -> list[OpDesc]:
    """The ops of a block through which gradients of the targets flow, in program order.

    ``lenient`` only asks where gradients would flow and accepts ops whose gradient oarlock lacks. Loop
    bodies are swept until nothing changes, since a value may reach a target over several turns.
    """
    wanted = set(targets)
    candidates = block.ops if inputs is None else _reachable(block.ops, set(inputs))
    on_path: set[int] = set()
    while True:
        before = len(on_path), len(wanted)
        for index in range(len(candidates) - 1, -1, -1):
            op = candidates[index]
            if index in on_path or not wanted.intersection(op.output_names()):
                continue
            if _differentiable(op, lenient) is None:
                continue
            on_path.add(index)
            wanted.update(name for name in op.input_names() if name + GRAD_SUFFIX not in stopped)
        if block.idx == 0 or before == (len(on_path), len(wanted)):
            return [candidates[index] for index in sorted(on_path)]


def _reachable(ops: Sequence[OpDesc], sources: set[str]) -> list[OpDesc]:
    reached = set(sources)
    kept = []
    for op in ops:
        if reached.intersection(op.input_names()):
            kept.append(op)
            reached.update(op.output_names())
    return kept


def _stop_unread(path: Sequence[OpDesc], targets: Iterable[str], stopped: set[str]) -> None:
    """Outputs of path ops that nobody on the path reads have no gradient (statistics, masks, shapes)."""
    read = {name for op in path for name in op.input_names()} | set(targets)
    for op in path:
        if not op.sub_blocks():
            stopped.update(name + GRAD_SUFFIX for name in op.output_names() if name not in read)


def _seed_ops(program: ProgramDesc, targets: Sequence[str], given: Sequence[str | None]) -> list[OpDesc]:
    seeds = []
    for name, gradient in zip(targets, given, strict=True):
        if gradient == name + GRAD_SUFFIX:
            continue  # it lies there under its own name already
        if gradient is not None:
            taken = OpDesc("assign", {"X": [gradient]}, {"Out": [name + GRAD_SUFFIX]})
            taken.set_attr("op_role", BACKWARD, AttrType.INT)
            seeds.append(taken)
            continue
        var = program.find_var(name, program.global_block)
        dtype = -1 if var is None or var.dtype is None else int(var.dtype)
        seeds.append(_fill(name, name + GRAD_SUFFIX, 1.0, dtype))
    return seeds


def _fill(like: str, out: str, value: float, dtype: int) -> OpDesc:
    """A ``fill_any_like`` op of the backward role."""
    op = OpDesc("fill_any_like", {"X": [like]}, {"Out": [out]})
    op.set_attr("value", value, AttrType.FLOAT)
    op.set_attr("dtype", dtype, AttrType.INT)
    op.set_attr("op_role", BACKWARD, AttrType.INT)
    return op


class _Builder:
    """Makes the grad ops of a block and, through recursion, the grad blocks of its sub-blocks."""

    def __init__(self, program: ProgramDesc, stopped: set[str], seeds: frozenset[str]) -> None:
        self.program = program
        self.stopped = stopped
        self.seeds = seeds

    def grad_ops(
        self, block: BlockDesc, path: Sequence[OpDesc], seeds: Sequence[OpDesc] = (), given: Iterable[str] = ()
    ) -> list[OpDesc]:
        """The seeds, then the grad ops for a path, last op first, repeated gradients summed.

        ``given`` are gradients that come from outside.
        """
        made: list[OpDesc] = list(seeds)
        available = {*self.seeds, *given, *_produced(seeds)}
        for op in reversed(path):
            grads = self._grads_of(op, block, available)
            for grad in grads:
                grad.set_attr("op_role", BACKWARD, AttrType.INT)
            made.extend(grads)
            available |= _produced(grads)
        made = sum_repeated(made, block.idx)
        fill = functools.partial(_zero_fill, self.program, block)
        return drop_without_gradient(made, self.stopped, self.seeds, fill)

    def _grads_of(self, op: OpDesc, block: BlockDesc, available: set[str]) -> list[OpDesc]:
        declared = _differentiable(op)
        assert declared is not None  # the path holds differentiable ops only
        arguments = (*op.input_names(), *op.output_names()) if op.sub_blocks() else op.input_names()
        frozen = frozenset(name + GRAD_SUFFIX for name in arguments if not self._flows(name, block))
        subs = op.sub_blocks()
        if not subs or declared.block_grad_maker is None:
            return declared.grad_maker(op, frozen) if declared.grad_maker is not None else []
        grad_block = self._grad_block(op, subs[0], block, available)
        grads = declared.block_grad_maker(op, frozen, self.program, grad_block)
        if not grads:
            self.program.blocks.remove(grad_block)
        return grads

    def _grad_block(self, op: OpDesc, index: int, block: BlockDesc, available: set[str]) -> BlockDesc:
        """The grad block of sub-block ``index``: its parent is the block that holds the op.

        A gradient reaches an output from behind the op, or, in a loop, from the next turn that reads it.
        """
        program = self.program
        body = program.blocks[index]
        grad_block = BlockDesc(len(program.blocks), block.idx, forward_block_idx=index)
        program.blocks.append(grad_block)
        targets = [name for name in op.output_names() if self._flows(name, block)]
        if op.type == "while":
            carried = _read_at_start(body)
            targets = [name for name in targets if name in carried or name + GRAD_SUFFIX in available]
        path = gradient_path(program, body, targets, self.stopped)
        given = {name + GRAD_SUFFIX for name in targets}
        fill = functools.partial(_zero_fill, program, body)
        grad_block.ops = drop_unneeded(self.grad_ops(body, path, given=given), given, fill)
        _create_vars(program, grad_block, grad_block.ops)
        return grad_block

    def _flows(self, name: str, block: BlockDesc) -> bool:
        """Whether a variable may have a gradient: floats and tensor arrays that are not stopped.

        Paddle makes grad ops for integers too, some of which it has no kernel for.
        """
        var = self.program.find_var(name, block)
        floats = var is not None and (var.dtype is None or var.dtype in _FLOATS)
        return floats and name + GRAD_SUFFIX not in self.stopped


_FLOATS = frozenset({DType.FP16, DType.BF16, DType.FP32, DType.FP64, DType.COMPLEX64, DType.COMPLEX128})


def _read_at_start(block: BlockDesc) -> set[str]:
    """The variables that a block reads before it writes them."""
    read: set[str] = set()
    written: set[str] = set()
    for op in block.ops:
        read.update(name for name in op.input_names() if name not in written)
        written.update(op.output_names())
    return read


def _zero_fill(program: ProgramDesc, block: BlockDesc, gradient: str) -> OpDesc | None:
    """Zeros in place of a gradient that nobody makes, shaped like its forward variable; None for an array."""
    forward = gradient[: gradient.rindex(GRAD_SUFFIX)]
    var = program.find_var(forward, block)
    if var is not None and var.kind == VarKind.LOD_TENSOR_ARRAY:
        return None
    return _fill(forward, gradient, 0.0, -1)


def _create_vars(program: ProgramDesc, block: BlockDesc, ops: Iterable[OpDesc]) -> dict[str, str]:
    """Describe the variables that grad ops write: shape, dtype and kind of the forward variable.

    Returns:
        Forward name -> gradient name.
    """
    made: dict[str, str] = {}
    for op in ops:
        for name in op.output_names():
            forward, suffix, _ = name.partition(GRAD_SUFFIX)
            if suffix:
                made.setdefault(forward, forward + GRAD_SUFFIX)
            if program.find_var(name, block) is None:
                block.vars[name] = _grad_var(program, block, name, forward)
    return made


def _grad_var(program: ProgramDesc, block: BlockDesc, name: str, forward: str) -> VarDesc:
    like = program.find_var(forward, block)
    if like is None and block.forward_block_idx is not None:
        like = program.find_var(forward, program.blocks[block.forward_block_idx])
    if like is None:
        return VarDesc(name, dtype=DType.FP32, shape=())
    return VarDesc(name, like.kind, like.dtype, like.shape, like.lod_level, persistable=False)


def differentiable_inputs(program: ProgramDesc, targets: Sequence[str]) -> set[str]:
    """The variables that would get a gradient from the targets, found without building any grad op."""
    return _reached(program, program.global_block, targets)


def _reached(program: ProgramDesc, block: BlockDesc, targets: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for op in gradient_path(program, block, targets, set(), lenient=True):
        grad = find(f"{op.type}_grad")
        if op.sub_blocks():
            for index in op.sub_blocks():
                found |= _reached(program, program.blocks[index], op.output_names())
        elif grad is not None and grad.forward_of is not None:
            for slot in grad.outputs:
                found.update(op.inputs.get(slot.source.removesuffix(GRAD_SUFFIX)) or ())
        else:
            found.update(op.input_names())
    return found
