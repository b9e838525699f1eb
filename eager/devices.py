"""Questions about devices and the build, answered for the CPU; calls that scripts make and that change nothing."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from ..errors import InputError
from .place import CPU, Place

__all__ = [
    "device",
    "disable_signal_handler",
    "get_device",
    "is_compiled_with_cinn",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_distribute",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "set_device",
    "utils",
    "version",
]


def set_device(device: str) -> Place:
    """Choose the device; ``"cpu"`` is the only one.

    Raises:
        InputError: another device.
    """
    if device == "cpu":
        return CPU
    found = re.match(r"(gpu|xpu|npu|ipu|mlu|cuda)(:\d+)?$", device)
    kind = "CUDA" if found is None or found.group(1) in ("gpu", "cuda") else found.group(1).upper()
    raise InputError(
        f"The device should not be {found or device!r}, since PaddlePaddle is not compiled with {kind}; "
        "oarlock runs on the CPU: use 'cpu'"
    )


def get_device() -> str:
    """``"cpu"``."""
    return "cpu"


def _never(*args: Any, **kwargs: Any) -> bool:
    """False: there is only the CPU."""
    return False


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing to do on the CPU."""


is_compiled_with_cuda = is_compiled_with_rocm = is_compiled_with_xpu = is_compiled_with_cinn = _never
is_compiled_with_distribute = is_compiled_with_custom_device = _never
disable_signal_handler = _nothing

device = SimpleNamespace(
    set_device=set_device,
    get_device=get_device,
    get_available_device=lambda: ["cpu"],
    get_all_device_type=lambda: ["cpu"],
    is_compiled_with_cuda=_never,
    is_compiled_with_rocm=_never,
    is_compiled_with_xpu=_never,
    is_compiled_with_cinn=_never,
    is_compiled_with_custom_device=_never,
    synchronize=_nothing,
    cuda=SimpleNamespace(device_count=lambda: 0, empty_cache=_nothing, synchronize=_nothing),
)
"""``paddle.device``."""

version = SimpleNamespace(full_version="2.6.2", major="2", minor="6", patch="2", commit="oarlock", cuda=lambda: "False")
"""``paddle.version``: the version of Paddle whose behaviour is kept."""


def _run_check() -> None:
    """Say that the installation works."""
    print("oarlock is installed successfully: it runs on the CPU.")


utils = SimpleNamespace(run_check=_run_check)
"""``paddle.utils``."""
