"""Data flows one way: a room imports only rooms below it. The list of packages is complete. Import stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import oarlock
import pytest

ROOT = Path(oarlock.__file__).parent
ROOMS = ["proto", "ir", "executor", "eager", "jit", "static", "inference", "cli"]


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a module imports, relative imports resolved to their place on disk."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
                target = [*base, *(node.module or "").split(".")]
                names = [target[0]] if target[0] else [alias.name for alias in node.names]
            else:
                names = (node.module or "").split(".")[1:2] if (node.module or "").startswith("oarlock") else []
            found.update(names)
        elif isinstance(node, ast.Import):
            found.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("oarlock."))
    return found & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    wrong = {str(path.relative_to(ROOT)): above for path in modules(room) if (above := imported_rooms(path) - allowed)}
    assert wrong == {}


def test_only_proto_knows_protobuf() -> None:
    users = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in modules(room)
        if "google.protobuf" in path.read_text(encoding="utf-8")
    }
    assert {Path(user).parts[0] for user in users} == {"proto"}


def test_the_package_never_imports_paddle() -> None:
    for room in ROOMS:
        for path in modules(room):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                assert not any(name.split(".")[0] in ("paddle", "torch") for name in names), path


def test_the_list_of_packages_is_complete() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no TOML reader; newer ones check the list")
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    folders = {path.parent for room in ROOMS for path in modules(room)} | {ROOT}
    assert listed == {".".join(["oarlock", *folder.relative_to(ROOT).parts]) for folder in folders}


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in modules(room)
        if path.name != "framework_pb2.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_importing_oarlock_brings_no_room_in() -> None:
    code = (
        "import sys, oarlock; print(sorted(m for m in sys.modules if m.startswith('oarlock.')), 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[] False"


def test_an_inference_run_needs_neither_ml_dtypes_nor_unused_families() -> None:
    code = "import sys, oarlock.jit; print([m for m in sys.modules if m == 'ml_dtypes' or '.kernels.' in m])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() in ("[]", "['oarlock.executor.kernels.common']")
