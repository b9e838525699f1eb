"""Control flow: loops and branches that run sub-blocks, the choice between their results, and their gradients.

Outside test mode a loop records, per turn, the values that its grad block reads: local variables, and outer ones
as they were when the turn began. A branch records the same for its one run. The train program gives every value
a name of its own (``ir/versioning.py``), so that a recorded name means one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.desc import EMPTY_VAR, GRAD_SUFFIX, AttrType, BlockDesc, OpDesc, ProgramDesc
from ...ir.registry import operator
from ..environment import Env, Record
from ..values import Array, LoDTensor, TensorArray, array_of

__all__ = ["conditional_block", "select_input", "select_output", "while_loop"]


def _truth(condition: Any) -> bool:
    array = array_of(condition)
    if array.size != 1:
        raise ValueError(f"a condition holds one element, this one has shape {list(array.shape)}")
    return bool(array.reshape(()))


@operator("while", inputs="X* Condition*", outputs="Out* StepScopes?")
def while_loop(
    x: list[Any], condition: list[Any], *, sub_block: int, is_test: bool = False, env: Env
) -> tuple[list[Any], list[Record] | None]:
    """Run ``sub_block`` while the condition variable is true; the body updates outer variables by name."""
    name = env.op.inputs["Condition"][0]
    if env.get(name) is None:
        raise ValueError(f"the loop condition '{name}' has no value")
    record: list[Record] = []
    while _truth(env.get(name)):
        turn = env.run(sub_block)
        if not is_test:
            record.append(turn)
    return env.outputs("Out"), None if is_test else record


@operator("conditional_block", "conditional_block_infer", inputs="Cond* Input*", outputs="Out* Scope?")
def conditional_block(
    cond: list[Any], inputs: list[Any], *, sub_block: int, is_scalar_condition: bool = False, env: Env
) -> tuple[list[Any], list[Record]]:
    """Run ``sub_block`` if the scalar condition is true, or (not scalar) if no input tensor is empty.

    Where it does not run, the outputs keep the values they have.
    """
    if is_scalar_condition:
        taken = _truth(cond[0])
    else:
        taken = all(each is not None and array_of(each).size > 0 for each in inputs or cond)
    record = [env.run(sub_block)] if taken else []
    return env.outputs("Out"), record


def _grad_names(names: Sequence[str], made: set[str], no_grad: frozenset[str]) -> list[str]:
    """The gradients of input arguments, ``@EMPTY@`` where the grad block makes none."""
    grads = [name + GRAD_SUFFIX for name in names]
    return [grad if grad in made and grad not in no_grad else EMPTY_VAR for grad in grads]


def _block_names(block: BlockDesc) -> tuple[set[str], set[str]]:
    """What a grad block reads before making it, and what it makes."""
    made: set[str] = set()
    read: set[str] = set()
    for op in block.ops:
        read.update(name for name in op.input_names() if name not in made)
        made.update(op.output_names())
    return read, made


@while_loop.block_gradient_maker
def _while_grad_op(op: OpDesc, no_grad: frozenset[str], program: ProgramDesc, grad_block: BlockDesc) -> list[OpDesc]:
    read, made = _block_names(grad_block)
    incoming = [name + GRAD_SUFFIX for name in op.outputs["Out"] if name + GRAD_SUFFIX in read]
    outputs = _grad_names(op.inputs["X"], made, no_grad)
    if not incoming or all(name == EMPTY_VAR for name in outputs):
        return []
    grad = OpDesc("while_grad", attrs=dict(op.attrs), attr_types=dict(op.attr_types))
    grad.inputs = {
        "X": list(op.inputs["X"]),
        "Out": list(op.outputs["Out"]),
        "Out@GRAD": incoming,
        "StepScopes": list(op.outputs.get("StepScopes") or []),
    }
    grad.outputs = {"X@GRAD": outputs}
    grad.set_attr("sub_block", grad_block.idx, AttrType.BLOCK)
    grad.set_attr("original_output_grad", incoming, AttrType.STRINGS)
    grad.set_attr("skip_eager_deletion_vars", [], AttrType.STRINGS)
    grad.set_attr("is_test", False, AttrType.BOOLEAN)
    return [grad]


@conditional_block.block_gradient_maker
def _conditional_block_grad_op(
    op: OpDesc, no_grad: frozenset[str], program: ProgramDesc, grad_block: BlockDesc
) -> list[OpDesc]:
    read, made = _block_names(grad_block)
    # What the branch replaces when it runs, and leaves as it was when not, is an input of the gradient too.
    names = list(
        dict.fromkeys([*op.inputs.get("Input", []), *(n for n in op.outputs["Out"] if n + GRAD_SUFFIX in read)])
    )
    outputs = [
        name if name != EMPTY_VAR else kept
        for name, kept in zip(
            _grad_names(names, made, no_grad),
            _kept_grads(op, names, read, no_grad),
            strict=True,
        )
    ]
    if all(name == EMPTY_VAR for name in outputs):
        return []
    grad = OpDesc("conditional_block_grad", attrs=dict(op.attrs), attr_types=dict(op.attr_types))
    grad.inputs = {
        "Cond": list(op.inputs.get("Cond") or []),
        "Input": names,
        "Out": list(op.outputs["Out"]),
        "Out@GRAD": [name + GRAD_SUFFIX for name in op.outputs["Out"]],
        "Scope": list(op.outputs.get("Scope") or []),
    }
    grad.outputs = {"Input@GRAD": outputs}
    grad.set_attr("sub_block", grad_block.idx, AttrType.BLOCK)
    return [grad]


def _kept_grads(op: OpDesc, names: Sequence[str], read: set[str], no_grad: frozenset[str]) -> list[str]:
    """For variables that the branch writes and that had a value before: their gradient, in place."""
    written = set(op.outputs["Out"])
    return [
        name + GRAD_SUFFIX
        if name in written and name + GRAD_SUFFIX in read and name + GRAD_SUFFIX not in no_grad
        else EMPTY_VAR
        for name in names
    ]


def _zeros_like(value: Any) -> Any:
    if isinstance(value, TensorArray):
        return TensorArray(_zeros_like(each) for each in value)
    if isinstance(value, LoDTensor):
        return LoDTensor(np.zeros_like(value.array), value.lod)
    return None if value is None else np.zeros_like(value)


def _added(total: Any, piece: Any) -> Any:
    """The sum of two gradients; arrays of tensors entry by entry."""
    if total is None or piece is None:
        return piece if total is None else total
    if isinstance(total, TensorArray):
        longest = max(len(total), len(piece))
        pairs = [(_entry(total, i), _entry(piece, i)) for i in range(longest)]
        return TensorArray(_added(a, b) for a, b in pairs)
    return array_of(total) + array_of(piece)


def _entry(array: TensorArray, index: int) -> Any:
    return array[index] if index < len(array) else None


@operator("while_grad", inputs="X* Out* Out@GRAD* StepScopes", outputs="X@GRAD*", gradient=None)
def while_grad(
    x: list[Any],
    out: list[Any],
    d_out: list[Any],
    scopes: list[Record],
    *,
    sub_block: int,
    original_output_grad: Sequence[str] = (),
    is_test: bool = False,
    env: Env,
) -> list[Any]:
    """Run the grad block for every recorded turn, the last one first.

    The gradient of a variable that the loop carries is replaced turn by turn; that of a variable which the body
    only reads adds up.
    """
    names = env.op.inputs["X"]
    values = dict(zip(env.op.inputs["Out"], out, strict=True))
    carried = {}
    for name, grad in zip(original_output_grad, d_out, strict=True):
        carried[name] = _zeros_like(values[name.removesuffix(GRAD_SUFFIX)]) if grad is None else grad
    totals: dict[str, Any] = {}
    for turn in reversed(scopes):
        made = env.run_recorded(sub_block, turn, carried)
        for name in names:
            grad_name = name + GRAD_SUFFIX
            if grad_name in carried:
                carried[grad_name] = _carried_on(made.get(grad_name), carried[grad_name], turn.get(name))
            else:
                totals[grad_name] = _added(totals.get(grad_name), made.get(grad_name))
    found = {**totals, **carried}
    return [
        _or_zeros(found.get(name + GRAD_SUFFIX), value) if wanted != EMPTY_VAR else None
        for name, value, wanted in zip(names, x, env.op.outputs["X@GRAD"], strict=True)
    ]


def _carried_on(made: Any, before: Any, value: Any) -> Any:
    """What flows into the turn before: what the grad block made, else nothing of it; arrays keep the rest."""
    if made is not None:
        return made
    return before if isinstance(before, TensorArray) else np.zeros_like(array_of(before))


def _or_zeros(grad: Any, value: Any) -> Any:
    return _zeros_like(value) if grad is None else grad


@operator("conditional_block_grad", inputs="Cond* Input* Out* Out@GRAD* Scope?", outputs="Input@GRAD*", gradient=None)
def conditional_block_grad(
    cond: list[Any],
    inputs: list[Any],
    out: list[Any],
    d_out: list[Any],
    scope: list[Record] | None,
    *,
    sub_block: int,
    is_scalar_condition: bool = False,
    env: Env,
) -> list[Any]:
    """The grad block's results where the branch ran; else zeros, and what the branch left alone passes on."""
    incoming = {}
    for name, value, grad in zip(env.op.inputs["Out"], out, d_out, strict=True):
        incoming[name + GRAD_SUFFIX] = _zeros_like(value) if grad is None else grad
    made = env.run_recorded(sub_block, scope[0], incoming) if scope else incoming
    names = env.op.inputs["Input"]
    return [
        _or_zeros(made.get(name + GRAD_SUFFIX), value) if wanted != EMPTY_VAR else None
        for name, value, wanted in zip(names, inputs, env.op.outputs["Input@GRAD"], strict=True)
    ]


