"""``create_predictor``, predictors and handles, used as clients of ``paddle.inference`` do."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import oarlock.inference as paddle_infer
import pytest
from oarlock.errors import InputError, KernelError, NotFoundError
from oarlock.inference import DataType, PredictorError

F32 = np.float32


def make(sample: Any, name: str = "two_in_two_out") -> Any:
    prefix = sample(name).folder / "model"
    return paddle_infer.create_predictor(paddle_infer.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams"))


@pytest.fixture
def predictor(sample: Any) -> Any:
    return make(sample)


def feed(predictor: Any, inputs: dict[str, Any]) -> None:
    for name, value in inputs.items():
        predictor.get_input_handle(name).copy_from_cpu(value)


def fetch(predictor: Any) -> list[Any]:
    return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]


def test_names_in_order(predictor: Any) -> None:
    assert predictor.get_input_names() == ["x", "y"]
    assert predictor.get_output_names() == ["save_infer_model/scale_0.tmp_0", "save_infer_model/scale_1.tmp_0"]


@pytest.mark.parametrize("name", ["two_in_two_out", "transformer_encoder", "lstm_bi2_seqlen", "static_mlp"])
def test_handles_in_and_out(name: str, sample: Any) -> None:
    predictor = make(sample, name)
    for case in range(sample(name).cases):
        feed(predictor, sample(name).inputs(case))
        assert predictor.run() is True
        for mine, theirs in zip(fetch(predictor), sample(name).outputs(case), strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_a_folder_of_the_old_layout(sample: Any) -> None:
    config = paddle_infer.Config(str(sample("fluid_dir_combined").folder))
    predictor = paddle_infer.create_predictor(config)
    feed(predictor, sample("fluid_dir_combined").inputs())
    predictor.run()
    np.testing.assert_allclose(fetch(predictor)[0], sample("fluid_dir_combined").outputs()[0], rtol=1e-4, atol=1e-5)


def test_a_model_from_memory(sample: Any) -> None:
    folder = sample("two_in_two_out").folder
    program, params = ((folder / f"model.{kind}").read_bytes() for kind in ("pdmodel", "pdiparams"))
    config = paddle_infer.Config()
    config.set_model_buffer(program, len(program), params, len(params))
    assert config.model_from_memory() is True
    predictor = paddle_infer.create_predictor(config)
    feed(predictor, sample("two_in_two_out").inputs())
    predictor.run()
    np.testing.assert_allclose(fetch(predictor)[1], sample("two_in_two_out").outputs()[1], rtol=1e-4, atol=1e-5)


def test_run_with_a_list_of_inputs(predictor: Any, sample: Any) -> None:
    inputs = sample("two_in_two_out").inputs()
    made = predictor.run([oarlock.to_tensor(inputs["x"]), inputs["y"]])
    assert all(isinstance(each, oarlock.Tensor) for each in made)
    np.testing.assert_allclose(made[0].numpy(), sample("two_in_two_out").outputs()[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match=r"run\(\) takes 2 inputs, 1 were given"):
        predictor.run([inputs["x"]])


# Handles


def test_a_handle_before_and_after_feeding(predictor: Any) -> None:
    handle = predictor.get_input_handle("x")
    assert (handle.shape(), handle.type(), handle.lod()) == ([0], DataType.FLOAT32, [])
    handle.reshape([2, 4])
    assert handle.shape() == [2, 4]
    handle.copy_from_cpu(np.zeros((3, 4), F32))
    assert handle.shape() == [3, 4]


def test_element_types_of_handles(sample: Any) -> None:
    predictor = make(sample, "lstm_bi2_seqlen")
    assert [predictor.get_input_handle(name).type() for name in predictor.get_input_names()] == [
        DataType.FLOAT32,
        DataType.INT64,
    ]


def test_what_is_fed_is_copied(predictor: Any, sample: Any) -> None:
    inputs = {name: value.copy() for name, value in sample("two_in_two_out").inputs().items()}
    feed(predictor, inputs)
    inputs["x"][:] = np.nan
    predictor.run()
    assert np.isfinite(fetch(predictor)[0]).all()


def test_what_is_fetched_is_a_copy_of_its_own(predictor: Any, sample: Any) -> None:
    feed(predictor, sample("two_in_two_out").inputs())
    predictor.run()
    first = fetch(predictor)[0]
    first[:] = 0
    assert fetch(predictor)[0].any()
    kept = fetch(predictor)[0]
    predictor.get_input_handle("x").copy_from_cpu(np.ones((5, 4), F32))
    predictor.get_input_handle("y").copy_from_cpu(np.ones((5, 4), F32))
    predictor.run()
    assert kept.shape == (3, 3)
    assert fetch(predictor)[0].shape == (5, 3)


def test_memory_of_a_tensor_may_be_shared(predictor: Any, sample: Any) -> None:
    inputs = sample("two_in_two_out").inputs()
    predictor.get_input_handle("x").share_external_data(oarlock.to_tensor(inputs["x"]))
    predictor.get_input_handle("y").copy_from_cpu(inputs["y"])
    predictor.run()
    np.testing.assert_allclose(fetch(predictor)[0], sample("two_in_two_out").outputs()[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="In share_external_data, we only support Tensor and LoDTensor"):
        predictor.get_input_handle("x").share_external_data(inputs["x"])


@pytest.mark.parametrize("value", [[1.0], 1.0, None, (1, 2)])
def test_only_arrays_are_copied_in(value: Any, predictor: Any) -> None:
    with pytest.raises(TypeError, match=r"In copy_from_cpu, we only support numpy ndarray and list\[str\] data type"):
        predictor.get_input_handle("x").copy_from_cpu(value)


def test_levels_of_a_ragged_batch(predictor: Any) -> None:
    handle = predictor.get_input_handle("x")
    handle.set_lod([[0, 1, 3]])
    assert handle.lod() == [[0, 1, 3]]


def test_an_output_hook_sees_every_output(predictor: Any, sample: Any) -> None:
    seen: list[Any] = []
    predictor.register_output_hook(lambda name, handle: seen.append((name, handle.shape())))
    feed(predictor, sample("two_in_two_out").inputs())
    predictor.run()
    assert seen == [("save_infer_model/scale_0.tmp_0", [3, 3]), ("save_infer_model/scale_1.tmp_0", [3, 3])]


# Refusals


def test_an_unknown_name(predictor: Any) -> None:
    message = r"\(PreconditionNotMet\) The variable named zz is not found in the scope of the executor"
    with pytest.raises(RuntimeError, match=message):
        predictor.get_input_handle("zz")
    with pytest.raises(PredictorError, match=message):
        predictor.get_output_handle("zz")


def test_reading_before_the_first_run(predictor: Any) -> None:
    handle = predictor.get_output_handle(predictor.get_output_names()[0])
    assert handle.shape() == [0]
    with pytest.raises(RuntimeError, match=r"\(PreconditionNotMet\) .* holds no memory: call run\(\) first"):
        handle.copy_to_cpu()


def test_running_with_an_input_left_empty(predictor: Any) -> None:
    predictor.get_input_handle("x").copy_from_cpu(np.zeros((1, 4), F32))
    with pytest.raises(InputError, match=r"input 'y' has no value: call copy_from_cpu\(\)"):
        predictor.run()


def test_another_dtype_is_an_error_of_run(predictor: Any) -> None:
    feed(predictor, {"x": np.zeros((1, 4)), "y": np.zeros((1, 4), F32)})
    with pytest.raises(ValueError, match=r"input 'x' is float32, got float64; cast it with .astype\('float32'\)"):
        predictor.run()


def test_a_shape_that_the_model_cannot_take_names_what_is_declared(predictor: Any) -> None:
    feed(predictor, {"x": np.zeros((1, 5), F32), "y": np.zeros((1, 4), F32)})
    expected = r"matmul_v2.*the inputs may be at fault: 'x' \[1, 5\] where the model declares \[-1, 4\]"
    with pytest.raises(KernelError, match=expected):
        predictor.run()


def test_a_size_that_the_file_fixes_is_tried_all_the_same(one_op_program: Any, tmp_path: Path) -> None:
    variables = {"x": ("float32", [1, 4]), "y": ("float32", [1, 4])}
    (tmp_path / "net.pdmodel").write_bytes(one_op_program("relu", {"X": ["x"]}, {"Out": ["y"]}, variables))
    predictor = paddle_infer.create_predictor(paddle_infer.Config(str(tmp_path / "net.pdmodel"), ""))
    predictor.get_input_handle("x").copy_from_cpu(np.full((3, 4), -1, F32))
    predictor.run()
    assert fetch(predictor)[0].tolist() == [[0] * 4] * 3


def test_missing_files(sample: Any) -> None:
    with pytest.raises(RuntimeError, match=r"\(NotFound\) Cannot open file /nope.pdmodel, please confirm whether"):
        paddle_infer.create_predictor(paddle_infer.Config("/nope.pdmodel", "/nope.pdiparams"))
    program = str(sample("slash_names").folder / "model.pdmodel")
    with pytest.raises(NotFoundError, match=r"the parameter file '/nope.pdiparams' is missing: 4 parameters expected"):
        paddle_infer.create_predictor(paddle_infer.Config(program, "/nope.pdiparams"))


# Clones, pools, threads


def test_a_clone_has_handles_of_its_own(predictor: Any, sample: Any) -> None:
    feed(predictor, sample("two_in_two_out").inputs())
    predictor.run()
    twin = predictor.clone()
    assert twin.get_input_handle("x").shape() == [0]
    feed(twin, {name: value[:1] for name, value in sample("two_in_two_out").inputs().items()})
    twin.run()
    assert [fetch(twin)[0].shape, fetch(predictor)[0].shape] == [(1, 3), (3, 3)]


def test_clones_with_other_shapes_under_threads(predictor: Any) -> None:
    rng = np.random.default_rng(0)
    given = [{name: rng.standard_normal((1 + index, 4), F32) for name in "xy"} for index in range(8)]

    def answer(each: Any, inputs: dict[str, Any]) -> Any:
        feed(each, inputs)
        each.run()
        return fetch(each)[0]

    serial = [answer(predictor, inputs) for inputs in given]
    wrong: list[int] = []

    def work(index: int) -> None:
        twin = predictor.clone()
        for _ in range(20):
            if not np.array_equal(answer(twin, given[index]), serial[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_pool(sample: Any) -> None:
    prefix = sample("two_in_two_out").folder / "model"
    pool = paddle_infer.PredictorPool(paddle_infer.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams"), 3)
    assert pool.retrive(2).get_input_names() == ["x", "y"]
    assert pool.retrive(0) is not pool.retrive(1)
    with pytest.raises(InputError, match="at least one predictor"):
        paddle_infer.PredictorPool(paddle_infer.Config(str(prefix)), 0)


def test_housekeeping_calls(predictor: Any) -> None:
    assert predictor.try_shrink_memory() == 0
    assert predictor.clear_intermediate_tensor() is None


def test_passes_switched_off_change_no_result(sample: Any) -> None:
    prefix = sample("static_conv_bn").folder / "model"
    results = []
    for optimise in (True, False):
        config = paddle_infer.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams")
        config.switch_ir_optim(optimise)
        predictor = paddle_infer.create_predictor(config)
        feed(predictor, sample("static_conv_bn").inputs())
        predictor.run()
        results.append(fetch(predictor)[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)
