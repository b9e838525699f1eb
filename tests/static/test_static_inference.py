"""``static.load_inference_model`` and ``Executor.run``: programs run on a dict of feeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock import static
from oarlock.errors import FormatError, InputError, NotFoundError, ProgramError

F32 = np.float32


@pytest.fixture
def loaded(sample: Any) -> Any:
    """``[program, feed names, fetch variables]`` of a net from ``x``, ``y`` [-1, 4] to two outputs [-1, 3]."""
    return static.load_inference_model(str(sample("two_in_two_out").path), static.Executor())


def run(loaded: Any, feed: Any, fetch: Any = None, **options: Any) -> list[Any]:
    program, _, targets = loaded
    return static.Executor().run(program, feed=feed, fetch_list=targets if fetch is None else fetch, **options)


@pytest.mark.parametrize("name", ["two_in_two_out", "static_mlp", "cf_while_sum", "text_cnn", "unicode_names"])
def test_load_and_run_as_users_write_it(name: str, sample: Any) -> None:
    exe = static.Executor(oarlock.CPUPlace())
    program, feeds, targets = static.load_inference_model(str(sample(name).path), exe)
    for case in range(sample(name).cases):
        inputs = dict(zip(feeds, sample(name).inputs(case).values(), strict=True))
        got = exe.run(program, feed=inputs, fetch_list=targets)
        for mine, theirs in zip(got, sample(name).outputs(case), strict=True):
            assert (type(mine), mine.dtype) == (np.ndarray, theirs.dtype)
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_what_load_returns(loaded: Any) -> None:
    program, feeds, targets = loaded
    assert isinstance(loaded, list)
    assert isinstance(program, static.Program)
    assert feeds == ["x", "y"]
    assert [var.name for var in targets] == ["save_infer_model/scale_0.tmp_0", "save_infer_model/scale_1.tmp_0"]
    assert [var.shape for var in targets] == [(-1, 3), (-1, 3)]


@pytest.mark.parametrize("names", [{}, {"model_filename": "__model__", "params_filename": "__params__"}])
def test_a_folder_of_the_old_layout(names: dict[str, str], sample: Any) -> None:
    old = sample("fluid_dir_combined")
    program, _, targets = static.load_inference_model(str(old.folder), static.Executor(), **names)
    got = static.Executor().run(program, feed=old.inputs(), fetch_list=targets)
    np.testing.assert_allclose(got[1], old.outputs()[1], rtol=1e-4, atol=1e-5)


def test_a_model_from_memory(sample: Any) -> None:
    folder = sample("two_in_two_out").folder
    program, params = ((folder / f"model.{kind}").read_bytes() for kind in ("pdmodel", "pdiparams"))
    loaded = static.load_inference_model(None, None, model_filename=program, params_filename=params)
    got = run(loaded, sample("two_in_two_out").inputs())
    np.testing.assert_allclose(got[0], sample("two_in_two_out").outputs()[0], rtol=1e-4, atol=1e-5)


def test_fetches_by_variable_by_name_one_alone_or_the_programs_own(loaded: Any, sample: Any) -> None:
    inputs = sample("two_in_two_out").inputs()
    first, second = run(loaded, inputs)
    turned = run(loaded, inputs, [loaded[2][1].name, loaded[2][0]])
    assert np.array_equal(turned[0], second)
    assert np.array_equal(turned[1], first)
    assert np.array_equal(run(loaded, inputs, loaded[2][1])[0], second)
    assert len(run(loaded, inputs, [])) == 2
    inner = run(loaded, inputs, ["linear_0.tmp_0"])
    assert [each.shape for each in inner] == [(3, 3)]


def test_outputs_as_tensors(loaded: Any, sample: Any) -> None:
    made = run(loaded, sample("two_in_two_out").inputs(), return_numpy=False)
    assert all(isinstance(each, oarlock.Tensor) for each in made)


def test_tensors_and_plain_lists_as_feeds(loaded: Any) -> None:
    x = np.ones((2, 4), F32)
    expected = run(loaded, {"x": x, "y": x})[0]
    assert np.array_equal(run(loaded, {"x": oarlock.to_tensor(x), "y": x.tolist()})[0], expected)


def test_the_startup_program_has_nothing_to_do() -> None:
    assert static.Executor().run(static.default_startup_program()) == []


def test_a_missing_feed(loaded: Any) -> None:
    with pytest.raises(InputError, match=r"'feed_targets' does not have y variable; the program takes x, y"):
        run(loaded, {"x": np.ones((1, 4), F32)})


def test_an_unknown_feed(loaded: Any) -> None:
    x = np.ones((1, 4), F32)
    with pytest.raises(InputError, match=r"feed 'z' is no variable of the program; it takes x, y"):
        run(loaded, {"x": x, "y": x, "z": x})


def test_a_feed_of_another_dtype(loaded: Any) -> None:
    with pytest.raises(ValueError, match=r"feed 'x' is float32, got float64; cast it with .astype\('float32'\)"):
        run(loaded, {"x": np.ones((1, 4)), "y": np.ones((1, 4), F32)})


def test_a_feed_that_is_no_dict(loaded: Any) -> None:
    with pytest.raises(TypeError, match=r"feed takes a dict of variable name -> array, got list"):
        run(loaded, [np.ones((1, 4), F32)])


def test_an_unknown_fetch(loaded: Any, sample: Any) -> None:
    with pytest.raises(ProgramError, match=r"'nope' is never given a value"):
        run(loaded, sample("two_in_two_out").inputs(), ["nope"])


def test_no_program() -> None:
    with pytest.raises(InputError, match=r"Executor\.run takes a Program, got int"):
        static.Executor().run(123)  # type: ignore[arg-type]


def test_missing_models_and_unknown_options(tmp_path: Path, sample: Any) -> None:
    with pytest.raises(ValueError, match="There is no directory named /nope"):
        static.load_inference_model("/nope/m", None)
    with pytest.raises(NotFoundError, match=r"no model at .*m.*is empty"):
        static.load_inference_model(str(tmp_path / "m"), None)
    with pytest.raises(ValueError, match=r"takes no option 'foo', only model_filename, params_filename"):
        static.load_inference_model(str(sample("two_in_two_out").path), None, foo=1)


# Programs


def test_a_program_lists_its_blocks_and_variables(loaded: Any) -> None:
    program = loaded[0]
    block = program.global_block()
    assert (program.num_blocks, block.idx, len(program.blocks)) == (1, 0, 1)
    assert block.has_var("x")
    assert (block.var("x").shape, str(block.var("x").dtype), block.var("x").persistable) == (
        (-1, 4),
        "paddle.float32",
        False,
    )
    assert sorted(var.name for var in program.all_parameters()) == [
        "linear_0.b_0",
        "linear_0.w_0",
        "linear_1.b_0",
        "linear_1.w_0",
    ]
    assert {"x", "y", "linear_0.w_0"} <= {var.name for var in program.list_vars()}
    with pytest.raises(ValueError, match="var zz not in this block"):
        block.var("zz")


def test_a_program_goes_through_bytes(loaded: Any) -> None:
    data = loaded[0].serialize_to_string()
    again = static.Program.parse_from_string(data)
    assert again.serialize_to_string() == data
    assert [op.type for op in again.global_block().ops] == [op.type for op in loaded[0].global_block().ops]
    assert static.deserialize_program(data).num_blocks == 1
    with pytest.raises(FormatError):
        static.Program.parse_from_string(b"\x00nonsense")


def test_the_text_of_a_program_has_an_op_a_line(loaded: Any) -> None:
    text = str(loaded[0])
    assert sum("= matmul_v2(" in line for line in text.splitlines()) == 3


def test_a_clone_shares_the_values(loaded: Any, sample: Any) -> None:
    clone = loaded[0].clone(for_test=True)
    inputs = sample("two_in_two_out").inputs()
    got = static.Executor().run(clone, feed=inputs, fetch_list=[var.name for var in loaded[2]])
    assert np.array_equal(got[0], run(loaded, inputs)[0])


def test_guards_set_the_default_programs_and_the_scope(loaded: Any) -> None:
    with static.program_guard(loaded[0]):
        assert static.default_main_program() is loaded[0]
    assert static.default_main_program() is not loaded[0]
    scope = type(static.global_scope())()
    with static.scope_guard(scope):
        assert static.global_scope() is scope
    assert static.global_scope() is not scope


def test_the_parameters_alone(sample: Any) -> None:
    state = static.load_program_state(str(sample("two_in_two_out").path))
    assert {name: value.shape for name, value in state.items()} == {
        "linear_0.w_0": (4, 3),
        "linear_0.b_0": (3,),
        "linear_1.w_0": (4, 3),
        "linear_1.b_0": (3,),
    }
