"""Does a wheel hold what the tree holds? Run with a Python that has the wheel installed.

    python tools/check_wheel.py ROOT WHEEL

Compares the modules of the rooms with those in the wheel, looks for ``py.typed`` and ``framework.proto``, and
imports every module from where it is installed.
"""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path

ROOMS = ("proto", "ir", "executor", "eager", "jit", "static", "inference", "cli")
DATA = ("oarlock/py.typed", "oarlock/proto/framework.proto")


def expected(root: Path) -> set[str]:
    """The names in the wheel that the tree asks for."""
    files = [*root.glob("*.py"), *(path for room in ROOMS for path in (root / room).rglob("*.py"))]
    return {f"oarlock/{path.relative_to(root).as_posix()}" for path in files} | set(DATA)


def packed(wheel: Path) -> set[str]:
    """The names in the wheel, its own records left out."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}


def differences(root: Path, wheel: Path) -> list[str]:
    """One line for each file that one side lacks; stubs and other data beside modules are welcome."""
    tree, there = expected(root), packed(wheel)
    extra = {name for name in there - tree if name.endswith(".py") or not name.startswith("oarlock/")}
    return [f"not in the wheel: {name}" for name in sorted(tree - there)] + [
        f"not in the tree: {name}" for name in sorted(extra)
    ]


def main(root: str, wheel: str) -> int:
    """Command line entry."""
    found = differences(Path(root), Path(wheel))
    for line in found:
        print(line)
    names = sorted(name for name in packed(Path(wheel)) if name.endswith(".py") and "__main__" not in name)
    for name in names:
        module = importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        if Path(root) in Path(module.__file__ or "").parents:
            found.append(f"{module.__name__} was imported from the tree")
            print(found[-1])
    print(f"{len(names)} modules of the wheel imported, {len(found)} fault(s)")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
