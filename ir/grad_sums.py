"""Tidy a list of grad ops: sum gradients that several ops make, drop what nobody needs, fill what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .desc import EMPTY_VAR, GRAD_SUFFIX, AttrType, OpDesc

__all__ = ["drop_unneeded", "drop_without_gradient", "sum_repeated"]


def sum_repeated(ops: list[OpDesc], block_idx: int) -> list[OpDesc]:
    """Give each piece of a repeated gradient its own name and add the pieces up before their first reader.

    The first producer keeps the name until a second one comes; pieces are called
    ``v@GRAD@RENAME@block<b>@<i>``. Sums still open at the end are appended there.
    """
    repeated = _Repeated(block_idx)
    for op in ops:
        repeated.add(op)
    return repeated.finish()


class _Repeated:
    """The state of one walk over the grad ops."""

    def __init__(self, block_idx: int) -> None:
        self.block_idx = block_idx
        self.ops: list[OpDesc] = []
        self.pieces: dict[str, list[str]] = {}  # gradient -> names of its pieces so far
        self.origin: dict[str, tuple[OpDesc, str, int]] = {}  # sole producer: op, slot, position
        self.counts: dict[str, int] = {}

    def add(self, op: OpDesc) -> None:
        reads = set(op.input_names())
        for name in reads:
            if len(self.pieces.get(name, ())) > 1:
                self._close(name)
        for slot, names in op.outputs.items():
            for position, name in enumerate(names):
                if name == EMPTY_VAR or GRAD_SUFFIX not in name:
                    continue
                if name in reads or name not in self.pieces:  # written over in place: still one gradient
                    self._sole(name, op, slot, position)
                else:
                    self._another(name, op, slot, position)
        self.ops.append(op)

    def _sole(self, name: str, op: OpDesc, slot: str, position: int) -> None:
        self.pieces[name] = [name]
        self.origin[name] = (op, slot, position)

    def _another(self, name: str, op: OpDesc, slot: str, position: int) -> None:
        pieces = self.pieces[name]
        if pieces == [name]:
            first, first_slot, first_position = self.origin[name]
            pieces[0] = self._fresh(name)
            first.outputs[first_slot][first_position] = pieces[0]
            self._rename_readers(first, name, pieces[0])
        piece = self._fresh(name)
        op.outputs[slot][position] = piece
        pieces.append(piece)

    def _rename_readers(self, producer: OpDesc, old: str, new: str) -> None:
        """Ops between the first producer and now that read the gradient read its first piece."""
        after = False
        for op in self.ops:
            if after:
                for names in op.inputs.values():
                    names[:] = [new if name == old else name for name in names]
            after = after or op is producer

    def _fresh(self, name: str) -> str:
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        return f"{name}@RENAME@block{self.block_idx}@{number}"

    def _close(self, name: str) -> None:
        total = OpDesc("sum", {"X": self.pieces[name]}, {"Out": [name]})
        total.set_attr("use_mkldnn", False, AttrType.BOOLEAN)
        total.set_attr("op_role", 1, AttrType.INT)
        self.ops.append(total)
        self.pieces[name] = [name]
        self.origin[name] = (total, "Out", 0)

    def finish(self) -> list[OpDesc]:
        for name in [name for name, pieces in self.pieces.items() if len(pieces) > 1]:
            self._close(name)
        return self.ops


def _gradients_read(op: OpDesc) -> list[str]:
    return [name for name in op.input_names() if GRAD_SUFFIX in name]


def drop_without_gradient(
    ops: Iterable[OpDesc], stopped: set[str], seeds: frozenset[str], zero_fill: Callable[[str], OpDesc | None]
) -> list[OpDesc]:
    """Drop grad ops that only lead to or from stopped gradients; fill the other stopped inputs with zeros.

    Args:
        stopped: gradients that nobody wants; those that only dropped ops would make join it.
        seeds: gradients of the targets, which are made even when stopped.
    """
    kept: list[OpDesc] = []
    filled: set[str] = set()
    for op in ops:
        outputs = list(op.output_names())
        incoming = _gradients_read(op)
        if seeds.issuperset(outputs) and outputs and not incoming:
            kept.append(op)
            continue
        if not outputs or all(name in stopped for name in outputs):
            continue
        if incoming and all(name in stopped and name not in seeds for name in incoming):
            stopped.update(outputs)
            continue
        for name in dict.fromkeys(incoming):
            if name in stopped and name not in seeds and name not in filled and (fill := zero_fill(name)) is not None:
                kept.append(fill)
                filled.add(name)
        kept.append(op)
    return kept


def _sum_of(pieces: list[str], total: OpDesc) -> OpDesc:
    """The sum of the pieces that there are; of one piece, which may be of any dtype, a plain copy."""
    if len(pieces) > 1:
        total.inputs["X"] = pieces
        return total
    copy = OpDesc("assign", {"X": pieces}, total.outputs)
    copy.set_attr("op_role", 1, AttrType.INT)
    return copy


def drop_unneeded(ops: list[OpDesc], available: set[str], zero_fill: Callable[[str], OpDesc | None]) -> list[OpDesc]:
    """Drop grad ops whose incoming gradients nobody makes.

    Where only some are missing, ``sum`` loses those pieces and other ops get zeros.

    Args:
        available: names that exist before the first grad op.
        zero_fill: makes the op for zeros; None for a tensor array, which starts empty.
    """
    made = set(available)
    kept = []
    for op in ops:
        incoming = _gradients_read(op)
        present = [name for name in incoming if name in made]
        if incoming and not present:
            continue
        if op.type == "sum":
            op = _sum_of([name for name in op.inputs["X"] if name in made], op)
        elif op.type == "while_grad" or not op.sub_blocks():
            for name in dict.fromkeys(incoming):
                if name not in made and (fill := zero_fill(name)) is not None:
                    kept.append(fill)
                    made.add(name)
        made.update(op.output_names())
        kept.append(op)
    return kept
