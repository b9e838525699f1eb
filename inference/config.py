"""``Config``: which model to run and how; the drop-in for ``paddle.inference.Config``."""

from __future__ import annotations

import logging
import os
from typing import Any

from ..errors import InputError
from ..executor.parallel import set_num_threads
from ..ir.passes import PIPELINE
from .types import PrecisionType

__all__ = ["Config", "PassBuilder"]

_log = logging.getLogger("oarlock.inference")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Switches of back ends, memory and logging that oarlock does not have: accepted, without effect on results.
_WITHOUT_EFFECT = _names(
    """
    collect_shape_range_info disable_glog_info disable_gpu disable_mkldnn disable_mkldnn_fc_passes disable_onednn
    disable_onednn_fc_passes disable_onnxruntime enable_custom_passes enable_low_precision_io enable_memory_optim
    enable_mkldnn enable_mkldnn_bfloat16 enable_mkldnn_int8 enable_new_executor enable_new_ir enable_onednn
    enable_onednn_bfloat16 enable_onednn_int8 enable_ort_optimization enable_profile enable_save_optim_model
    enable_tensorrt_dla enable_tensorrt_explicit_quantization enable_tensorrt_inspector enable_tensorrt_memory_optim
    enable_tensorrt_varseqlen enable_tuned_tensorrt_dynamic_shape load_ipu_config mark_trt_engine_outputs
    partially_release_memory set_bfloat16_op set_exec_stream set_ipu_config set_ipu_custom_info
    set_mkldnn_cache_capacity set_mkldnn_op set_onednn_cache_capacity set_onednn_op set_optim_cache_dir
    set_optimization_level set_tensorrt_optimization_level set_trt_dynamic_shape_info set_xpu_config
    set_xpu_device_id switch_ir_debug switch_specify_input_names switch_use_feed_fetch_ops use_optimized_model
    """
)
_OTHER_BACKENDS = _names(
    """
    enable_cinn enable_custom_device enable_dlnne enable_gpu_multi_stream enable_ipu enable_lite_engine
    enable_onnxruntime enable_opencl enable_openvino_engine enable_quantizer enable_tensorrt_engine enable_use_gpu
    enable_xpu
    """
)
# What a Config answers when it is asked for settings of back ends that are not there.
_ANSWERS: dict[str, Any] = {
    **dict.fromkeys(
        _names(
            """
        lite_engine_enabled mkldnn_enabled mkldnn_int8_enabled new_ir_enabled onednn_enabled onednn_int8_enabled
        onnxruntime_enabled openvino_engine_enabled shape_range_info_collected specify_input_name
        tensorrt_dla_enabled tensorrt_dynamic_shape_enabled tensorrt_engine_enabled
        tensorrt_explicit_quantization_enabled tensorrt_inspector_enabled tensorrt_varseqlen_enabled
        trt_allow_build_at_runtime tuned_tensorrt_dynamic_shape use_feed_fetch_ops_enabled use_gpu use_opencl use_xpu
        """
        ),
        False,
    ),
    "glog_info_disabled": True,
    "fraction_of_gpu_memory_for_pool": 0.0,
    **dict.fromkeys(["gpu_device_id", "memory_pool_init_size_mb", "xpu_device_id", "tensorrt_optimization_level"], 0),
    "shape_range_info_path": "",
}