@operator("select_input", inputs="X* Mask", outputs="Out", lod="through")
def select_input(x: list[Any], mask: Array) -> Any:
    """``x[mask]``: the value that the branch which ran has made."""
    index = int(array_of(mask).reshape(()))
    if not 0 <= index < len(x):
        raise ValueError(f"Mask is {index}, there are {len(x)} inputs to choose from")
    if x[index] is None:
        raise ValueError(f"input {index} is chosen by Mask but its branch has not run")
    return x[index]


@operator("select_output", inputs="X Mask", outputs="Out*", lod="through")
def select_output(x: Any, mask: Array, *, ctx: Any) -> list[Any]:
    """Give ``x`` to output number ``mask``; the others get no value."""
    index = int(array_of(mask).reshape(()))
    return [x if position == index else None for position in range(ctx.output_count("Out"))]


select_input.gradient_op("select_output", takes="X=Out@GRAD Mask", gives="Out*=X@GRAD")
select_output.gradient_op("select_input", takes="X*=Out@GRAD Mask", gives="Out=X@GRAD")


@operator("assert", inputs="Cond Data*", outputs="", gradient=None)
def assert_true(cond: Array, data: list[Any], *, summarize: int = -1) -> tuple[()]:
    """Raise unless ``Cond`` is true; the message shows the data, ``summarize`` elements of each."""
    if not _truth(cond):
        shown = [np.ravel(array_of(each))[: None if summarize < 0 else summarize].tolist() for each in data]
        raise ValueError(f"assertion failed, data: {shown}")
    return ()
