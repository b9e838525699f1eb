"""Generated files are those that their tools would write now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import oarlock
import pytest

ROOT = Path(oarlock.__file__).parent


@pytest.mark.parametrize("tool", ["index_kernels.py", "document_operators.py"])
def test_it_is_up_to_date(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / tool), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
