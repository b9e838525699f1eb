"""Write docs/operators.md: every operator with slots, attributes, gradient and its score in the op bank.

    python tools/document_operators.py [--check]

With ``--check`` nothing is written; the exit code is 1 when the file is stale. The scores come from the committed
table tests/data/scores/bank.json.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import oarlock
from oarlock.executor import kernels
from oarlock.ir.registry import REQUIRED, Operator, Slot, registered

ROOT = Path(oarlock.__file__).parent
TARGET = ROOT / "docs" / "operators.md"
SCORES = ROOT / "tests" / "data" / "scores" / "bank.json"

_HEAD = """# Operators

Written by `tools/document_operators.py`; do not edit by hand. `oarlock ops` prints the same from the installed
package.

A slot with `*` takes a list, one with `?` may be absent. *Gradient*: yes, or "-" where Paddle has none either.
*Bank* counts the one-op models of real Paddle 2.6.2 that agree: forward, and gradient where the model has one.

"""


def _slots(slots: tuple[Slot, ...]) -> str:
    return " ".join(f"{slot.name}{'*' if slot.many else ''}{'?' if slot.optional else ''}" for slot in slots)


def _attrs(operator: Operator) -> str:
    shown = [name if default is REQUIRED else f"{name}={default!r}" for name, default in operator.attrs.items()]
    shown += [f"{name} only {value!r}" for name, value in operator.refuse.items()]
    return ", ".join(shown).replace("|", "\\|")


def _gradient(operator: Operator) -> str:
    if operator.grad_maker is not None or operator.block_grad_maker is not None:
        return "yes"
    return "missing" if operator.differentiable else "-"


def _scores() -> dict[str, str]:
    """Op type -> ``forward passed/cases, gradient passed/cases``."""
    if not SCORES.exists():
        return {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for case, outcome in json.loads(SCORES.read_text()).items():
        for direction in ("forward", "gradient"):
            counts[case.rpartition("/")[0], direction, outcome[direction]] += 1
    shown = {}
    for op in {key[0] for key in counts}:
        parts = []
        for direction in ("forward", "gradient"):
            total = sum(n for (name, d, how), n in counts.items() if name == op and d == direction and how != "none")
            if total:
                parts.append(f"{counts[op, direction, 'pass']}/{total}")
        shown[op] = ", ".join(parts)
    return shown


def document() -> str:
    """The text of the page."""
    kernels.import_families()
    scores = _scores()
    operators = [each for each in registered() if each.forward_of is None and each.type != "fused_chain"]
    with_gradient = sum(_gradient(each) == "yes" for each in operators)
    lines = [_HEAD, f"{len(operators)} operators, {with_gradient} with a gradient.\n"]
    lines.append("| operator | inputs -> outputs | attributes | gradient | bank |")
    lines.append("|---|---|---|---|---|")
    for each in operators:
        slots = f"{_slots(each.inputs)} -> {_slots(each.outputs)}"
        lines.append(f"| `{each.type}` | {slots} | {_attrs(each)} | {_gradient(each)} | {scores.get(each.type, '')} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line entry."""
    text = document()
    if "--check" in sys.argv[1:]:
        stale = not TARGET.exists() or TARGET.read_text() != text
        print("stale: run python tools/document_operators.py" if stale else "up to date")
        return int(stale)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
