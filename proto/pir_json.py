"""``.json``: the text of a Paddle 3 program to descriptions.

The text is one object ``{"base_code": {"magic", "trainable", "version"}, "program": {"regions": [...]}}`` with
short keys: ``#`` name or kind, ``%`` value id, ``I`` operands, ``O`` results, ``A`` attributes, ``OA`` attributes
of results, ``N``/``AT``/``D`` name, attribute and data, ``TT`` type, ``VD`` a float that JSON cannot write.
Everything is checked while it is read; an error names the place as a path into the JSON.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..errors import FormatError
from .pir_attrs import read_attr
from .pir_desc import ABSENT, PARAMETER, PirAttr, PirBlock, PirModule, PirOp, PirRegion, PirValue
from .pir_fault import Fault, boolean, field_of, integer, items, mapping, text, value_id
from .pir_types import read_type

__all__ = ["MAX_BYTES", "decode_pir"]

MAX_BYTES: Final = 1 << 30
"""The longest text that is read: real programs have some ten megabytes, parameters lie in a file of their own."""

_DIALECTS: Final = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist", "5": "onednn_op"}
_MAX_REGIONS: Final = 64
_MAX_DIGITS: Final = 40
_MAX_NESTING: Final = 500
_OP_KEYS: Final = frozenset({"#", "A", "I", "O", "OA", "regions"})


def decode_pir(data: bytes, source: str) -> PirModule:
    """The program in ``data``. ``source`` names the text in errors.

    Operands are checked: each names a value that an earlier operation of the block, or of a block around it,
    has made; no id is given twice.

    Raises:
        FormatError: the text is cut or no JSON, or no program of this format; names the place.
    """
    tree = _parse(data, source)
    try:
        return _module(tree)
    except Fault as fault:
        raise FormatError(f"{source}: {fault}") from None


def _parse(data: bytes, source: str) -> Any:
    if not data.strip():
        raise FormatError(f"{source} is empty: a program begins with {{")
    if len(data) > MAX_BYTES:
        raise FormatError(f"{source} has {len(data)} bytes, a program has at most {MAX_BYTES}")
    try:
        document = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{source} is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}") from error
    try:
        return json.loads(document, parse_int=_int, parse_float=_float, parse_constant=_constant)
    except json.JSONDecodeError as error:
        end = " (the text ends there)" if error.pos >= len(document.rstrip()) else ""
        raise FormatError(
            f"{source} is not JSON: line {error.lineno} column {error.colno}: {error.msg}{end}"
        ) from error
    except RecursionError as error:
        where = _nesting_place(document)
        raise FormatError(f"{source}: {where}: brackets are nested too deep for a program") from error
    except Fault as fault:
        raise FormatError(f"{source}: {fault}") from None


def _int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise Fault(f"the number {digits[:12]}... has {len(digits)} digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise Fault(f"the number {digits[:24]} does not fit a double")
    return number


def _constant(word: str) -> float:
    raise Fault(f'{word} is not JSON; a program writes such a number as "VD"')


def _nesting_place(document: str) -> str:
    """Where brackets first nest deeper than a program's do."""
    depth, quoted, skip = 0, False, False
    for position, char in enumerate(document):
        if skip or quoted:
            quoted = skip or char != '"'
            skip = not skip and char == "\\"
        elif char == '"':
            quoted = True
        elif char in "[{":
            depth += 1
            if depth > _MAX_NESTING:
                return f"line {document.count(chr(10), 0, position) + 1} character {position}"
        elif char in "]}":
            depth -= 1
    return "the end"


def _module(tree: Any) -> PirModule:
    top = mapping(tree)
    base = Fault.at("base_code", lambda: mapping(field_of(top, "base_code")))
    if base.get("magic") != "pir":
        raise Fault(f"magic is {base.get('magic')!r}, expected 'pir': not a program of Paddle 3", "base_code")
    version = Fault.at("base_code.version", lambda: integer(field_of(base, "version")))
    trainable = Fault.at("base_code.trainable", lambda: boolean(base.get("trainable", True)))
    regions = Fault.at("program", lambda: items(field_of(mapping(field_of(top, "program")), "regions")))
    if len(regions) != 1:
        raise Fault(f"there are {len(regions)} regions, a program has one", "program.regions")
    region = Fault.at("program.regions[0]", _Reader().region, regions[0], 0)
    if len(region.blocks) != 1:
        raise Fault(f"there are {len(region.blocks)} blocks, a program has one", "program.regions[0].blocks")
    return PirModule(region.blocks[0], version, trainable, region.name)


