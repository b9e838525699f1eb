"""State files: what Paddle wrote is read, what we write is read by pickle, and nothing in a file is run."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oarlock.errors import FormatError, InputError, NotFoundError
from oarlock.proto.pdiparams import write_tensor
from oarlock.proto.pickles import (
    NAME_TABLE,
    dump_info,
    dump_state,
    load_state,
    read_info,
    read_state,
    write_state,
)

DATA = Path(__file__).resolve().parent.parent / "data" / "proto"
STATES = sorted((DATA / "states").iterdir())


def same(left: Any, right: Any) -> bool:
    """Equal in type, dtype, order of keys and every value."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def written(value: Any, protocol: int, **options: Any) -> bytes:
    stream = io.BytesIO()
    write_state(stream, value, protocol, **options)
    return stream.getvalue()


def test_the_samples_are_there() -> None:
    assert len(STATES) == 14


@pytest.mark.parametrize("path", STATES, ids=lambda path: path.name)
def test_a_state_file_of_paddle_reads_as_pickle_reads_it(path: Path) -> None:
    if path.name.startswith("p33") and np.__version__.startswith("1."):
        pytest.skip("numpy 1 has no numpy._core for pickle to compare with")
    with path.open("rb") as stream:
        want = pickle.load(stream, encoding="latin1")
    assert same(load_state(path, keep_name_table=True), want)


@pytest.mark.parametrize("version", ["p26", "p33"])
@pytest.mark.parametrize("name", ["layer.pdparams", "layer_protocol2.pdparams"])
def test_a_state_dict_holds_writable_arrays_and_no_name_table(states: Path, version: str, name: str) -> None:
    state = load_state(states / f"{version}_{name}")
    assert list(state)[:3] == ["0.weight", "0.bias", "1.weight"]
    weight = state["0.weight"]
    assert (weight.shape, weight.dtype) == ((4, 5), np.float32)
    assert weight.flags.writeable and weight.flags.aligned
    assert NAME_TABLE not in state
    kept = load_state(states / f"{version}_{name}", keep_name_table=True)
    assert kept[NAME_TABLE]["0.weight"] == "linear_0.w_0"


def test_facts_of_parameters(models: Path) -> None:
    info = read_info(models / "slash_names" / "model.pdiparams.info")
    assert all(set(facts) <= {"structured_name", "stop_gradient", "trainable"} for facts in info.values())
    assert any("/" in name for name in info)
    stream = io.BytesIO()
    dump_info(stream, info)
    assert same(pickle.loads(stream.getvalue()), info)


EVERYTHING = {
    "f32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(3, np.int64),
    "empty": np.zeros((0, 3), np.float64),
    "bool": np.array([True, False]),
    "half": np.array([0.5], np.float16),
    "complex": np.array([1 + 2j], np.complex64),
    "numbers": [0, -1, 2**31, -(2**63), 2**70, 0.1, float("inf"), True, False, None],
    "np": np.float32(1.5),
    "text": ("", "naïve", "x" * 300),
    "bytes": b"\x00\xff",
    "nested": {"a": {}, "b": [], "c": (), "d": (1,), "e": (1, 2, 3, 4)},
    "ordered": OrderedDict([("z", 1), ("a", 2)]),
    7: "an int key",
}


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_what_we_write_reads_back_here_and_in_pickle(protocol: int) -> None:
    data = written(EVERYTHING, protocol)
    assert same(read_state(data, "test"), EVERYTHING)
    if not np.__version__.startswith("1."):
        assert b"numpy._core" not in data  # a Paddle with numpy 1 could not import that
    assert same(pickle.loads(data), EVERYTHING)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_pickle_writes_is_read(protocol: int) -> None:
    value = {
        **EVERYTHING,
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.ones(2, ">i4"),
    }
    got = read_state(pickle.dumps(value, protocol), "test")
    assert np.array_equal(got["fortran"], value["fortran"])
    assert got["big"].dtype == np.int32 and got["big"].tolist() == [1, 1]
    assert same({key: got[key] for key in EVERYTHING}, EVERYTHING)


def test_bfloat16_is_written_as_paddle_does_and_read_from_others() -> None:
    value = np.array([1.5, -2], ml_dtypes.bfloat16)
    assert read_state(written({"w": value}, 4), "test")["w"].tolist() == [0x3FC0, 0xC000]
    assert read_state(pickle.dumps({"w": value}, 4), "test")["w"].dtype == ml_dtypes.bfloat16


