"""Write executor/kernels/index.py: which family file has which operator type.

    python tools/index_kernels.py [--check]

With ``--check`` nothing is written; the exit code is 1 when the file is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

import oarlock
from oarlock.executor import kernels
from oarlock.ir.registry import registered

PATH = Path(oarlock.__file__).parent / "executor" / "kernels" / "index.py"


def index_text() -> str:
    """The contents of the index."""
    kernels.import_families()
    families: dict[str, list[str]] = {}
    for operator in registered():
        families.setdefault(operator.family, []).append(operator.type)
    lines = [
        '"""Which family file declares which operator types. Written by tools/index_kernels.py; not by hand."""',
        "",
        "from __future__ import annotations",
        "",
        '__all__ = ["FAMILY_OF"]',
        "",
        "# fmt: off",
        "_TYPES = {",
        *(f'    "{family}": "{" ".join(sorted(types))}",' for family, types in sorted(families.items())),
        "}",
        "# fmt: on",
        "",
        "FAMILY_OF = {type: family for family, types in _TYPES.items() for type in types.split()}",
        '"""Op type -> module under executor/kernels."""',
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line entry."""
    text = index_text()
    if "--check" in sys.argv[1:]:
        stale = not PATH.exists() or PATH.read_text() != text
        print("stale: run python tools/index_kernels.py" if stale else "up to date")
        return int(stale)
    PATH.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
