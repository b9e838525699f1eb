"""``oarlock convert`` and ``oarlock diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oarlock.cli.main import main
from oarlock.proto.pdiparams import dump_params
from oarlock.proto.pir_json import decode_pir
from oarlock.proto.pir_write import encode_pir

PIR = Path(__file__).parent.parent / "data" / "pir"


def test_convert_writes_the_other_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "new")
    assert main(["convert", str(PIR / "text_cnn" / "model"), target]) == 0
    assert capsys.readouterr().out == f"{target}.pdmodel\n"
    assert {path.name for path in tmp_path.iterdir()} == {"new.pdmodel", "new.pdiparams", "new.pdiparams.info"}


def test_convert_takes_the_format_from_the_suffix(tmp_path: Path) -> None:
    assert main(["convert", str(PIR / "text_cnn" / "model"), str(tmp_path / "new.json")]) == 0
    assert (tmp_path / "new.json").read_bytes()[:14] == b'{"base_code":{'


def test_convert_without_a_file_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(PIR / "text_cnn" / "model"), f"{tmp_path}/"]) == 1
    assert "has no file name" in capsys.readouterr().err


def test_both_formats_of_a_net_agree(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(sample("transformer_encoder").path), str(PIR / "transformer_encoder"), "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "parameters: equal" in lines
    assert "outputs: equal" in lines
    assert lines[-1] == "trace: 61 operators agree"


def changed(tmp_path: Path, edit: Any) -> str:
    """A copy of the transformer sample whose operations ``edit`` has changed."""
    source = PIR / "transformer_encoder"
    module = decode_pir((source / "model.json").read_bytes(), "model.json")
    edit(module.block.ops)
    (tmp_path / "model.json").write_bytes(encode_pir(module))
    (tmp_path / "model.pdiparams").write_bytes((source / "model.pdiparams").read_bytes())
    return str(tmp_path / "model")


def test_the_first_operator_that_differs_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def edit(ops: list[Any]) -> None:
        next(op for op in ops if op.name == "pd_op.layer_norm").attrs["epsilon"].value = 0.5

    assert main(["diff", str(PIR / "transformer_encoder"), changed(tmp_path, edit), "--trace"]) == 1
    out = capsys.readouterr().out
    assert "attributes: 1 differ" in out
    assert "epsilon 9.999999747378752e-06 | 0.5" in out
    assert "trace: layer_norm (op " in out


def test_parameters_that_differ_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import oarlock

    layer = oarlock.jit.load(PIR / "transformer_encoder" / "model")
    values = {name: tensor.numpy().copy() for name, tensor in layer._tensors.items()}
    values["linear_0.b_0"] += np.float32(1)
    prefix = changed(tmp_path, lambda ops: None)
    with (tmp_path / "model.pdiparams").open("wb") as stream:
        dump_params(stream, values)
    assert main(["diff", str(PIR / "transformer_encoder"), prefix]) == 1
    out = capsys.readouterr().out
    assert "parameters: 1 differ\n  linear_0.b_0: largest difference 1," in out


def test_models_with_other_inputs_are_not_run(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(PIR / "text_cnn"), str(sample("two_in_two_out").path)]) == 1
    assert "cannot be run on the same input" in capsys.readouterr().err
