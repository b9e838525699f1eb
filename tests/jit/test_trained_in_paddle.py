"""Layers trained and saved by oarlock, and what real Paddle 2.6.2 made of the files.

``tests/data/jit/trained_in_paddle.npz`` holds inputs and the outputs that real Paddle gave after loading what
``tools/check_saved.py`` trained and saved; here the same is trained again, saved, and loaded by oarlock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest

GOLDENS = Path(__file__).parents[1] / "data" / "jit" / "trained_in_paddle.npz"
NAMES = ["bn_finetune", "two_in_two_out", "cf_cond_api", "lstm_bi2_seqlen", "transformer_encoder", "static_conv_bn"]


def flat(outputs: Any) -> list[Any]:
    return outputs if isinstance(outputs, list) else [outputs]


def three_steps(layer: Any, arrays: list[Any]) -> None:
    """The recipe that the goldens were made with."""
    parameters = [each for each in layer.parameters() if not each.stop_gradient]
    optimizer = oarlock.optimizer.SGD(1e-3, parameters=parameters, grad_clip=oarlock.nn.ClipGradByGlobalNorm(1.0))
    layer.train()
    for _ in range(3):
        outputs = [each for each in flat(layer(*arrays)) if not each.stop_gradient]
        sum((each * each).mean() for each in outputs).backward()
        optimizer.step()
        optimizer.clear_grad()
    layer.eval()


@pytest.mark.parametrize("name", NAMES)
def test_paddle_gives_the_outputs_of_the_trained_layer(name: str, sample: Any, tmp_path: Path) -> None:
    with np.load(GOLDENS) as kept:
        found = {key.partition("/")[2]: kept[key] for key in kept.files if key.startswith(f"{name}/")}
    arrays = [found[f"in{i}"] for i in range(sum(key.startswith("in") for key in found))]
    layer = oarlock.jit.load(sample(name).path)
    untrained = [each.numpy() for each in flat(layer(*arrays))]
    three_steps(layer, arrays)
    oarlock.jit.save(layer, str(tmp_path / "model"))
    again = oarlock.jit.load(str(tmp_path / "model"))
    moved = False
    for index, value in enumerate(flat(again(*arrays))):
        want = found[f"out{index}"]
        assert (value.numpy().dtype, value.numpy().shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(value.numpy(), want, 1e-4, 1e-5 * float(np.abs(want).max()))
        moved = moved or not np.allclose(untrained[index], want, 1e-4, 1e-5 * float(np.abs(want).max()))
    assert moved  # the goldens are of a trained layer, not of the loaded one