class PassBuilder:
    """The passes that a predictor runs; deleting one leaves it out, an unknown name is ignored."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def delete_pass(self, name: str) -> None:
        """Leave a pass out."""
        self._config.delete_pass(name)

    def append_pass(self, name: str) -> None:
        """Put a pass that was left out back."""
        self._config._deleted.discard(name)

    def all_passes(self) -> list[str]:
        """The names of the passes that will run, in order."""
        return [name for name in PIPELINE if name not in self._config._deleted]


class Config:
    """Where the model lies and how to run it.

    ``Config()``, ``Config(model_dir)``, ``Config(prog_file, params_file)`` or ``Config(other_config)``.
    Switches for GPUs and other back ends are accepted and change nothing: the CPU runs the model, and questions
    about them (``use_gpu()``, ``mkldnn_enabled()``) are answered with no.

    Raises:
        InputError: a path is no string.
    """

    Precision = PrecisionType

    def __init__(self, *model: Any) -> None:
        self._prog_file = ""
        self._params_file = ""
        self._model_dir = ""
        self._buffers: tuple[bytes, bytes] | None = None
        self._ir_optim = True
        self._threads = 1
        self._deleted: set[str] = set()
        if len(model) == 1 and isinstance(model[0], Config):
            self.__dict__.update(model[0].__dict__)
            self._deleted = set(model[0]._deleted)
        elif model:
            self.set_model(*model)

    def set_model(self, *model: str) -> None:
        """``set_model(model_dir)`` or ``set_model(prog_file, params_file)``."""
        if not 1 <= len(model) <= 2 or not all(isinstance(each, (str, os.PathLike)) for each in model):
            raise InputError(f"a model is a folder, or a program and a parameter file, as strings; got {model!r}")
        paths = [os.fspath(each) for each in model]
        if len(paths) == 1:
            self._model_dir = paths[0]
        else:
            self._prog_file, self._params_file = paths

    def set_prog_file(self, path: str) -> None:
        """The program file."""
        self._prog_file = path

    def set_params_file(self, path: str) -> None:
        """The file of combined parameters."""
        self._params_file = path

    def set_model_buffer(self, prog: bytes, prog_len: int, params: bytes, params_len: int) -> None:
        """Take the model from memory: bytes of the program and of the parameters, with their lengths."""
        self._buffers = bytes(prog[:prog_len]), bytes(params[:params_len])

    def prog_file(self) -> str:
        """The program file, or an empty string."""
        return self._prog_file

    def params_file(self) -> str:
        """The parameter file, or an empty string."""
        return self._params_file

    def model_dir(self) -> str:
        """The model folder, or an empty string."""
        return self._model_dir

    def model_from_memory(self) -> bool:
        """Whether :meth:`set_model_buffer` was called."""
        return self._buffers is not None

    def switch_ir_optim(self, x: bool = True) -> None:
        """Whether optimisation passes run."""
        self._ir_optim = bool(x)

    def ir_optim(self) -> bool:
        """Whether optimisation passes run."""
        return self._ir_optim

    def delete_pass(self, name: str) -> None:
        """Leave a pass out by name; Paddle's names of passes that oarlock does not have are ignored."""
        self._deleted.add(name)

    def pass_builder(self) -> PassBuilder:
        """The list of passes."""
        return PassBuilder(self)

    def set_cpu_math_library_num_threads(self, n: int) -> None:
        """How many threads operators use, for the whole process; below 1 leaves it as it is."""
        self._threads = int(n)
        if self._threads > 0:
            set_num_threads(self._threads)

    def cpu_math_library_num_threads(self) -> int:
        """The number last set; 1 at first."""
        return self._threads

    def skipped_passes(self) -> frozenset[str]:
        """The passes that the predictor leaves out."""
        return frozenset(self._deleted) if self._ir_optim else frozenset(PIPELINE)

    def summary(self) -> str:
        """The settings as a text table."""
        rows = {
            "model_dir": self._model_dir,
            "prog_file": self._prog_file,
            "params_file": self._params_file,
            "from memory": self.model_from_memory(),
            "device": "CPU",
            "threads": self._threads,
            "ir_optim": self._ir_optim,
            "deleted passes": ", ".join(sorted(self._deleted)),
        }
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()) + "\n"

    def __getattr__(self, name: str) -> Any:
        if name in _WITHOUT_EFFECT or name.startswith("exp_"):
            return _accept
        if name in _OTHER_BACKENDS:
            return _warn
        if name in _ANSWERS:
            return lambda: _ANSWERS[name]
        raise AttributeError(f"Config has no setting '{name}'")


def _accept(*args: Any, **kwargs: Any) -> None:
    """A switch without effect here."""


def _warn(*args: Any, **kwargs: Any) -> None:
    """A back end that is not there; Paddle's CPU build answers the same way."""
    _log.warning("Please use PaddlePaddle with GPU version: oarlock runs this model on the CPU.")
