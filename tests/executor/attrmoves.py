"""Where an attribute may be moved to: sensible values off what a case has, by name and by kind."""

from __future__ import annotations

from typing import Any

__all__ = ["moves"]

_LAYOUTS = ("NCHW", "NHWC", "NCL", "NLC", "NCDHW", "NDHWC", "AnyLayout")
_WORDS: dict[str, tuple[str, ...]] = {
    "data_format": _LAYOUTS,
    "data_layout": _LAYOUTS,
    "padding_algorithm": ("SAME", "VALID", "EXPLICIT"),
    "pooling_type": ("max", "avg"),
    "pooltype": ("SUM", "AVERAGE", "SQRT", "MAX", "LAST", "FIRST", "MEAN", "MIN"),
    "pool_type": ("max", "avg", "MAX", "AVERAGE"),
    "reduce_op": ("SUM", "MEAN", "MAX", "MIN"),
    "message_op": ("ADD", "SUB", "MUL", "DIV"),
    "reduction": ("none", "mean", "sum", "batchmean"),
    "mode": ("all", "channel", "element", "reflect", "edge", "replicate", "circular", "nearest", "bilinear", "LSTM"),
    "padding_mode": ("zeros", "border", "reflection"),
    "interp_method": ("nearest", "bilinear", "bicubic", "linear", "trilinear"),
    "dropout_implementation": ("upscale_in_train", "downgrade_in_infer"),
    "equation": ("ij->ji", "ij->i", "ij,jk->ki", "i,i->"),
    "normalization": ("forward", "ortho", "backward"),
    "UPLO": ("U", "L"),
    "ord": ("nuc", "fro"),
    "order": ("hwc", "cwh"),
    "direction": ("bidirectional", "forward"),
    "activation": ("relu", "sigmoid", "tanh", "identity"),
    "act": ("relu", "sigmoid", "tanh", "identity"),
    "act_method": ("gelu", "relu", "geglu", "swiglu"),
    "act_type": ("relu", "tanh", "sigmoid"),
    "fuse_activation": ("relu", "sigmoid", "relu6"),
    "functor_list": ("elementwise_add,relu", "relu,elementwise_add"),  # joined with commas, a list in the op
    "combiner": ("mean", "sum"),
    "code_type": ("encode_center_size", "decode_center_size"),
    "match_type": ("per_prediction", "bipartite"),
    "mining_type": ("max_negative", "hard_example"),
    "ap_type": ("integral", "11point"),
    "curve": ("PR", "ROC"),
    "driver": ("gels", "gelsy", "gelsd"),
    "print_phase": ("forward", "backward"),
    "str_value": ("1.5", "nan", "inf"),
    "float_value": ("1.5",),
    "nonlinearity": ("tanh", "relu"),
    "method": ("default", "upscale"),
    "rtol": ("1", "0.5"),
    "atol": ("1", "0.5"),
    "chunk_scheme": ("IOE", "IOBES", "plain"),
    "output_data_type": ("bf16", "fp32"),
}
_KIND_OF_DTYPE = (6, 5, 3, 2, 0, 4, 20)


def moves(name: str, current: Any) -> list[Any]:
    """Values off ``current`` for an attribute of this name, the most telling first."""
    tried = _of_kind(name, current)
    return [value for value in tried if value != current or type(value) is not type(current)]


def _of_kind(name: str, current: Any) -> list[Any]:
    if isinstance(current, bool):
        return [not current]
    if isinstance(current, int):
        if "dtype" in name or name in ("values_type",):
            return list(_KIND_OF_DTYPE)
        return [current + 1, current - 1, 0, 1, 2, -1, 3, 4, 7, -2, current * 2, 100]
    if isinstance(current, float):
        return [current * 1.5 + 0.25, 0.5, -1.5, 2.0, 0.01, 0.9, 1.0, 0.0, 1e3, 1e-6, -1e-2]
    if isinstance(current, (list, tuple)):
        return _of_list(name, list(current))
    if isinstance(current, str) or name in _WORDS:
        return _of_word(name)
    return [1, 2, 1.5, 0, [1], [0], [1, 1], True, "relu"]


def _of_word(name: str) -> list[Any]:
    words = _WORDS.get(name) or next((words for key, words in _WORDS.items() if name.endswith(key)), ())
    return list(words) or ["relu", "tanh", "1"]


def _of_list(name: str, current: list[Any]) -> list[Any]:
    if any(isinstance(each, str) for each in current):
        words = _WORDS.get(name)
        return [word.split(",") for word in words] if words else [["relu"], ["tanh"], [], [*current[1:], "relu"]]
    if any(isinstance(each, (list, tuple, dict)) for each in current):
        return []
    if current and all(isinstance(each, bool) for each in current):
        return [[not each for each in current]]
    made: list[Any] = []
    if current:
        made += [[each + 1 for each in current], [each - 1 for each in current], current[::-1], current[:-1]]
        made += [[current[0] + 1, *current[1:]], [each * 2 for each in current], [*current[:-1], current[-1] + 1]]
    fill = [
        [0],
        [1],
        [-1],
        [2],
        [0, 1],
        [1, 0],
        [1, 1],
        [2, 1],
        [2, 2],
        [1, 1, 1],
        [2, 2, 2],
        [0, 0, 1, 1],
        [1, 1, 1, 1],
    ]
    fill += [[3, 2], [3, 3], [0.5], [0.5, 0.25], [0.1, 0.1, 0.2, 0.2], [4], []]
    return made + fill
