"""Tensor records and combined parameter files: Paddle's bytes, shared memory, and a sentence for every damage."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from oarlock.errors import FormatError, InputError, NotFoundError
from oarlock.ir.program_io import read_program
from oarlock.proto.pdiparams import (
    dump_params,
    read_params,
    read_tensor,
    record_order,
    write_params,
    write_tensor,
)
from oarlock.proto.records import TensorRecord, aligned, read_record, read_selected_rows, read_vocab

SAMPLES = Path(__file__).resolve().parent.parent / "data" / "proto" / "models"
COMBINED = sorted(SAMPLES.glob("*/*.pdiparams")) + sorted(SAMPLES.glob("*/__params__"))


def record(dims: list[int], data: bytes, *, code: int = 5, lod: bytes = struct.pack("<Q", 0)) -> bytes:
    desc = bytes([0x08, code]) + b"".join(b"\x10" + varint(dim) for dim in dims)
    return struct.pack("<I", 0) + lod + struct.pack("<Ii", 0, len(desc)) + desc + data


def varint(value: int) -> bytes:
    value, out = value % 2**64, b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def names_of(path: Path) -> list[str]:
    program = path.with_suffix(".pdmodel") if path.suffix else path.with_name("__model__")
    return [var.name for var in read_program(program.read_bytes(), program.name).persistables()]


def test_the_samples_are_there() -> None:
    assert len(COMBINED) == 8


@pytest.mark.parametrize("path", COMBINED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_parameters_of_paddle_come_back_byte_for_byte(path: Path) -> None:
    stream = io.BytesIO()
    dump_params(stream, read_params(path, names_of(path)))
    assert stream.getvalue() == path.read_bytes()


def test_the_bytes_of_a_small_array() -> None:
    stream = io.BytesIO()
    dump_params(stream, {"w": np.array([1, 2], np.float32)})
    expected = "00000000 0000000000000000 00000000 04000000 08051002 0000803f 00000040"
    assert stream.getvalue() == bytes.fromhex(expected)


def test_names_are_ordered_by_their_bytes() -> None:
    assert record_order(["linear_2.w_0", "b", "linear_10.w_0", "é", "z", "\udcff"]) == [
        "b",
        "linear_10.w_0",
        "linear_2.w_0",
        "z",
        "é",
        "\udcff",
    ]


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"],
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3, 1)])
def test_arrays_come_back(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    want = (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(dtype)
    write_params(tmp_path / "p", {"a": want, "b": np.float32(0)})
    got = read_params(tmp_path / "p", ["b", "a"])
    assert list(got) == ["a", "b"]
    assert got["a"].dtype == want.dtype and got["a"].shape == shape
    assert np.array_equal(got["a"], want)


def test_bfloat16_big_endian_and_strided_arrays_are_stored_by_value(tmp_path: Path) -> None:
    items = {
        "bf16": np.array([1.5, -2], ml_dtypes.bfloat16),
        "big": np.array([1, 2], ">f4"),
        "columns": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    }
    write_params(tmp_path / "p", items)
    got = read_params(tmp_path / "p", list(items))
    assert got["bf16"].dtype == ml_dtypes.bfloat16 and got["bf16"].tolist() == [1.5, -2]
    assert got["big"].dtype == np.float32 and got["big"].tolist() == [1, 2]
    assert np.array_equal(got["columns"], items["columns"])


def test_lod_levels_are_kept(tmp_path: Path) -> None:
    want = TensorRecord(np.zeros((3, 2), np.float32), (np.array([0, 1, 3], np.uint64),))
    write_tensor(tmp_path / "t", want)
    got = read_tensor(tmp_path / "t")
    assert [level.tolist() for level in got.lod] == [[0, 1, 3]]
    assert got.array.shape == (3, 2)


def test_large_parameters_are_mapped_and_read_only(tmp_path: Path) -> None:
    big, small = np.zeros(100_000, np.float32), np.ones(3, np.float32)
    write_params(tmp_path / "p", {"big": big, "small": small})
    got = read_params(tmp_path / "p", ["big", "small"])
    assert not got["big"].flags.writeable and not got["small"].flags.writeable
    assert not got["big"].flags.owndata
    assert got["small"].flags.aligned
    assert aligned(got["big"]).flags.aligned
    tracemalloc.start()
    read_params(tmp_path / "p", ["big", "small"])
    assert tracemalloc.get_traced_memory()[1] < 50_000
    tracemalloc.stop()


def test_packed_dims_are_read() -> None:
    desc = b"\x08\x05\x12\x02\x01\x02"
    data = struct.pack("<IQIi", 0, 0, 0, len(desc)) + desc + np.array([7, 8], np.float32).tobytes()
    assert read_params(data, ["w"])["w"].tolist() == [[7, 8]]


def test_a_selected_rows_record_is_read() -> None:
    inner = struct.pack("<Ii", 0, 6) + b"\x08\x05\x10\x02\x10\x01" + np.array([1, 2], np.float32).tobytes()
    got = read_selected_rows(struct.pack("<IQqqq", 0, 2, 4, 9, 10) + inner, "rows")
    assert (got.rows.tolist(), got.height, got.array.tolist()) == ([4, 9], 10, [[1], [2]])


def test_a_vocabulary_record_is_read() -> None:
    data = struct.pack("<Q", 2) + struct.pack("<Q", 2) + "é".encode() + struct.pack("<i", 5)
    assert read_vocab(data + struct.pack("<Q", 1) + b"a" + struct.pack("<i", -1), "v") == {"é": 5, "a": -1}
    with pytest.raises(FormatError, match=r"v, offset 0: 4611686018427387904 entries"):
        read_vocab(struct.pack("<Q", 2**62), "v")


WHOLE = record([2], np.array([1, 2], np.float32).tobytes())
DAMAGED = {
    "parameter 'a' (1 of 2): the file ends at offset 0: it holds 0 of the 2 records": b"",
    "parameter 'b' (2 of 2): the file ends at offset 32: it holds 1 of the 2 records": WHOLE,
    "parameter 'b' (2 of 2), offset 56: 8 bytes of data wanted for float32 [2], 5 there": WHOLE + WHOLE[:-3],
    "parameter 'b' (2 of 2), offset 36: 8 bytes of LoD level count wanted, 3 there": WHOLE + WHOLE[:7],
    "offset 64: 7 bytes left over behind the last of 2 parameters: the file is damaged": WHOLE * 2 + WHOLE[:7],
    "the file holds 3 records, the program names 2 parameters": WHOLE * 3,
    "parameter 'a' (1 of 2), offset 0: tensor version 7, expected 0": b"\x07" + WHOLE[1:] + WHOLE,
    "offset 12: inner tensor version 1, expected 0": WHOLE[:12] + b"\x01" + WHOLE[13:] + WHOLE,
    "offset 16: a tensor description of -1 bytes": WHOLE[:16] + b"\xff\xff\xff\xff" + WHOLE[20:] + WHOLE,
    "a tensor description of 2147483647 bytes": WHOLE[:16] + b"\xff\xff\xff\x7f" + WHOLE[20:] + WHOLE,
    "element type code 77; known are 0 BOOL, 1 INT16": record([2], b"\0" * 8, code=77) + WHOLE,
    "no element type": struct.pack("<IQIi", 0, 0, 0, 0) + WHOLE,
    "dims [-5], expected none negative": record([-5], b"") + WHOLE,
    "dims [2147483648, 2147483648], more than any file holds": record([2**31, 2**31], b"\0" * 16) + WHOLE,
    "4294967296 bytes of data wanted for float32 [1073741824], 48 there": record([2**30], b"\0" * 16) + WHOLE,
    "40 dims, at most 32": record([1] * 40, b"\0" * 4) + WHOLE,
    "offset 12: LoD level 0 of 13 bytes, expected a multiple of 8": record(
        [2], b"\0" * 8, lod=struct.pack("<QQ", 1, 13) + b"\0" * 13
    ),
    "offset 4: 1152921504606846976 LoD levels of at least 8 bytes each": record(
        [2], b"\0" * 8, lod=struct.pack("<Q", 2**60)
    ),
    "1152921504606846976 bytes of LoD level 0 wanted": record([2], b"\0" * 8, lod=struct.pack("<QQ", 1, 2**60)),
    "this is a pickled state dict, not a combined parameter stream": bytes.fromhex("800495fd00000000"),
}


@pytest.mark.parametrize("said", DAMAGED)
def test_damage_is_named_before_anything_is_allocated(said: str) -> None:
    tracemalloc.start()
    with pytest.raises(FormatError) as caught:
        read_params(DAMAGED[said], ["b", "a"], source="m.pdiparams")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said in str(caught.value)
    assert str(caught.value).startswith("m.pdiparams")
    assert peak < 200_000


@pytest.mark.parametrize("percent", [1, 7, 50, 99])
def test_a_cut_file_names_parameter_and_bytes(percent: int) -> None:
    whole = (SAMPLES / "lstm_time_major_states" / "model.pdiparams").read_bytes()
    names = names_of(SAMPLES / "lstm_time_major_states" / "model.pdiparams")
    with pytest.raises(FormatError, match=r"parameter 'lstm_.*' .* wanted.*, \d+ there"):
        read_params(whole[: len(whole) * percent // 100], names)


def test_every_cut_is_an_error() -> None:
    whole = (SAMPLES / "slash_names" / "model.pdiparams").read_bytes()
    names = names_of(SAMPLES / "slash_names" / "model.pdiparams")
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            read_params(whole[:size], names)


def test_a_missing_file_and_a_folder_have_their_own_errors(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no such file"):
        read_params(tmp_path / "absent", ["w"])
    with pytest.raises(FormatError, match="expected a file, found a folder"):
        read_params(tmp_path, ["w"])


def test_a_name_given_twice_is_the_callers_mistake() -> None:
    with pytest.raises(InputError, match="given twice"):
        read_params(WHOLE * 2, ["a", "a"])


def test_a_file_of_one_record_holds_nothing_else() -> None:
    assert read_record(WHOLE * 2, 32, "t")[1] == 64
    with pytest.raises(FormatError, match="t, offset 32: 32 bytes left over"):
        read_tensor(WHOLE * 2, source="t")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "p.pdiparams"
    write_params(path, {"w": np.ones(3, np.float32)})
    before = path.read_bytes()
    with pytest.raises(InputError, match="parameter 'x': a tensor record cannot hold dtype object"):
        write_params(path, {"w": np.zeros(3, np.float32), "x": np.array([object()])})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["p.pdiparams"]


def test_arrays_survive_the_replacement_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_params(path, {"w": np.ones(50_000, np.float32)})
    held = read_params(path, ["w"])["w"]
    write_params(path, {"w": np.zeros(50_000, np.float32)})
    assert held.sum() == 50_000
    assert read_params(path, ["w"])["w"].sum() == 0
