"""Every program of the zoo and of the operator bank, and every parameter file of the zoo, byte for byte.

These files are not part of the repository: ``OARLOCK_SHARED`` names the folder that holds them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oarlock.ir.program_io import read_program, write_program
from oarlock.proto.layouts import find_model
from oarlock.proto.parameters import load_parameters
from oarlock.proto.pdiparams import dump_params
from oarlock.proto.pickles import read_info

SHARED = os.environ.get("OARLOCK_SHARED", "")
LARGEST = 8_000_000

pytestmark = pytest.mark.skipif(not SHARED, reason="set OARLOCK_SHARED to the folder with zoo/ and opbank/")


def zoo_programs() -> Iterator[Path]:
    for path in sorted(Path(SHARED, "zoo", "models").glob("*/pdmodel*/*")):
        if path.suffix == ".pdmodel" or path.name == "__model__":
            yield path


def test_every_program_of_the_zoo() -> None:
    paths = list(zoo_programs())
    assert len(paths) >= 150
    different = [
        path for path in paths if write_program(read_program(path.read_bytes(), str(path))) != path.read_bytes()
    ]
    assert different == []


def test_every_program_of_the_operator_bank() -> None:
    count, different = 0, []
    for archive in sorted(Path(SHARED, "opbank").glob("*.zip")):
        with zipfile.ZipFile(archive) as files:
            for name in files.namelist():
                if name.endswith(".pdmodel"):
                    data, count = files.read(name), count + 1
                    if write_program(read_program(data, name)) != data:
                        different.append(f"{archive.name}/{name}")
    assert count >= 1859
    assert different == []


def test_every_info_file_of_the_zoo() -> None:
    paths = sorted(Path(SHARED, "zoo", "models").glob("*/pdmodel/*.info"))
    assert len(paths) > 100
    for path in paths:
        assert read_info(path)


def zoo_models() -> list[Any]:
    """The models of the zoo whose parameter files are small enough to be made here."""
    sys.path.insert(0, str(Path(SHARED, "zoo")))
    import read_zoo

    found = []
    for model in read_zoo.models(str(Path(SHARED, "zoo"))):
        files = model.spec["formats"].get("pdmodel", {}).get("files", {})
        if files and sum(facts.get("size", 0) for facts in files.values()) < LARGEST:
            found.append(model)
    return found


def test_every_small_parameter_file_of_the_zoo(tmp_path: Path) -> None:
    compared = 0
    for model in zoo_models():
        files = find_model(model.materialize("pdmodel", str(tmp_path)))
        recorded = model.spec["formats"]["pdmodel"]["files"]
        for method, path in files.programs.items():
            names = [var.name for var in read_program(Path(path).read_bytes(), path).persistables()]
            if files.separate or not names:
                assert len(load_parameters(files, names)) == len(names)
                continue
            written = io.BytesIO()
            dump_params(written, load_parameters(files, {method: names}))
            want = recorded[os.path.basename(files.params[method])]["sha256"]
            assert hashlib.sha256(written.getvalue()).hexdigest() == want, (model.name, method)
            compared += 1
    assert compared > 80


def test_the_index_of_the_zoo_is_covered() -> None:
    index = json.loads(Path(SHARED, "zoo", "index.json").read_text(encoding="utf-8"))
    with_programs = {path.parent.parent.name for path in zoo_programs()}
    wanted = {entry["name"] for entry in index["models"] if "pdmodel" in entry["formats"]}
    assert wanted <= with_programs