class _Reader:
    """One reading: the ids met so far, and the values that can be seen from where it is."""

    def __init__(self) -> None:
        self._defined: set[int] = set()
        self._visible: set[int] = set()

    def region(self, tree: Any, depth: int) -> PirRegion:
        if depth > _MAX_REGIONS:
            raise Fault(f"regions are nested more than {_MAX_REGIONS} deep")
        fields = mapping(tree)
        blocks = items(field_of(fields, "blocks"))
        made = [Fault.at(f"blocks[{i}]", self.block, each, depth) for i, each in enumerate(blocks)]
        return PirRegion(text(field_of(fields, "#")), made)

    def block(self, tree: Any, depth: int) -> PirBlock:
        fields = mapping(tree)
        inside: list[int] = []
        block = PirBlock(text(field_of(fields, "#")))
        for position, entry in enumerate(items(fields.get("args", []))):
            block.args.append(Fault.at(f"args[{position}]", self.argument, entry, inside))
        for position, entry in enumerate(items(fields.get("kwargs", []))):
            block.kwargs.append(Fault.at(f"kwargs[{position}]", self.keyed, entry, inside))
        for position, entry in enumerate(items(field_of(fields, "ops"))):
            try:
                block.ops.append(self.op(entry, inside, depth))
            except Fault as fault:
                name = entry.get("#") if isinstance(entry, dict) else None
                raise fault.within(f"ops[{position}]" + (f" ({name})" if isinstance(name, str) else "")) from None
        self._visible.difference_update(inside)
        return block

    def argument(self, tree: Any, inside: list[int]) -> PirValue:
        fields = mapping(tree)
        found = value_id(field_of(fields, "#"))
        if found >= 0:
            raise Fault(f"an argument of a block has the id {found}, expected one below 0")
        return self.define(found, field_of(fields, "TT"), inside)

    def keyed(self, tree: Any, inside: list[int]) -> tuple[str, PirValue]:
        return text(field_of(mapping(tree), "key")), self.argument(tree, inside)

    def define(self, found: int, type_tree: Any, inside: list[int]) -> PirValue:
        if found in self._defined:
            raise Fault(f"the value %{found} is made twice")
        self._defined.add(found)
        self._visible.add(found)
        inside.append(found)
        return PirValue(found, Fault.at("TT", read_type, type_tree))

    def op(self, tree: Any, inside: list[int], depth: int) -> PirOp:
        fields = mapping(tree)
        code = text(field_of(fields, "#"))
        if code == "p":
            return self.parameter(fields, inside)
        op = PirOp(_op_name(code))
        for position, entry in enumerate(items(field_of(fields, "I"))):
            op.operands.append(Fault.at(f"I[{position}]", self.operand, entry))
        op.attrs = _attrs(fields, "A")
        op.result_attrs = _attrs(fields, "OA") if "OA" in fields else {}
        if "regions" in fields:
            for position, entry in enumerate(items(fields["regions"])):
                op.regions.append(Fault.at(f"regions[{position}]", self.region, entry, depth + 1))
        for position, entry in enumerate(items(field_of(fields, "O"))):
            op.results.append(Fault.at(f"O[{position}]", self.result, entry, inside))
        op.extra = {key: fields[key] for key in fields.keys() - _OP_KEYS}
        return op

    def operand(self, tree: Any) -> int:
        found = value_id(field_of(mapping(tree), "%"))
        if found != ABSENT and found not in self._visible:
            known = "is made later or in another block" if found in self._defined else "is made by no operation before"
            raise Fault(f"the value %{found} {known}")
        return found

    def result(self, tree: Any, inside: list[int]) -> PirValue:
        fields = mapping(tree)
        found = value_id(field_of(fields, "%"))
        if found < 0:
            raise Fault(f"a result has the id {found}, expected one above 0")
        if found == ABSENT:
            return PirValue(ABSENT, None)
        return self.define(found, field_of(fields, "TT"), inside)

    def parameter(self, fields: dict[str, Any], inside: list[int]) -> PirOp:
        """``A`` is [is_distributed, is_parameter, need_clip, name], ``OA`` [persistable, stop_gradient, trainable]."""
        made = items(field_of(fields, "A"))
        about = items(field_of(fields, "OA")) if "OA" in fields else [1, 0, 1]
        if len(made) != 4 or len(about) != 3:
            raise Fault(f"a parameter has {len(made)} attributes and {len(about)} of its result, expected 4 and 3")
        names = ("is_distributed", "is_parameter", "need_clip")
        flags = {name: PirAttr("0.a_bool", _flag(made[i], f"A[{i}]")) for i, name in enumerate(names)}
        flags["parameter_name"] = PirAttr("0.a_str", Fault.at("A[3]", text, made[3]))
        result = ("persistable", "stop_gradient", "trainable")
        facts = {name: PirAttr("0.a_bool", _flag(about[i], f"OA[{i}]")) for i, name in enumerate(result)}
        value = Fault.at("O", lambda: self.result(field_of(fields, "O"), inside))
        extra = {key: fields[key] for key in fields.keys() - _OP_KEYS}
        return PirOp(PARAMETER, [], [value], flags, facts, extra=extra)


def _flag(tree: Any, place: str) -> bool:
    if tree in (0, 1):  # true and false are equal to them
        return bool(tree)
    raise Fault(f"expected 0 or 1, found {str(tree)[:40]!r}", place)


def _op_name(code: str) -> str:
    dialect, _, rest = code.partition(".")
    if dialect not in _DIALECTS or not rest:
        raise Fault(f"{code[:80]!r} is of no dialect that is known ({', '.join(_DIALECTS.values())})", "#")
    return f"{_DIALECTS[dialect]}.{rest}"


def _attrs(fields: dict[str, Any], key: str) -> dict[str, PirAttr]:
    made: dict[str, PirAttr] = {}
    for position, entry in enumerate(items(field_of(fields, key))):
        try:
            attr = mapping(entry)
            name = text(field_of(attr, "N"))
            if name in made:
                raise Fault(f"the attribute {name!r} is given twice")
            made[name] = read_attr(field_of(attr, "AT"))
        except Fault as fault:
            raise fault.within(f"{key}[{position}]") from None
    return made
