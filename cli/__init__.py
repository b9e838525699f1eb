"""The command line: ``oarlock show | run | bench | ops``."""

from .main import main

__all__ = ["main"]
