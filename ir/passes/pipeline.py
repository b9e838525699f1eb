"""The order in which passes run, and the mode that checks each of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable

from ..desc import ProgramDesc
from .drop_dead import drop_dead
from .drop_identities import drop_identities
from .fold_affine import fold_affine
from .fold_constants import fold_constants
from .fuse_activation import fuse_activation
from .fuse_chains import fuse_chains
from .graph import Graph, Params

__all__ = ["PIPELINE", "Inspect", "optimize"]

_log = logging.getLogger("oarlock.ir.passes")

Pass = Callable[[Graph], None]
Inspect = Callable[[str, ProgramDesc, Params], None]

PIPELINE: dict[str, Pass] = {
    "drop_identities": drop_identities,
    "fold_constants": fold_constants,
    "fold_affine": fold_affine,
    "fuse_activation": fuse_activation,
    "fuse_chains": fuse_chains,
    "drop_dead": drop_dead,
}
"""Name -> pass, in the order they run."""


def optimize(
    program: ProgramDesc,
    params: Params,
    fetches: Iterable[str],
    *,
    skip: Collection[str] = (),
    inspect: Inspect | None = None,
) -> ProgramDesc:
    """An optimised copy of an inference program that computes the same fetches.

    Args:
        params: constant values by name; passes add the constants that they compute.
        fetches: the variables that must keep their names.
        skip: names of passes to leave out.
        inspect: debug mode: called after every pass with ``(pass name, program,
            params)``, to verify it and compare its outputs with what they were before.
    """
    work = program.copy()
    wanted = tuple(fetches)
    for name, each in PIPELINE.items():
        if name in skip:
            continue
        start = time.perf_counter()
        before = len(work.global_block.ops)
        each(Graph(work, wanted, params))
        _log.debug(
            "%s: %d -> %d ops in %.1f ms",
            name,
            before,
            len(work.global_block.ops),
            1e3 * (time.perf_counter() - start),
        )
        if inspect is not None:
            inspect(name, work, params)
    return work
