"""The built wheel holds every module of the tree and the files that go with them, and nothing of the tests."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import oarlock
import pytest

ROOT = Path(oarlock.__file__).parent
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests", "bench", "docs", "*.so")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """``tools/check_wheel.py``."""
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / "tools" / "check_wheel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the tree, built without asking for anything over the network."""
    pytest.importorskip("setuptools", "77", reason="the test extra has a setuptools that builds wheels")
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    command = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"
    built = subprocess.run(
        [sys.executable, "-c", command, str(folder)], cwd=folder / "tree", capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr[-2000:]
    return next(folder.glob("*.whl"))


def test_the_wheel_and_the_tree_hold_the_same_modules(tool: ModuleType, wheel: Path) -> None:
    assert tool.differences(ROOT, wheel) == []


def test_a_missing_module_would_be_noticed(tool: ModuleType, wheel: Path, tmp_path: Path) -> None:
    poorer = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(poorer, "w") as target:
        for name in source.namelist():
            if name not in ("oarlock/jit/load.py", "oarlock/py.typed"):
                target.writestr(name, source.read(name))
        target.writestr("oarlock/stray.py", "")
    assert tool.differences(ROOT, poorer) == [
        "not in the wheel: oarlock/jit/load.py",
        "not in the wheel: oarlock/py.typed",
        "not in the tree: oarlock/stray.py",
    ]


def test_the_wheel_states_licence_command_and_pythons(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(info["METADATA"]).decode("utf-8")
        entry_points = archive.read(info["entry_points.txt"]).decode("utf-8")
    assert "Requires-Python: >=3.10\n" in metadata
    assert [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra" not in line] == [
        "Requires-Dist: numpy>=1.26",
        "Requires-Dist: protobuf>=4.25",
        "Requires-Dist: ml_dtypes>=0.3",
    ]
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "LICENSE" in info
    assert "oarlock = oarlock.cli:main" in entry_points


def test_the_wheel_runs_where_the_tree_is_not(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    model = ROOT / "tests" / "data" / "models" / "bn_finetune" / "model"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy, oarlock; print(oarlock.__file__)\n"
        "print(oarlock.jit.load(sys.argv[2])(numpy.ones((2, 3, 5, 5), numpy.float32)).shape)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "site"), str(model)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    where, shape = done.stdout.splitlines()
    assert Path(where).parent == tmp_path / "site" / "oarlock"
    assert shape == "[2, 3]"
