"""Write ``ir/pir/ops.json``: how each operation of Paddle 3 corresponds to an operator of Paddle 2.

    python tools/index_pir.py --shared ../shared

The facts are those of ``pd_op_signatures.json`` (operands, results, attributes of every operation), ``pir_ops.json``
(old operators as real Paddle translates them) and ``op_protos.json`` (old slots and attributes), with the few
corrections below where these disagree or where a name has changed without record.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oarlock.executor.kernels import import_families
from oarlock.ir.registry import find

KINDS = {
    "bool": "0.a_bool",
    "int": "0.a_i32",
    "int64_t": "0.a_i64",
    "size_t": "0.a_i64",
    "float": "0.a_f32",
    "double": "0.a_f64",
    "string": "0.a_str",
    "DataType": "1.a_dtype",
    "DataLayout": "1.a_layout",
    "Place": "1.a_place",
    "Scalar": "1.a_scalar",
    "IntArray": "1.a_intarray",
}
LEGACY_TYPES = {
    "0.a_bool": "BOOLEAN",
    "0.a_i32": "INT",
    "0.a_i64": "LONG",
    "0.a_f32": "FLOAT",
    "0.a_f64": "FLOAT64",
    "0.a_str": "STRING",
    "1.a_dtype": "INT",
    "1.a_scalar": "SCALAR",
    "1.a_intarray": "LONGS",
    "[0.a_i32]": "INTS",
    "[0.a_i64]": "LONGS",
    "[0.a_f32]": "FLOATS",
    "[0.a_f64]": "FLOAT64S",
    "[0.a_bool]": "BOOLEANS",
    "[0.a_str]": "STRINGS",
    "[1.a_scalar]": "SCALARS",
}
RENAMED = {"data_format": "data_layout", "axis": "dim"}
CORRECTIONS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "pir_corrections.json").read_text())


def attr_kind(c_type: str) -> str | None:
    """The kind that a file gives to an attribute of a C++ type; arrays in brackets; None for runtime-only types."""
    if c_type.startswith("vector<"):
        item = KINDS.get(c_type[7:-1])
        return None if item is None else f"[{item}]"
    return KINDS.get(c_type)


def observed(expansions: Any) -> dict[str, dict[str, Any]]:
    """pd_op name without a trailing underscore -> {"type", "in": {operand: source}, ...} for one-to-one expansions."""
    found: dict[str, dict[str, Any]] = {}
    for type, entry in expansions.items():
        for form in ("pir", "min"):
            made = entry.get(form)
            if not isinstance(made, dict) or not made["op"].startswith("pd_op."):
                continue
            name = made["op"][6:].rstrip("_")
            each = found.setdefault(name, {"types": [], "sources": {}})
            if type not in each["types"]:
                each["types"].append(type)
            for operand, source in made["in"]:
                each["sources"].setdefault((type, operand), []).append(source)
    return found


def operand_entry(name: str, type: str, sources: Sequence[Any], names: Any, tensor: Any, slots: set[str]) -> Any:
    """``slot`` for a tensor; ``[attr, tensor slot, list slot, "T" when a variable may feed the attr]`` otherwise."""
    plain = [each.strip("[]") for each in sources if isinstance(each, str) and "(" not in each]
    constant = any(isinstance(each, str) and each.startswith("full") for each in sources)
    if name in tensor or constant:
        facts = tensor.get(name, {})
        single, many = facts.get("tensor_name"), facts.get("tensors_name")
        for each in plain:
            if each in slots and each not in (single, many):
                single, many = (single, each) if f"[{each}]" in sources else (each, many)
        attr = names.get("attrs", {}).get(name, name)
        return [attr, single, many, *(["T"] if facts.get("support_tensor") else [])]
    found = names.get("inputs", {}).get(name) or next((each for each in plain if each in slots), None)
    return found or _slot_like(name, sorted(slots), len(slots))


def entry_of(name: str, signature: Any, seen: Any, protos: Any) -> dict[str, Any] | None:
    """How one pd_op corresponds, or None for gradients and the like."""
    types = seen["types"] if seen else []
    type = signature.get("legacy") or (types[0] if types else name)
    proto = protos.get(type, {})
    slots = {slot for slot, _ in proto.get("in", [])}
    names = signature.get("legacy_names", {})
    tensor = signature.get("tensor_attrs", {})
    sources = {
        operand: found for (kind, operand), found in (seen or {"sources": {}})["sources"].items() if kind == type
    }
    outputs = names.get("outputs", {})
    made_slots = [slot for slot, _ in proto.get("out", [])]
    attrs = {}
    for attr, described in signature["attrs"].items():
        kind = attr_kind(described[0])
        if kind is not None and attr not in signature["inputs"]:
            attrs[attr] = [_attr_name(attr, names.get("attrs", {}).get(attr, attr), proto), kind, *described[1:]]
    made = {
        "type": type,
        "in": [
            [operand, operand_entry(operand, type, sources.get(operand, []), names, tensor, slots)]
            for operand in signature["inputs"]
        ],
        "out": [
            [result, outputs.get(result) or _slot_like(result, made_slots, index)]
            for index, result in enumerate(signature["outputs"])
        ],
        "attrs": attrs,
    }
    return made


def _attr_name(attr: str, legacy: str, proto: Any) -> str | None:
    """The old name of an attribute; None where the old operator has none like it."""
    known = {**proto.get("attrs", {}), **proto.get("extra_attrs", {})}
    if not proto or legacy in known:
        return legacy
    return RENAMED[legacy] if RENAMED.get(legacy) in known else None


def _slot_like(result: str, slots: Sequence[str], index: int) -> str:
    bare = result.replace("_", "").lower()
    same = [slot for slot in slots if slot.replace("_", "").lower() == bare]
    return same[0] if same else (slots[index] if index < len(slots) else result)


def legacy_attrs(proto: Any) -> dict[str, Any]:
    """attr -> type of an old operator."""
    made = {name: facts["t"] for name, facts in proto.get("attrs", {}).items() if "e" not in facts.get("f", "")}
    for name, default in proto.get("extra_attrs", {}).items():
        kind = {bool: "BOOLEAN", int: "INT", float: "FLOAT", str: "STRING"}.get(type(default))
        if kind is not None and not name.startswith(("use_", "fuse_", "mkldnn", "workspace")):
            made[name] = kind
    return made


def old_entry(proto: Any) -> dict[str, Any]:
    """What the table says about an old operator: its attributes, its version, outputs that files leave out."""
    made: dict[str, Any] = {"attrs": legacy_attrs(proto)}
    if "version" in proto:
        made["version"] = proto["version"]
    return made


def build(shared: Path) -> dict[str, Any]:
    """The whole table."""
    spec = shared / "spec"
    signatures = json.loads((spec / "pd_op_signatures.json").read_text())
    expansions = json.loads((spec / "pir_ops.json").read_text())["ops"]
    protos = json.loads((spec / "op_protos.json").read_text())["ops"]
    seen = observed(expansions)
    ops: dict[str, Any] = {}
    for name in sorted({each.rstrip("_") for each in signatures} | set(seen)):
        signature = signatures.get(name) or signatures.get(name + "_") or _assumed(name, seen, expansions)
        if signature is None or "grad_of" in signature or name.endswith(("_grad", "_sp", "_xpu")):
            continue
        ops[name] = entry_of(name, signature, seen.get(name), protos)
    for name, change in CORRECTIONS["ops"].items():
        ops[name] = {"in": [], "out": [], "attrs": {}, **ops.get(name, {}), **change}
    import_families()
    ops = {name: each for name, each in ops.items() if find(each["type"]) is not None}
    types = sorted({each["type"] for each in ops.values()} & set(protos))
    table = {type: old_entry(protos[type]) for type in types}
    return {"ops": ops, "legacy": table}


def _assumed(name: str, seen: Any, expansions: Any) -> Any:
    """A signature from the observed expansion alone, for operations that the list of signatures lacks."""
    for type in seen[name]["types"]:
        for form in ("pir", "min"):
            made = expansions[type].get(form)
            if isinstance(made, dict) and made["op"].rstrip("_") == f"pd_op.{name}":
                maps = expansions[type]
                return {
                    "inputs": [operand for operand, _ in made["in"]],
                    "outputs": made["out"],
                    "attrs": {},
                    "legacy": type,
                    "legacy_names": {
                        "inputs": maps.get("inputs_map", {}),
                        "outputs": maps.get("outputs_map", {}),
                        "attrs": maps.get("attrs_map", {}),
                    },
                    "tensor_attrs": {**maps.get("int_array", {}), **maps.get("scalar", {})},
                }
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", default="../shared", help="the folder that holds spec/")
    parser.add_argument("--out", default="ir/pir/ops.json")
    args = parser.parse_args(argv)
    made = build(Path(args.shared))
    rows = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(made['ops'][name], separators=(',', ':'))}" for name in made["ops"]
    )
    old = ",\n".join(f"{json.dumps(t)}:{json.dumps(made['legacy'][t], separators=(',', ':'))}" for t in made["legacy"])
    Path(args.out).write_text(f'{{"ops":{{\n{rows}\n}},\n"legacy":{{\n{old}\n}}}}\n')
    print(f"{len(made['ops'])} operations, {len(made['legacy'])} old operators")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
