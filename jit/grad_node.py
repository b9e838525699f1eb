"""The autograd node of a train-mode call of a loaded program: it runs the backward block in the call's scope."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..eager.graph import AutogradError, GradNode
from ..eager.tensor import Tensor
from ..executor.run_program import ProgramPair, run_backward
from ..executor.scope import Scope, ScopePool
from ..executor.values import Array, Meta, SelectedRows, array_of
from ..ir.desc import EMPTY_VAR

__all__ = ["RunProgramGradNode"]


class RunProgramGradNode(GradNode):
    """Backward of one ``run_program``.

    Args:
        pair: the programs and their plans.
        scope: what the forward left for the backward; this node alone holds it, so that calls do not disturb
            one another.
        pool: where the scope goes when backward has run or the node dies without.
        inputs: the tensors whose gradients are asked for, None where there is none.
        grad_names: their gradients' names in the backward block.
        metas: shape and dtype of the outputs.
        guarded: tensors whose memory the backward block reads, with their names there.
    """

    __slots__ = ("_guards", "_names", "_pair", "_pool", "_scope")

    def __init__(
        self,
        pair: ProgramPair,
        scope: Scope,
        pool: ScopePool,
        inputs: Sequence[Tensor | None],
        grad_names: Sequence[str],
        metas: Sequence[Meta],
        guarded: Sequence[tuple[str, Tensor]],
    ) -> None:
        super().__init__(inputs, metas)
        self._pair = pair
        self._scope: Scope | None = scope
        self._pool = pool
        self._names = list(grad_names)
        self._guards = [(name, each._storage, each._storage.counter) for name, each in guarded]

    def name(self) -> str:
        """As Paddle names it."""
        return "GradNodeRunProgram"

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        """Run the backward block; a missing gradient of an output counts as zeros."""
        assert self._scope is not None
        for name, storage, expected in self._guards:
            if storage.counter != expected:
                raise AutogradError(
                    f"(PermissionDenied) Tensor '{name}' used in gradient computation has been modified by an inplace "
                    f"operation. Its version is {storage.counter} but the expected version is {expected}. "
                    f"run_program needs it for backward and {storage.writer or 'an in-place write'} changed it: "
                    "change it after backward, or work on a clone()."
                )
        filled = [
            np.zeros(meta.shape, meta.dtype) if grad is None else grad
            for grad, meta in zip(grads, self.metas, strict=True)
        ]
        wanted = [name if edge is not None else EMPTY_VAR for name, edge in zip(self._names, self.edges, strict=True)]
        found = run_backward(self._pair, filled, [n for n in wanted if n != EMPTY_VAR], self._scope)
        values = iter(found)
        return [None if name == EMPTY_VAR else _dense(next(values)) for name in wanted]

    def release(self) -> None:
        """Free what the forward left, and let another call have the scope."""
        scope, self._scope = self._scope, None
        if scope is not None:
            self._pool.give_back(scope)

    def __del__(self) -> None:
        if getattr(self, "_scope", None) is not None:
            self.release()

    @property
    def released(self) -> bool:
        """Whether the scope is gone."""
        return self._scope is None


def _dense(value: object) -> Array | None:
    if value is None:
        return None
    return value.to_dense() if isinstance(value, SelectedRows) else array_of(value)
