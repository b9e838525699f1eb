"""Take small models out of the zoo, with their inputs and real Paddle's outputs, as samples for the tests.

    python tools/take_samples.py --shared ../shared --target tests/data/models

Each sample is a folder with the model's files as Paddle 2.6.2 wrote them and ``golden.npz``, whose keys are
``case0/in/<input>``, ``case0/out/<index>`` and ``case0/<method>/<index>`` for methods other than ``forward``.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

SAMPLES = (
    "bn_finetune",
    "cf_cond_api",
    "cf_while_sum",
    "dropout_upscale",
    "extra_method_infer",
    "fluid_dir_combined",
    "fluid_dir_separate",
    "lstm_bi2_seqlen",
    "many_dtypes_inputs",
    "no_params",
    "output_is_input",
    "slash_names",
    "static_conv_bn",
    "static_mlp",
    "text_cnn",
    "transformer_encoder",
    "two_in_two_out",
    "unicode_names",
    "yolo_head_nms",
    "zero_dim_outputs",
)


def load_reader(shared: Path) -> ModuleType:
    """The zoo's own reader module."""
    spec = importlib.util.spec_from_file_location("read_zoo", shared / "zoo" / "read_zoo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["read_zoo"] = module
    spec.loader.exec_module(module)
    return module


def goldens(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs and outputs of every case that are stored whole."""
    made = {}
    for case in range(model.cases):
        for name, value in model.inputs(case).items():
            made[f"case{case}/in/{name}"] = value
        for method in ("forward", *(m for m in model.spec.get("methods", ()) if m != "forward")):
            key = "out" if method == "forward" else method
            for index, golden in enumerate(model.outputs(case, "pdmodel", method)):
                assert golden.full is not None, f"{model.name}: output {index} is stored as samples only"
                made[f"case{case}/{key}/{index}"] = golden.full
    return made


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--target", type=Path, default=Path("tests/data/models"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        for model in load_reader(args.shared).models(names=SAMPLES):
            model.materialize("pdmodel", cache)
            target = args.target / model.name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(Path(cache) / model.name / "pdmodel", target)
            np.savez_compressed(target / "golden.npz", **goldens(model))


if __name__ == "__main__":
    main()