def test_text_of_python_2_is_latin_1() -> None:
    raw = np.array([1, -1], np.int16).tobytes()
    data = (
        b"\x80\x02}U\x01wcnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02\x85cnumpy\ndtype\nU\x02i2K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89U\x04" + raw + b"tbs."
    )
    assert read_state(data, "test")["w"].tolist() == [1, -1]


def test_large_arrays_are_cut_in_protocols_2_and_3_and_joined_again() -> None:
    value = {"w": np.arange(1000, dtype=np.float32).reshape(10, 100), "b": np.ones(3, np.float32)}
    raw = pickle.loads(written(value, 2, piece_bytes=1024))
    assert raw["UnpackBigParamInfor@@"] == {
        "w": {"OriginShape": (10, 100), "slices": ["w@@.0", "w@@.1", "w@@.2", "w@@.3"]}
    }
    got = read_state(written(value, 3, piece_bytes=1024), "test")
    assert set(got) == {"w", "b"} and np.array_equal(got["w"], value["w"])
    assert set(pickle.loads(written(value, 4, piece_bytes=1024))) == {"w", "b"}


def test_a_raw_tensor_record_is_an_array(tmp_path: Path) -> None:
    write_tensor(tmp_path / "t", np.array([[1, 2]], np.int64))
    assert load_state(tmp_path / "t").tolist() == [[1, 2]]


