"""``append_backward`` and ``gradients`` on a program."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from ..ir.backward import append_gradients
from .program import Program, Variable

__all__ = ["append_backward", "gradients"]

_LOSS = 256
"""The ``op_role`` bit of the op that makes the loss."""


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Variable | str] | None = None,
    no_grad_set: set[Variable | str] | None = None,
) -> list[tuple[Variable, Variable]]:
    """Append the backward part for a loss to its program.

    Args:
        loss: a variable of one element.
        parameter_list: the parameters to report; every persistable one when None.
        no_grad_set: variables that get no gradient.

    Returns:
        ``(parameter, its gradient)`` for each parameter that got one.

    Raises:
        InputError: the loss has more than one element.
        UnsupportedOpError: an operator on the way has no gradient in oarlock.
    """
    if any(dim != 1 for dim in loss.shape):
        raise InputError(f"The loss.shape should be (1L,) or (), but received {list(loss.shape)}: take its mean first")
    program = loss.block.program
    for op in program.desc.global_block.ops:
        if loss.name in op.output_names():
            op.attrs["op_role"] = int(op.attrs.get("op_role", 0)) & ~4096 | _LOSS
    made = append_gradients(program.desc, [loss.name], no_grad=_names(no_grad_set or ()))
    block = program.global_block()
    wanted = [var.name for var in program.all_parameters()] if parameter_list is None else _names(parameter_list)
    return [(block.var(name), block.var(made[name])) for name in wanted if name in made]


def gradients(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Variable | Sequence[Variable | None] | None = None,
    no_grad_set: set[Variable | str] | None = None,
) -> list[Variable | None]:
    """Append ops that compute the gradients of ``targets`` with respect to ``inputs``.

    Args:
        target_gradients: per target its incoming gradient, None for ones.

    Returns:
        Per input its gradient, or None where the targets do not depend on it.
    """
    wanted, sources = _listed(targets), _listed(inputs)
    given = None if target_gradients is None else _listed(target_gradients)
    program: Program = wanted[0].block.program
    made = append_gradients(
        program.desc,
        [var.name for var in wanted],
        target_gradients=None if given is None else [None if var is None else var.name for var in given],
        inputs=[var.name for var in sources],
        no_grad=_names(no_grad_set or ()),
    )
    block = program.global_block()
    return [block.var(made[var.name]) if var.name in made else None for var in sources]


def _listed(variables: Variable | Sequence[Variable | None]) -> list[Variable]:
    return [variables] if isinstance(variables, Variable) else list(variables)  # type: ignore[arg-type]


def _names(variables: Sequence[Variable | str] | set[Variable | str]) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in variables]
