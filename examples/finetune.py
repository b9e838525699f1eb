"""Fine-tune a saved net: a reader of digits, trained by PaddlePaddle, learns hexadecimal.

    python examples/finetune.py [--steps 200] [--freeze] [--output FOLDER]

``digits/`` holds only inference files. The script cuts the net before its last layer, puts a new head of 17
classes on it, trains both with CTC, draws the loss curve, saves what it learnt, loads it again and reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import oarlock
from hex_lines import ALPHABET, Array, decode, make_batch
from loss_curve import Progress, draw_loss_curve
from oarlock import nn, static

HERE = Path(__file__).parent


def cut_trunk(source: Path, target: Path) -> list[oarlock.Tensor]:
    """Save the net without its last layer: everything up to the input of the last matrix product.

    Returns:
        Weight ``[48, 17]`` and bias ``[17]`` of the layer that was left out.
    """
    net = oarlock.jit.load(source)
    oarlock.enable_static()
    with static.program_guard(static.Program()):
        lines = static.data("lines", [None, 1, 24, None])
        net(lines)
        block = static.default_main_program().global_block()
        at = max(index for index, op in enumerate(block.ops) if op.type == "matmul_v2")
        product, added = block.ops[at : at + 2]
        static.save_inference_model(target, [lines], [block.var(product.inputs["X"][0])], static.Executor())
    oarlock.disable_static()
    tensors = {tensor.name: tensor for tensor in net.parameters()}
    return [tensors[op.inputs["Y"][0]] for op in (product, added)]


class HexReader(nn.Layer):
    """``[N, 1, 24, W]`` -> scores ``[N, W / 4, 17]``: a saved trunk and a new head."""

    def __init__(self, trunk: Path) -> None:
        super().__init__()
        self.trunk = oarlock.jit.load(trunk)
        self.head = nn.Linear(48, len(ALPHABET) + 1)

    def forward(self, lines: oarlock.Tensor) -> oarlock.Tensor:
        """The scores before the softmax."""
        return self.head(self.trunk(lines))

    def take_over(self, old: list[oarlock.Tensor]) -> None:
        """Start the classes that the old net knew, the blank and the digits, from its last layer."""
        for mine, theirs in zip((self.head.weight, self.head.bias), old, strict=True):
            value = mine.numpy()
            value[..., :11] = theirs.numpy()[..., :11]
            mine.set_value(value)


def train(reader: HexReader, steps: int, batch: int, freeze: bool) -> list[float]:
    """Train on lines drawn on the spot; the losses of all steps."""
    rng = np.random.default_rng(0)
    schedule = oarlock.optimizer.lr.CosineAnnealingDecay(3e-3, steps)
    for parameter in reader.trunk.parameters() if freeze else ():
        parameter.stop_gradient = True
    trainable = [parameter for parameter in reader.parameters() if not parameter.stop_gradient]
    optimizer = oarlock.optimizer.Adam(schedule, parameters=trainable, grad_clip=nn.ClipGradByGlobalNorm(5.0))
    progress, losses = Progress(steps), []
    reader.train()
    for step in range(1, steps + 1):
        pictures, classes, lengths, _ = make_batch(batch, rng)
        scores = reader(oarlock.to_tensor(pictures)).transpose([1, 0, 2])
        times = np.full(batch, scores.shape[0], np.int64)
        targets = (oarlock.to_tensor(each) for each in (classes, times, lengths))
        loss = nn.functional.ctc_loss(scores, *targets)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        losses.append(float(loss))
        progress.show(step, losses[-1])
    reader.eval()
    return losses


def read(reader: HexReader, pictures: Array) -> list[str]:
    """The texts of lines."""
    with oarlock.no_grad():
        scores = reader(oarlock.to_tensor(pictures)).numpy()
    return [decode(each) for each in scores]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--freeze", action="store_true", help="train the new head alone")
    parser.add_argument("--output", type=Path, default=Path("finetuned"), help="folder for what is saved")
    args = parser.parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)

    oarlock.seed(0)
    old = cut_trunk(HERE / "digits" / "digits", args.output / "trunk")
    reader = HexReader(args.output / "trunk")
    reader.take_over(old)
    pictures, _, _, texts = make_batch(200, np.random.default_rng(1))
    reader.eval()
    print(f"before: {sum(a == b for a, b in zip(read(reader, pictures), texts, strict=True))} of 200 lines right")

    losses = train(reader, args.steps, args.batch, args.freeze)
    draw_loss_curve(losses, args.output / "loss.png", "CTC loss of the hexadecimal reader")
    oarlock.jit.save(reader.trunk, args.output / "trunk")  # loads in PaddlePaddle too
    oarlock.save(reader.head.state_dict(), args.output / "head.pdparams")

    again = HexReader(args.output / "trunk")
    again.head.set_state_dict(oarlock.load(args.output / "head.pdparams"))
    again.eval()
    found = read(again, pictures)
    print(f"after:  {sum(a == b for a, b in zip(found, texts, strict=True))} of 200 lines right")
    for text, seen in list(zip(texts, found, strict=True))[:3]:
        print(f"  {text} read as {seen}")
    print(f"saved to {args.output}, loss curve in {args.output / 'loss.png'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
