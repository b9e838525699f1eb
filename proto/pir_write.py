"""``.json``: descriptions of a Paddle 3 program to its text, as Paddle writes it: minified, keys in order."""

from __future__ import annotations

import json
from typing import Any, Final

from .pir_attrs import write_attr
from .pir_desc import PARAMETER, PirAttr, PirBlock, PirModule, PirOp, PirRegion, PirValue
from .pir_types import write_type

__all__ = ["encode_pir"]

_CODES: Final = {"builtin": "0", "pd_op": "1", "cf": "2", "custom_op": "3", "dist": "4", "onednn_op": "5"}
_PARAMETER_ATTRS: Final = ("is_distributed", "is_parameter", "need_clip")
_PARAMETER_RESULT: Final = ("persistable", "stop_gradient", "trainable")


def encode_pir(module: PirModule) -> bytes:
    """The UTF-8 text of a program."""
    region = _region(PirRegion(module.region_name, [module.block]), module.trainable)
    tree = {
        "base_code": {"magic": "pir", "trainable": module.trainable, "version": module.version},
        "program": {"regions": [region]},
    }
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _region(region: PirRegion, trainable: bool) -> dict[str, Any]:
    return {"#": region.name, "blocks": [_block(block, trainable) for block in region.blocks]}


def _block(block: PirBlock, trainable: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"#": block.name, "args": [_argument(each) for each in block.args]}
    if block.kwargs:
        made["kwargs"] = [{**_argument(value), "key": key} for key, value in block.kwargs]
    made["ops"] = [_parameter(op) if op.name == PARAMETER else _op(op, trainable) for op in block.ops]
    return made


def _argument(value: PirValue) -> dict[str, Any]:
    return {"#": value.id, "TT": write_type(value.type)}


def _result(value: PirValue) -> dict[str, Any]:
    return {"%": value.id, "TT": write_type(value.type)}


def _attrs(attrs: dict[str, PirAttr]) -> list[dict[str, Any]]:
    return [{"AT": write_attr(attr), "N": name} for name, attr in attrs.items()]


def _op(op: PirOp, trainable: bool) -> dict[str, Any]:
    dialect, _, rest = op.name.partition(".")
    made: dict[str, Any] = {
        "#": f"{_CODES[dialect]}.{rest}",
        "A": _attrs(op.attrs),
        "I": [{"%": operand} for operand in op.operands],
        "O": [_result(value) for value in op.results],
    }
    if trainable:  # otherwise Paddle leaves the attributes of results out
        made["OA"] = _attrs(op.result_attrs)
    made |= op.extra
    if op.regions:
        made["regions"] = [_region(region, trainable) for region in op.regions]
    return dict(sorted(made.items())) if op.extra else made


def _parameter(op: PirOp) -> dict[str, Any]:
    flags: list[Any] = [int(op.attrs[name].value) for name in _PARAMETER_ATTRS]
    made = {
        "#": "p",
        "A": [*flags, op.attrs["parameter_name"].value],
        "O": _result(op.results[0]),
        "OA": [int(op.result_attrs[name].value) for name in _PARAMETER_RESULT],
        "DA": [],
        "QA": [],
        **op.extra,
    }
    return dict(sorted(made.items()))
