"""The errors that oarlock raises, one class per way a file, a program or a call can be wrong.

Each class also derives from the builtin that Paddle raises in the same situation, so that code written
against Paddle (``except ValueError``) keeps working. A message is one line: what is wrong, where it is,
what was expected, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "FormatError",
    "InputError",
    "KernelError",
    "NotFoundError",
    "OarlockError",
    "ProgramError",
    "UnsupportedOpError",
]


class OarlockError(Exception):
    """Base class of every error that oarlock raises on purpose."""


class FormatError(OarlockError, ValueError, RuntimeError):
    """The bytes of a file are not what the format demands.

    Cause: a truncated, damaged or hostile file, or a file of another format. Remedy: the message names the
    file, the offset, what was expected and what was found.
    """


class NotFoundError(OarlockError, FileNotFoundError, ValueError, RuntimeError):
    """A model file that is needed does not exist. The message lists what was looked for and what lies there."""


class ProgramError(OarlockError, ValueError):
    """The program is well-formed bytes but not a valid program: dangling names, wrong slots, bad block indices."""


class UnsupportedOpError(ProgramError, NotImplementedError):
    """The program uses operators that oarlock does not have.

    Attributes:
        missing: op type -> number of uses.
    """

    def __init__(self, missing: Mapping[str, int], where: str = "program") -> None:
        self.missing = dict(missing)
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(self.missing.items()))
        super().__init__(f"{where} uses {len(self.missing)} unsupported operator type(s): {listed}")


class InputError(OarlockError, ValueError, TypeError):
    """The caller's inputs do not fit what the model declares (count, name, dtype, rank or fixed dimension)."""


class KernelError(OarlockError, ValueError, RuntimeError):
    """An operator refused its inputs while running. The message names block, op index, op type and slots."""
