"""``oarlock convert``: a saved model to the other format."""

from __future__ import annotations

import argparse
from typing import Any

from ..jit.convert import FORMATS, convert

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "convert",
        help="a model of Paddle 2 to one of Paddle 3, or back",
        description="Write a model in the other format: .pdmodel for Paddle 2 (and OpenVINO), .json for Paddle 3. "
        "Operators that the other side does not have are listed and nothing is written.",
    )
    parser.add_argument("source", metavar="SRC", help="prefix, folder or program file of a saved model")
    parser.add_argument("target", metavar="DST", help="prefix or program file of the new model")
    parser.add_argument("--format", choices=FORMATS, help="default: by the suffix of DST, else the other format")
    parser.set_defaults(handler=_convert)


def _convert(args: argparse.Namespace) -> int:
    written = convert(args.source, args.target, args.format)
    print(f"{args.target.removesuffix('.' + written)}.{written}")
    return 0
