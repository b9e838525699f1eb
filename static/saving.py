"""``static.save_inference_model``: the part of a program between feeds and fetches, in files that Paddle loads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from ..errors import InputError
from ..ir.desc import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from ..ir.dtypes import DType
from ..ir.feeding import strip_feed_fetch
from ..ir.program_io import write_program
from ..proto.files import write_files
from ..proto.pdiparams import dump_params
from .program import Program, Variable, default_main_program

__all__ = ["normalize_program", "save_inference_model"]

_VERSION = 2006002
"""The version written where the program states none: files are those of Paddle 2.6.2."""

_OPTIONS = frozenset({"program", "clip_extra", "legacy_format"})


def save_inference_model(
    path_prefix: str | os.PathLike[str],
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    executor: Any = None,
    **options: Any,
) -> None:
    """Write ``path_prefix.pdmodel`` and ``path_prefix.pdiparams``, both or none.

    Args:
        feed_vars, fetch_vars: inputs and outputs, in order.
        executor: accepted.
        options: ``program``, the default main program when absent; ``clip_extra`` and ``legacy_format`` are accepted.

    Raises:
        InputError: the fetched variables need an input that ``feed_vars`` lacks, or an option is unknown.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise InputError(f"save_inference_model takes no option '{unknown[0]}', only {', '.join(sorted(_OPTIONS))}")
    prefix = os.fspath(path_prefix)
    if not os.path.basename(prefix):
        raise InputError(f"path_prefix must be a folder and a file prefix, got {prefix!r}")
    made = normalize_program(options.get("program") or default_main_program(), feed_vars, fetch_vars)
    values = {var.name: made._params.value(var.name) for var in made.desc.persistables()}
    data = write_program(made.desc)
    writers: dict[str | os.PathLike[str], Callable[[BinaryIO], object]] = {
        f"{prefix}.pdmodel": lambda stream: stream.write(data)
    }
    if values:
        writers[f"{prefix}.pdiparams"] = lambda stream: dump_params(stream, values)
    write_files(writers)


def normalize_program(
    program: Program, feed_vars: Variable | Sequence[Variable], fetch_vars: Variable | Sequence[Variable]
) -> Program:
    """A copy for inference: what the fetches need, test mode on, feed and fetch ops, a scale by one per output.

    Raises:
        InputError: the fetched variables need an input that ``feed_vars`` lacks.
    """
    feeds, fetches = _names(feed_vars), _names(fetch_vars)
    desc = strip_feed_fetch(program.desc).program
    _keep_needed(desc, fetches)
    _check_feeds(desc, feeds, program._params)
    for block in desc.blocks:
        for op in block.ops:
            if "is_test" in op.attrs:
                op.attrs["is_test"] = True
        for var in block.vars.values():
            var.stop_gradient = var.is_parameter = var.need_check_feed = None
    _add_feed_fetch(desc.global_block, feeds, fetches)
    desc.version = desc.version or _VERSION
    made = Program(desc)
    made._params = program._params
    return made


def _names(variables: Variable | Sequence[Variable]) -> list[str]:
    return [each.name for each in ([variables] if isinstance(variables, Variable) else variables)]


def _keep_needed(program: ProgramDesc, fetches: Sequence[str]) -> None:
    """Drop ops that the fetches do not need, blocks that no op runs, variables that no op names."""
    block = program.global_block
    live = set(fetches)
    kept = []
    for op in reversed(block.ops):
        if live.intersection(op.output_names()):
            kept.append(op)
            live.update(op.input_names())
    block.ops = kept[::-1]
    _renumber(program, _reached_blocks(program))
    used = {name for each in program.blocks for op in each.ops for name in (*op.input_names(), *op.output_names())}
    for each in program.blocks:
        each.vars = {name: var for name, var in each.vars.items() if name in used or name in fetches}


def _reached_blocks(program: ProgramDesc) -> list[int]:
    reached, waiting = {0}, [0]
    while waiting:
        for op in program.blocks[waiting.pop()].ops:
            fresh = [index for index in op.sub_blocks() if index not in reached]
            reached.update(fresh)
            waiting += fresh
    return sorted(reached)


def _renumber(program: ProgramDesc, kept: Sequence[int]) -> None:
    place = {old: new for new, old in enumerate(kept)}
    program.blocks = [program.blocks[index] for index in kept]
    for block in program.blocks:
        block.idx, block.parent_idx = place[block.idx], place.get(block.parent_idx, block.parent_idx)
        block.forward_block_idx = None
        for op in block.ops:
            for attr, kind in op.attr_types.items():
                if kind == AttrType.BLOCK:
                    op.attrs[attr] = place[op.attrs[attr]]
                elif kind == AttrType.BLOCKS:
                    op.attrs[attr] = [place[index] for index in op.attrs[attr]]


def _check_feeds(program: ProgramDesc, feeds: Sequence[str], params: Any) -> None:
    made = set(feeds)
    for op in program.global_block.ops:
        for name in op.input_names():
            if name not in made and name not in params:
                raise InputError(f"the fetched variables need '{name}', which feed_vars lacks: it has {feeds}")
        made.update(op.output_names())


def _add_feed_fetch(block: BlockDesc, feeds: Sequence[str], fetches: Sequence[str]) -> None:
    for name, kind in (("feed", VarKind.FEED_MINIBATCH), ("fetch", VarKind.FETCH_LIST)):
        block.vars[name] = VarDesc(name, kind, persistable=True)
    taken = [_column("feed", {"X": ["feed"]}, {"Out": [name]}, at) for at, name in enumerate(feeds)]
    outputs = [_scaled(block, name, at) for at, name in enumerate(fetches)]
    given = [_column("fetch", {"X": [name]}, {"Out": ["fetch"]}, at) for at, name in enumerate(outputs)]
    block.ops = [*reversed(taken), *block.ops, *given]  # Paddle's own order, which its loader counts on


def _column(kind: str, inputs: Mapping[str, list[str]], outputs: Mapping[str, list[str]], at: int) -> OpDesc:
    op = OpDesc(kind, dict(inputs), dict(outputs))
    op.set_attr("col", at, AttrType.INT)
    return op


def _scaled(block: BlockDesc, name: str, at: int) -> str:
    """The output that is fetched: behind a scale by one, as Paddle writes it; the variable itself for a bool."""
    var = block.vars[name]
    if var.dtype == DType.BOOL:
        return name
    made = f"save_infer_model/scale_{at}.tmp_0"
    block.vars[made] = VarDesc(made, var.kind, var.dtype, var.shape, var.lod_level)
    op = OpDesc("scale", {"X": [name]}, {"Out": [made]})
    op.set_attr("scale", 1.0, AttrType.FLOAT)
    op.set_attr("bias", 0.0, AttrType.FLOAT)
    op.set_attr("bias_after_scale", True, AttrType.BOOLEAN)
    block.ops.append(op)
    return made
