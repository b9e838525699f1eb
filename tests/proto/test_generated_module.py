"""``framework_pb2.py`` is what ``framework.proto`` says, and nobody pays for it before a program is read."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from oarlock.proto.generated import messages

ROOT = Path(__file__).resolve().parent.parent.parent


def regenerate_proto() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regenerate_proto", ROOT / "tools" / "regenerate_proto.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_compiler_gives_the_module_in_the_tree() -> None:
    tool = regenerate_proto()
    version = tool.compiler_version()
    if version is None:
        pytest.skip("no protobuf compiler: pip install grpcio-tools==1.62.3, or set PROTOC_PYTHON")
    assert tool.generate() == (ROOT / "proto" / "framework_pb2.py").read_text(encoding="utf-8")


def test_every_field_of_the_text_is_in_the_module_under_its_number() -> None:
    written: set[tuple[str, str, int]] = set()
    scope: list[str] = []
    for line in (ROOT / "proto" / "framework.proto").read_text(encoding="utf-8").splitlines():
        line = line.partition("//")[0].strip()
        if opening := re.match(r"message (\w+) \{", line):
            scope.append(opening.group(1))
        elif line == "}":
            scope.pop()
        elif field := re.match(r"(?:optional|repeated) \S+ (\w+) = (\d+);", line):
            written.add((".".join(scope), field.group(1), int(field.group(2))))

    compiled: set[tuple[str, str, int]] = set()
    pending = list(messages().DESCRIPTOR.message_types_by_name.values())
    while pending:
        message = pending.pop()
        pending.extend(message.nested_types)
        name = message.full_name.removeprefix("oarlock.framework.")
        compiled.update((name, field.name, field.number) for field in message.fields)
    assert compiled == written
    assert len(written) > 70


def test_the_pool_name_collides_with_no_other_library() -> None:
    assert messages().DESCRIPTOR.name == "oarlock/proto/framework.proto"


def test_protobuf_is_imported_only_when_a_program_is_read() -> None:
    code = (
        "import sys, oarlock.ir.program_io, oarlock.proto.pickles, oarlock.proto.layouts, "
        "oarlock.proto.parameters; print('google.protobuf' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
