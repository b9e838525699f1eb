"""Parse the command line, run a command, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..errors import OarlockError
from . import bench, convert, diff, ops, run, show

__all__ = ["EXIT_ERROR", "build_parser", "main"]

EXIT_ERROR = 1
"""The model or its inputs are at fault."""
EXIT_INTERRUPTED = 130
"""Stopped from the keyboard."""

_EPILOG = """\
examples:
  oarlock show inference                        what goes in and out, parameters, operators
  oarlock show inference --program              the program, one op a line
  oarlock run inference --input x.npy --output out.npz
  oarlock run inference --input x=random:1x3x48x320
  oarlock bench inference --input random:1x3x640x640
  oarlock convert inference new/inference       .pdmodel to .json of Paddle 3, or back
  oarlock diff inference new/inference --trace  what differs, and the first operator that does
  oarlock ops --missing other_model             operators that a model needs and oarlock lacks

MODEL is a prefix (inference for inference.pdmodel), a folder, or a program file.
exit codes: 0 fine, 1 the model or an input is at fault, 2 the command line is at fault.
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    from .. import __version__

    parser = argparse.ArgumentParser(
        prog="oarlock",
        description="Look at, run and measure models saved by PaddlePaddle, without PaddlePaddle.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"oarlock {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (show, run, bench, ops, convert, diff):
        module.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    args = build_parser().parse_args(argv)
    try:
        return int(args.handler(args))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away: nothing left to say
        return EXIT_ERROR
    except (OarlockError, OSError) as error:
        print(f"oarlock {args.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
