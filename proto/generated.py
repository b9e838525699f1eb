"""The generated protobuf module, imported at first use: it costs several times the rest of the package."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

__all__ = ["from_text", "messages", "parse", "to_text"]


@lru_cache(maxsize=1)
def messages() -> Any:
    """The generated module: the message classes by name."""
    return importlib.import_module(".framework_pb2", __package__)


@lru_cache(maxsize=1)
def _decode_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("google.protobuf.message").DecodeError
    return error


def parse(message: Any, raw: bytes) -> Any:
    """An instance of the generated class ``message`` from its bytes.

    Raises:
        ValueError: the bytes are no such message.
    """
    try:
        return message.FromString(raw)
    except _decode_error() as error:
        raise ValueError(f"{len(raw)} bytes do not decode as {message.DESCRIPTOR.name}") from error


def to_text(raw: bytes) -> str:
    """Bytes of the file as text; what is not UTF-8 survives as lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def from_text(text: str) -> bytes:
    """The inverse of :func:`to_text`."""
    return text.encode("utf-8", "surrogateescape")
