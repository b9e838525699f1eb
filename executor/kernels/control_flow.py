"""Control flow: loops and branches that run sub-blocks, and the choice between their results."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import operator
from ..environment import Env
from ..values import Array, array_of

__all__ = ["conditional_block", "select_input", "select_output", "while_loop"]


def _truth(condition: Any) -> bool:
    array = array_of(condition)
    if array.size != 1:
        raise ValueError(f"a condition holds one element, this one has shape {list(array.shape)}")
    return bool(array.reshape(()))


@operator("while", inputs="X* Condition*", outputs="Out* StepScopes?")
def while_loop(
    x: list[Any], condition: list[Any], *, sub_block: int, is_test: bool = False, env: Env
) -> tuple[list[Any], list[dict[str, Any]] | None]:
    """Run ``sub_block`` while the condition variable is true; the body updates outer variables by name.

    Outside test mode the variables of each iteration are recorded for ``while_grad``.
    """
    name = env.op.inputs["Condition"][0]
    if env.get(name) is None:
        raise ValueError(f"the loop condition '{name}' has no value")
    record: list[dict[str, Any]] = []
    while _truth(env.get(name)):
        local = env.run(sub_block)
        if not is_test:
            record.append(local)
    return env.outputs("Out"), None if is_test else record


@operator("conditional_block", "conditional_block_infer", inputs="Cond* Input*", outputs="Out* Scope?")
def conditional_block(
    cond: list[Any],
    inputs: list[Any],
    *,
    sub_block: int,
    is_scalar_condition: bool = False,
    env: Env,
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Run ``sub_block`` if the scalar condition is true, or (not scalar) if no input tensor is empty.

    Where it does not run, the outputs keep the values they have.
    """
    record: list[dict[str, Any]] = []
    if is_scalar_condition:
        taken = _truth(cond[0])
    else:
        taken = all(each is not None and array_of(each).size > 0 for each in inputs or cond)
    if taken:
        record.append(env.run(sub_block))
    return env.outputs("Out"), record


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