class Runs:
    """Writes a marker when it is unpickled by somebody who runs what a file says."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return (os.mkdir, (self.marker,))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ["w.pdparams", "w.pdiparams.info"])
def test_code_in_a_pickle_is_refused_and_not_run(protocol: int, name: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    path = tmp_path / name
    path.write_bytes(pickle.dumps({"w": Runs(str(marker))}, protocol))
    read = read_info if name.endswith(".info") else load_state
    with pytest.raises(FormatError, match=r"entry 'w': global '(posix|nt)\.mkdir' is refused"):
        read(path)
    assert not marker.exists()


ARRAY = pickle.dumps(np.arange(4, dtype=np.float32), 4)
HOSTILE = {
    "global 'builtins.eval' is refused": b"\x80\x02c__builtin__\neval\nU\x011\x85R.".replace(b"__", b"__"),
    "global 'builtins.getattr' is refused": b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93.",
    "pickle opcode 0x81 is not used": b"\x80\x02cnumpy\nndarray\n)\x81.",
    "pickle opcode 0x52": b"",
    "state for a dict, expected an array": b"\x80\x02}}b.",
    "a call of something that cannot be called": b"\x80\x02cnumpy\nndarray\n)R.",
    "a bare global": b"\x80\x02cnumpy\nndarray\n.",
    "arrays of dtype 'O8' are refused": pickle.dumps(np.array([None]), 4),
    "arrays of dtype 'U1' are refused": pickle.dumps(np.array(["a"]), 4),
    "arrays of dtype 'M8'": pickle.dumps(np.array(["2020"], "M8[D]"), 4),
    "16 there": ARRAY.replace(b"K\x04\x85", b"K\x05\x85"),
    "an array of float32 [1073741824] takes 4294967296 bytes": ARRAY.replace(b"K\x04\x85", b"J\0\0\0\x40\x85"),
    "4611686018427387904 bytes of data wanted": b"\x80\x04\x8e" + struct.pack("<Q", 2**62),
    "4294967295 bytes of text wanted": b"\x80\x02X\xff\xff\xff\xff",
    "an int of 1000000 bytes": b"\x80\x02\x8b" + struct.pack("<i", 10**6) + b"\1" * 10**6 + b".",
    "a container that holds itself": b"\x80\x02]q\x00h\x00a.",
    "containers nested deeper than 64": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a dict as a key": b"\x80\x02}}K\x01s.",
    "an int of more than 60 bits as a key": b"\x80\x02}\x8a\x0a" + b"\1" * 10 + b"Ns.",
    "a value wanted, none there": b"\x80\x02a.",
    "a mark wanted, none there": b"\x80\x02t.",
    "it ends with 2 values": b"\x80\x02NN.",
    "pickle protocol 1, expected 2 to 5": b"\x80\x01N.",
    "the pickle is damaged (KeyError": b"\x80\x02h\x07.",
    "a name of more than 256 bytes": b"\x80\x02c" + b"x" * 1000,
    "text encoded in another way": b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x05\0\0\0utf-7\x86R.",
}
HOSTILE["global '__builtin__.eval' is refused"] = HOSTILE.pop("global 'builtins.eval' is refused")
del HOSTILE["pickle opcode 0x52"]


@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_pickle_is_refused(said: str) -> None:
    tracemalloc.start()
    with pytest.raises(FormatError) as caught:
        read_state(HOSTILE[said], "w.pdparams")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said in str(caught.value)
    assert str(caught.value).startswith("w.pdparams, offset ")
    assert peak < 100 * len(HOSTILE[said]) + 500_000


def test_sharing_cannot_multiply_values() -> None:
    bomb: Any = ["lol"] * 10
    for _ in range(20):
        bomb = [bomb] * 10
    with pytest.raises(FormatError, match=r"bytes stand for \d+ values"):
        read_state(pickle.dumps(bomb, 4), "bomb")


def test_a_huge_memo_index_costs_nothing() -> None:
    assert read_state(b"\x80\x02Nr\xff\xff\xff\xff.", "test") is None


@pytest.mark.parametrize("percent", [1, 7, 50, 99])
def test_a_cut_state_names_the_bytes(states: Path, percent: int) -> None:
    whole = (states / "p26_layer.pdparams").read_bytes()
    with pytest.raises(FormatError, match=r"offset \d+.*: .* wanted, \d+ there: the file is truncated"):
        read_state(whole[: len(whole) * percent // 100], "layer.pdparams")


def test_a_cut_state_names_the_parameter(states: Path) -> None:
    whole = (states / "p26_layer.pdparams").read_bytes()
    with pytest.raises(FormatError, match=r"entry '0\.weight': 80 bytes of data wanted, \d+ there"):
        read_state(whole[:200], "layer.pdparams")


def test_every_cut_is_an_error(states: Path) -> None:
    for name in ("p26_layer.pdparams", "p33_layer_protocol2.pdparams"):
        whole = (states / name).read_bytes()
        for size in range(len(whole)):
            with pytest.raises(FormatError):
                read_state(whole[:size], name)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ([], "is a list"),
        ({"w": 3}, "its pieces are not listed"),
        ({"w": {"slices": ["a"]}}, "its shape is not stated"),
        ({"w": {"slices": ["a"], "OriginShape": (9,)}}, "1 pieces with 4 elements do not make an array"),
        ({"w": {"slices": ["b"], "OriginShape": (4,)}}, "1 pieces with 0 elements do not make an array"),
        ({"w": {"slices": [], "OriginShape": (0,)}}, "0 pieces"),
    ],
)
def test_a_wrong_table_of_pieces_is_refused(recipe: Any, said: str) -> None:
    data = written({"a": np.zeros(4, np.float32), "UnpackBigParamInfor@@": recipe}, 4)
    with pytest.raises(FormatError, match=said):
        read_state(data, "test")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1], "expected a dict of variable facts, found a list"),
        ({"w": 1}, "expected a dict of facts under a variable name"),
        ({"w": {"trainable": "yes"}}, "trainable is no bool"),
    ],
)
def test_an_info_file_of_another_shape_is_refused(value: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "p.info").write_bytes(pickle.dumps(value, 2))
    with pytest.raises(FormatError, match=said):
        read_info(tmp_path / "p.info")


@pytest.mark.parametrize(
    ("value", "protocol", "said"),
    [
        ({"w": object()}, 4, "cannot save a object"),
        ({"w": np.array([None])}, 4, "cannot save arrays of dtype object"),
        ({}, 5, "received protocol=5"),
    ],
)
def test_a_failed_save_leaves_the_old_file(value: Any, protocol: int, said: str, tmp_path: Path) -> None:
    dump_state({"w": np.ones(2, np.float32)}, tmp_path / "s")
    with pytest.raises(InputError, match=said):
        dump_state(value, tmp_path / "s", protocol)
    assert load_state(tmp_path / "s")["w"].tolist() == [1, 1]
    assert os.listdir(tmp_path) == ["s"]


def test_what_is_no_state_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FormatError, match=r"is empty \(0 bytes\)"):
        load_state(tmp_path / "empty")
    with pytest.raises(FormatError, match=r"neither a pickle .* nor one tensor record"):
        load_state(tmp_path / "text")
    with pytest.raises(NotFoundError):
        load_state(tmp_path / "absent")
