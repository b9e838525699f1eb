"""Passes over inference programs: one file each, listed in one pipeline, each can be switched off by name.

They work on a private copy; the program that the user sees, saves and trains is never altered.
"""

from .pipeline import PIPELINE, optimize

__all__ = ["PIPELINE", "optimize"]
