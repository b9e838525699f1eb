"""Generate ``proto/framework_pb2.py`` from ``proto/framework.proto``.

    python tools/regenerate_proto.py            write the module
    python tools/regenerate_proto.py --check    exit 1 when the module in the tree is another one

It needs the compiler of protobuf 25 (``grpcio-tools==1.62.3``, the ``protoc`` extra): the module that this
one writes imports on every protobuf runtime from 4.25 on, while a newer compiler writes modules that refuse
an older runtime. That package wants protobuf 4; where it has an environment of its own, ``PROTOC_PYTHON``
names its interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILER_RELEASE = "libprotoc 25."
ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "proto" / "framework.proto"
TARGET = ROOT / "proto" / "framework_pb2.py"
# The name in the descriptor pool carries the package: no other library's framework.proto collides with it.
POOL_NAME = "oarlock/proto/framework.proto"


def _protoc(*arguments: str) -> subprocess.CompletedProcess[str]:
    interpreter = os.environ.get("PROTOC_PYTHON", sys.executable)
    command = [interpreter, "-m", "grpc_tools.protoc", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compiler_version() -> str | None:
    """What the installed compiler calls itself, or None when there is no compiler."""
    done = _protoc("--version")
    return done.stdout.strip() if done.returncode == 0 else None


def generate() -> str:
    """The text of the module for the present ``framework.proto``.

    Raises:
        RuntimeError: the compiler is absent, of another release, or refuses the file.
    """
    version = compiler_version()
    if version is None or not version.startswith(COMPILER_RELEASE):
        raise RuntimeError(f"needs {COMPILER_RELEASE}x (pip install grpcio-tools==1.62.3), found {version}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / POOL_NAME
        copy.parent.mkdir(parents=True)
        copy.write_bytes(SOURCE.read_bytes())
        done = _protoc(f"-I{folder}", f"--python_out={folder}", POOL_NAME)
        if done.returncode != 0:
            raise RuntimeError(f"the compiler refuses {SOURCE.name}: {done.stderr.strip()}")
        return (Path(folder) / POOL_NAME.replace(".proto", "_pb2.py")).read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write or check the module; the exit code of the program."""
    text = generate()
    if "--check" in arguments:
        same = TARGET.read_text(encoding="utf-8") == text
        print(f"{TARGET.name} is {'up to date' if same else 'not what framework.proto gives'}")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.name} ({len(text)} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
