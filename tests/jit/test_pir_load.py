"""``.json`` models of Paddle 3 through ``jit.load``: real Paddle's numbers, training, both formats of a net."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock.errors import UnsupportedOpError
from oarlock.ir.pir import export_forward
from oarlock.ir.saved_model import read_model_buffers

SAMPLES = Path(__file__).parent.parent / "data" / "pir"
NAMES = sorted(path.name for path in SAMPLES.iterdir())
BOTH = ["bn_finetune", "cf_cond_api", "cf_while_sum", "lstm_bi2_seqlen", "text_cnn", "transformer_encoder"]


def golden(name: str) -> dict[str, Any]:
    with np.load(SAMPLES / name / "golden.npz") as archive:
        return dict(archive)


def inputs(arrays: dict[str, Any], case: int = 0) -> list[Any]:
    return [value for key, value in arrays.items() if key.startswith(f"case{case}/in/")]


def listed(outputs: Any) -> list[Any]:
    return [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_gives_what_paddle_gave(name: str) -> None:
    arrays, layer = golden(name), oarlock.jit.load(SAMPLES / name / "model")
    for case in range(2):
        want = [arrays[key] for key in sorted(arrays, key=lambda k: int(k.split("/")[2]) if "/out/" in k else 0)
                if key.startswith(f"case{case}/out/")]  # fmt: skip
        if not want:
            continue
        got = listed(layer(*inputs(arrays, case)))
        assert [each.shape for each in got] == [each.shape for each in want]
        for mine, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_the_samples_are_there() -> None:
    assert len(NAMES) == 14


def test_a_model_is_found_by_prefix_folder_and_file(tmp_path: Path) -> None:
    arrays = golden("text_cnn")
    want = listed(oarlock.jit.load(SAMPLES / "text_cnn" / "model")(*inputs(arrays)))
    for path in (SAMPLES / "text_cnn", SAMPLES / "text_cnn" / "model.json"):
        got = listed(oarlock.jit.load(path)(*inputs(arrays)))
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def trained(layer: Any, arrays: list[Any]) -> dict[str, Any]:
    """Gradients and statistics after one backward pass in train mode, by the names in the file."""
    layer.train()
    given = [oarlock.to_tensor(each) for each in arrays]
    for each in given:
        each.stop_gradient = each.numpy().dtype.kind != "f"
    outputs = layer(*given)
    loss = None
    for each in outputs if isinstance(outputs, list) else [outputs]:
        if each.numpy().dtype.kind == "f":
            part = (each * each).sum()
            loss = part if loss is None else loss + part
    assert loss is not None
    loss.backward()
    found = {name: tensor.numpy() for name, tensor in layer._tensors.items()}
    found |= {f"{name}@GRAD": t.grad.numpy() for name, t in layer._tensors.items() if t.grad is not None}
    return found


@pytest.mark.parametrize("name", BOTH)
def test_a_json_trains_as_the_pdmodel_of_the_same_net(name: str, sample: Any) -> None:
    oarlock.seed(7)
    ours = trained(oarlock.jit.load(SAMPLES / name / "model"), inputs(golden(name)))
    oarlock.seed(7)
    older = trained(oarlock.jit.load(sample(name).path), inputs(golden(name)))
    assert sorted(ours) == sorted(older)
    for key, value in ours.items():
        scale = max(float(np.abs(older[key]).max()), 1e-6)
        np.testing.assert_allclose(value / scale, older[key] / scale, rtol=1e-4, atol=1e-5, err_msg=key)


def test_train_mode_moves_the_running_statistics() -> None:
    layer = oarlock.jit.load(SAMPLES / "bn_finetune" / "model")
    before = {name: tensor.numpy().copy() for name, tensor in layer._tensors.items()}
    after = trained(layer, inputs(golden("bn_finetune")))
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert moved == {name for name in before if name.endswith((".w_1", ".w_2"))}


def test_the_flags_of_the_file_say_what_is_trained() -> None:
    layer = oarlock.jit.load(SAMPLES / "frozen_params" / "model")
    flags = {name: tensor.stop_gradient for name, tensor in layer._tensors.items()}
    assert set(flags.values()) == {True, False}
    assert not layer.program_holder.is_backward_built


def test_buffers_hold_a_json_program_too() -> None:
    folder = SAMPLES / "text_cnn"
    model = read_model_buffers((folder / "model.json").read_bytes(), (folder / "model.pdiparams").read_bytes())
    assert model.kind == "pir"
    assert sorted(model.programs) == ["forward"]


@pytest.mark.parametrize("name", NAMES)
def test_save_as_json_keeps_every_bit(name: str, tmp_path: Path) -> None:
    arrays, layer = golden(name), oarlock.jit.load(SAMPLES / name / "model")
    oarlock.jit.save(layer, str(tmp_path / "m"))
    assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".pdiparams"}
    again = oarlock.jit.load(tmp_path / "m")
    for mine, theirs in zip(listed(again(*inputs(arrays))), listed(layer(*inputs(arrays))), strict=True):
        assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


@pytest.mark.parametrize("name", NAMES)
def test_save_as_pdmodel_keeps_every_bit(name: str, tmp_path: Path) -> None:
    arrays, layer = golden(name), oarlock.jit.load(SAMPLES / name / "model")
    oarlock.jit.save(layer, str(tmp_path / "m"), format="pdmodel")
    again = oarlock.jit.load(tmp_path / "m.pdmodel")
    for mine, theirs in zip(listed(again(*inputs(arrays))), listed(layer(*inputs(arrays))), strict=True):
        assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


def test_convert_goes_to_the_other_format_by_itself(tmp_path: Path, sample: Any) -> None:
    from oarlock.jit.convert import convert

    assert convert(SAMPLES / "text_cnn" / "model", tmp_path / "a") == "pdmodel"
    assert convert(sample("text_cnn").path, tmp_path / "b") == "json"
    assert convert(sample("text_cnn").path, tmp_path / "c.json") == "json"
    assert (tmp_path / "a.pdmodel").exists() and (tmp_path / "b.json").exists() and (tmp_path / "c.json").exists()


def test_operations_that_are_missing_are_all_named(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "text_cnn", tmp_path / "t")
    path = tmp_path / "t" / "model.json"
    path.write_text(path.read_text().replace('"1.relu"', '"1.wobble"').replace('"1.concat"', '"3.own"'))
    with pytest.raises(UnsupportedOpError) as caught:
        oarlock.jit.load(tmp_path / "t" / "model")
    assert set(caught.value.missing) == {"pd_op.wobble", "custom_op.own"}


def test_a_forward_program_hands_on_what_its_backward_reads() -> None:
    holder = oarlock.jit.load(SAMPLES / "two_in_two_out" / "model").program_holder
    forward, backward = holder.forward_program, holder.backward_program
    made = {name for op in forward.global_block.ops for name in op.output_names()}
    read = {name for op in backward.global_block.ops for name in op.input_names()} & made

    def shadows(with_backward: bool) -> list[str]:
        module = export_forward(forward, holder.input_names, holder.output_names, backward if with_backward else None)
        return [op.attr("output_name") for op in module.block.ops if op.name == "builtin.shadow_output"]

    assert shadows(False) == list(holder.output_names)
    assert set(shadows(True)) == {*holder.output_names, *read}
    assert len(read) > 0
