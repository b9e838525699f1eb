"""Take small ``.json`` models out of the zoo, with their inputs and real Paddle 3.3.1's outputs, for the tests.

    python tools/take_pir_samples.py --shared ../shared --target tests/data/pir

Each sample is a folder with ``model.json`` and ``model.pdiparams`` as Paddle 3.3.1 wrote them and ``golden.npz``,
whose keys are ``case0/in/<input>`` and ``case0/out/<index>``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
from take_samples import load_reader

SAMPLES = (
    "bn_finetune",
    "cf_cond_api",
    "cf_list_append",
    "cf_nested",
    "cf_while_sum",
    "dynamic_shape_ops",
    "frozen_params",
    "gru_cell_rnn_wrapper",
    "indexing",
    "lstm_bi2_seqlen",
    "text_cnn",
    "transformer_encoder",
    "two_in_two_out",
    "unicode_names",
)


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--target", type=Path, default=Path("tests/data/pir"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        for model in load_reader(args.shared).models(names=SAMPLES):
            model.materialize("pir", cache)
            target = args.target / model.name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            for name in ("model.json", "model.pdiparams"):
                source = Path(cache) / model.name / "pir" / name
                if source.exists():
                    shutil.copy(source, target)
            made = {}
            for case in range(model.cases):
                for name, value in model.inputs(case).items():
                    made[f"case{case}/in/{name}"] = value
                for index, golden in enumerate(model.outputs(case, "pir")):
                    assert golden.full is not None, f"{model.name}: output {index} is stored as samples only"
                    made[f"case{case}/out/{index}"] = golden.full
            np.savez_compressed(target / "golden.npz", **made)
            print(model.name)


if __name__ == "__main__":
    main()
