"""oarlock: load, run and fine-tune models saved by PaddlePaddle, without PaddlePaddle."""

__version__ = "0.1.0"
