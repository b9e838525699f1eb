"""Every operator's grad op descs against those that real Paddle 2.6.2 makes, so that it could run our train programs.

``tests/data/ir/grad_ops.json`` holds the facts: per operator its slots, the grad ops with their slots (``A=B``: slot
A takes what the forward op calls B, ``~``: only its shape is read), attributes that change or are dropped, and
the slots that appear only where the forward op fills them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import oarlock.executor.kernels  # noqa: F401  tells the registry where the families are
import pytest
from oarlock.ir.desc import EMPTY_VAR, GRAD_SUFFIX, OpDesc
from oarlock.ir.registry import families, find, registered

FACTS = json.loads((Path(__file__).parents[1] / "data" / "ir" / "grad_ops.json").read_text())
families()
OPERATORS = {op.type: op for op in registered()}
KNOWN = sorted(set(FACTS["operators"]) & set(OPERATORS))

LOD = "a LoD comes with the value, and a shape alone carries none: the value is kept whole"
READS_WHOLE = {
    "cvm": LOD,
    "lod_reset": LOD,
    "sequence_concat": LOD,
    "sequence_expand": LOD,
    "sequence_expand_as": LOD,
    "sequence_pad": LOD,
    "sequence_pool": LOD,
    "sequence_scatter": LOD,
    "sequence_slice": LOD,
    "warpctc": LOD,
}
"""Operators that read an input whole of which Paddle reads the shape."""

DIFFERENT = {
    "data_norm": "Paddle's grad op names the stored sums as outputs too and leaves them as they are",
}
"""Operators whose grad op differs, with the reason."""


def made_up_op(type: str, left_out: frozenset[str] = frozenset()) -> OpDesc:
    """An op with one argument in every slot, two in list slots."""
    facts = FACTS["operators"][type]
    op = OpDesc(type, attrs={"made_up": 7, "axis": 3, **facts.get("attrs", {})})
    inputs, _, outputs = facts["op"].partition("->")
    for slots, words in ((op.inputs, inputs), (op.outputs, outputs)):
        for word in words.split():
            slot = word.rstrip("*")
            if slot not in left_out:
                mark = "in" if slots is op.inputs else "out"
                slots[slot] = [f"{slot}_{mark}{i}" for i in range(2 if word.endswith("*") else 1)]
    for grad in facts["grads"]:
        op.attrs.update(dict.fromkeys(grad.get("drops", ()), True))
    return op


def expected_grads(type: str, op: OpDesc) -> list[OpDesc]:
    """The grad ops as the facts say."""
    grads = []
    for position, fact in enumerate(FACTS["operators"][type]["grads"]):
        grad_type, _, rest = fact["grad"].partition(":")
        takes, _, gives = rest.partition("->")
        inputs, outputs = _arguments(op, takes), _arguments(op, gives)
        if type == "sum":  # one op for each element
            outputs["Out"] = outputs["Out"][position : position + 1]
        attrs = {name: value for name, value in op.attrs.items() if name not in fact.get("drops", ())}
        grads.append(OpDesc(grad_type, inputs, outputs, {**attrs, **fact.get("sets", {})}))
    return grads


def _arguments(op: OpDesc, words: str) -> dict[str, list[str]]:
    filled = {}
    for word in words.split():
        slot, _, source = word.rstrip("~").partition("=")
        source = source or slot
        bare = source.removesuffix(GRAD_SUFFIX)
        first, second = (op.outputs, op.inputs) if bare != source else (op.inputs, op.outputs)
        names = first.get(bare) or second.get(bare)
        if names:
            filled[slot] = [name + source[len(bare) :] for name in names]
    return filled


def shape_only(type: str) -> set[str]:
    return {
        word.partition("=")[0].rstrip("~")
        for fact in FACTS["operators"][type]["grads"]
        for word in fact["grad"].partition("->")[0].split()
        if word.endswith("~")
    }


def as_tuple(op: OpDesc) -> tuple[Any, ...]:
    return op.type, op.inputs, op.outputs, op.attrs


@pytest.mark.parametrize("type", KNOWN)
def test_grad_ops_are_paddles(type: str) -> None:
    maker = OPERATORS[type].grad_maker
    assert maker is not None
    op = made_up_op(type)
    made = [as_tuple(grad) for grad in maker(op, frozenset())]
    want = [as_tuple(grad) for grad in expected_grads(type, op)]
    assert (made != want) if type in DIFFERENT else (made == want)


@pytest.mark.parametrize("type", [type for type in KNOWN if "optional" in FACTS["operators"][type]])
def test_an_optional_slot_appears_only_where_the_forward_op_fills_it(type: str) -> None:
    maker = OPERATORS[type].grad_maker
    assert maker is not None
    for slot in FACTS["operators"][type]["optional"].split():
        op = made_up_op(type, frozenset({slot}))
        assert [as_tuple(grad) for grad in maker(op, frozenset())] == [
            as_tuple(grad) for grad in expected_grads(type, op)
        ], slot


@pytest.mark.parametrize("type", KNOWN)
def test_what_only_lends_its_shape_need_not_be_kept(type: str) -> None:
    grad = find(f"{type}_grad")
    if grad is None:
        assert not shape_only(type)
        return
    read_whole = shape_only(type) - {slot.name for slot in grad.inputs if slot.meta}
    assert bool(read_whole) == (type in READS_WHOLE)


@pytest.mark.parametrize("type", KNOWN)
def test_a_stopped_gradient_leaves_its_slot_out_or_keeps_its_place_in_a_list(type: str) -> None:
    maker = OPERATORS[type].grad_maker
    assert maker is not None
    op = made_up_op(type)
    for names in op.inputs.values():
        stopped = frozenset({names[0] + GRAD_SUFFIX})
        for grad in maker(op, stopped):
            for slot, outputs in grad.outputs.items():
                assert stopped.isdisjoint(outputs)
                assert outputs != [EMPTY_VAR], slot


def test_backward_stops_silently_where_paddle_registers_no_gradient() -> None:
    """An operator of ours that is on neither list has no gradient by our own decision or one that Paddle lacks."""
    without = set(FACTS["without_gradient"].split())
    wrong = {type for type in without & set(OPERATORS) if OPERATORS[type].differentiable}
    assert wrong == {"conditional_block_infer"}  # runs the branch of a program that is not to be trained
    assert all(OPERATORS[type].differentiable for type in KNOWN)


def test_every_operator_with_a_gradient_in_paddle_has_one() -> None:
    missing = set(FACTS["operators"]) - set(OPERATORS)
    assert missing == {
        *("batch_fc", "c_concat", "c_identity", "c_softmax_with_cross_entropy", "c_split", "global_gather"),
        *("global_scatter", "mp_allreduce_sum", "pull_box_extended_sparse", "pull_box_sparse", "pull_gpups_sparse"),
        *("pull_sparse", "pull_sparse_v2", "pyramid_hash", "rank_attention", "unzip", "weight_only_linear"),
    }  # many devices, parameter servers, GPU only
    assert len(KNOWN) == 349


@pytest.mark.parametrize("attr", ["use_global_stats", "is_test"])
def test_batch_norm_with_fixed_statistics_hands_them_to_its_gradient(attr: str) -> None:
    """Real Paddle 2.6.2 crashes without the slots Mean and Variance."""
    op = made_up_op("batch_norm")
    op.attrs[attr] = True
    maker = OPERATORS["batch_norm"].grad_maker
    assert maker is not None
    (grad,) = maker(op, frozenset())
    assert grad.inputs["Mean"] == op.outputs["MeanOut"]
    assert grad.inputs["Variance"] == op.outputs["VarianceOut"]


def test_a_slot_that_depends_on_an_attribute() -> None:
    op = made_up_op("sequence_pool")
    op.attrs["pooltype"] = "MAX"
    maker = OPERATORS["sequence_pool"].grad_maker
    assert maker is not None
    assert maker(op, frozenset())[0].inputs["MaxIndex"] == op.outputs["MaxIndex"]
