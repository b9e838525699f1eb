"""Functions of ``paddle.nn.functional``."""
