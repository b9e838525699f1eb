"""``inference.Config``: what clients of ``paddle.inference`` call on it."""

from __future__ import annotations

import logging
from typing import Any

import oarlock.inference as paddle_infer
import pytest
from oarlock.errors import InputError
from oarlock.inference import Config, DataType, PlaceType, PrecisionType


def test_the_four_ways_to_make_one() -> None:
    assert Config().model_dir() == Config().prog_file() == Config().params_file() == ""
    assert Config("some/folder").model_dir() == "some/folder"
    pair = Config("a.pdmodel", "a.pdiparams")
    assert (pair.prog_file(), pair.params_file()) == ("a.pdmodel", "a.pdiparams")
    copied = Config(pair)
    copied.set_prog_file("b.pdmodel")
    copied.delete_pass("fold_constants")
    assert (pair.prog_file(), copied.prog_file()) == ("a.pdmodel", "b.pdmodel")
    assert pair.skipped_passes() == frozenset()


@pytest.mark.parametrize("arguments", [(123,), ("a", "b", "c"), (None,), ("a", 1)])
def test_anything_else_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="a model is a folder, or a program and a parameter file"):
        Config(*arguments)


def test_defaults() -> None:
    config = Config()
    assert config.ir_optim() is True
    assert config.cpu_math_library_num_threads() == 1
    assert config.model_from_memory() is False
    assert config.use_gpu() is False
    assert config.mkldnn_enabled() is False
    assert config.gpu_device_id() == 0


def test_switches_without_effect_are_accepted() -> None:
    config = Config()
    config.disable_glog_info()
    config.disable_gpu()
    config.enable_memory_optim()
    config.enable_memory_optim(True)
    config.switch_use_feed_fetch_ops(False)
    config.switch_specify_input_names(True)
    config.enable_mkldnn()
    config.set_mkldnn_cache_capacity(10)
    config.set_mkldnn_op({"conv2d"})
    config.enable_new_executor(True)
    config.enable_new_ir(True)
    config.exp_disable_tensorrt_ops(["concat"])
    config.delete_pass("conv_transpose_eltwiseadd_bn_fuse_pass")
    assert config.mkldnn_enabled() is False


@pytest.mark.parametrize("name", ["enable_use_gpu", "enable_tensorrt_engine", "enable_xpu", "enable_onnxruntime"])
def test_other_back_ends_are_logged_and_left_off(name: str, caplog: pytest.LogCaptureFixture) -> None:
    config = Config()
    with caplog.at_level(logging.WARNING):
        getattr(config, name)(500, 0)
    assert "Please use PaddlePaddle with GPU version" in caplog.text
    assert config.use_gpu() is False


def test_a_setting_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="Config has no setting 'enable_magic'"):
        Config().enable_magic()


def test_passes_are_listed_and_left_out() -> None:
    config = Config()
    builder = config.pass_builder()
    every = builder.all_passes()
    assert len(every) >= 3
    builder.delete_pass(every[0])
    assert builder.all_passes() == every[1:]
    builder.append_pass(every[0])
    assert builder.all_passes() == every
    config.switch_ir_optim(False)
    assert config.ir_optim() is False
    assert config.skipped_passes() == frozenset(every)


def test_the_summary_is_a_table() -> None:
    lines = Config("a.pdmodel", "a.pdiparams").summary().splitlines()
    assert ["prog_file", "a.pdmodel"] in [line.split() for line in lines]


def test_an_empty_config_makes_no_predictor() -> None:
    with pytest.raises(InputError, match="the Config names no model"):
        paddle_infer.create_predictor(Config())


def test_enumerations_have_paddles_numbers() -> None:
    assert {member.name: member.value for member in DataType} == {
        "FLOAT32": 0,
        "INT64": 1,
        "INT32": 2,
        "UINT8": 3,
        "INT8": 4,
        "FLOAT16": 5,
        "BOOL": 6,
        "FLOAT64": 7,
        "BFLOAT16": 8,
    }
    assert (PlaceType.UNK, PlaceType.CPU, PlaceType.GPU, PlaceType.XPU, PlaceType.CUSTOM) == (-1, 0, 1, 2, 4)
    assert (PrecisionType.Float32, PrecisionType.Int8, PrecisionType.Half, PrecisionType.Bfloat16) == (0, 1, 2, 3)
    assert Config.Precision.Half is PrecisionType.Half


@pytest.mark.parametrize(
    ("name", "size"),
    [("BOOL", 1), ("INT8", 1), ("UINT8", 1), ("FLOAT16", 2), ("BFLOAT16", 2), ("FLOAT32", 4), ("INT64", 8)],
)
def test_bytes_of_an_element(name: str, size: int) -> None:
    assert paddle_infer.get_num_bytes_of_data_type(DataType[name]) == size


def test_the_version_reads_like_paddles() -> None:
    assert paddle_infer.get_version().startswith("version: 2.6")
