"""The program in memory: descriptions, operator registry, verifier, printer, passes."""

from .desc import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind

__all__ = ["AttrType", "BlockDesc", "OpDesc", "ProgramDesc", "VarDesc", "VarKind"]
