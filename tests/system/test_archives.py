"""A zip file around a model: a pair of files, a folder, a single file; and archives that lead out of themselves."""

from __future__ import annotations

import contextlib
import stat
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sterna.cli import program
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends import archives
from sterna.frontends.formats import describe_model, format_of, read_model
from sterna.frontends.frontend import ReadOptions
from support import trained
from support.darknet_networks import drawn, network
from support.frontend_models import frontend_model

X = drawn(1, 4, 6, 8)


def pair(folder: Path) -> dict[str, bytes]:
    """The files of a network of DarkNet."""
    path = network(folder, "[connected]\noutput=3\nactivation=linear\n", [drawn(3), drawn(3, 192)])
    return {each.name: each.read_bytes() for each in (path, path.with_suffix(".weights"))}


def zipped(folder: Path, files: dict[str, bytes], prefix: str = "") -> Path:
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(prefix + name, content)
    return path


@pytest.mark.parametrize("prefix", ["", "downloads/network/"])
def test_a_pair_in_an_archive(prefix: str, tmp_path: Path) -> None:
    files = pair(tmp_path)
    alone = read_model(tmp_path / "model.cfg")
    file = zipped(tmp_path, files | {"__MACOSX/._model.cfg": b"\0", "README.md": b"a network"}, prefix)
    assert format_of(file) == "darknet"
    (found,), (wanted,) = (interpret(graph, {"data": X}).values() for graph in (read_model(file), alone))
    assert np.array_equal(found, wanted)
    assert describe_model(file).format == "DarkNet"
    run = CliRunner().invoke(program, ["inspect", str(file)])
    assert run.exit_code == 0, run.output


@pytest.mark.parametrize(
    "name", ["mxnet_digits_resnet", "caffe_mtcnn_onet", "tfjs_digits_cnn", "keras_h5_resnet8_cifar"]
)
def test_folders_of_trained_models(name: str, tmp_path: Path) -> None:
    """Whatever else lies in them: a reference, a text."""
    model = frontend_model(name)
    folder = model.file.parent
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix not in (".npz", ".md")}
    files.pop("meta.json")
    options = ReadOptions(shapes=model.shapes())
    graph = read_model(zipped(tmp_path, files, "model/"), options)
    assert len(graph.nodes) == len(read_model(model.file, options).nodes)


def test_a_single_file_in_an_archive(tmp_path: Path) -> None:
    digits = trained.ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
    assert format_of(zipped(tmp_path, {"a/digits.onnx": digits.read_bytes(), "a/notes.txt": b"of 2026"})) == "onnx"


@pytest.mark.parametrize("name", ["../model.cfg", "/model.cfg", "a/../../model.cfg", "a\\..\\model.cfg", "c:model.cfg"])
def test_names_that_lead_out_are_refused(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    files = pair(tmp_path)
    path = inside / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.weights", files["model.weights"])
        member = zipfile.ZipInfo("placeholder")
        member.filename = name
        archive.writestr(member, files["model.cfg"])
    (tmp_path / "model.cfg").unlink()
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert caught.value.codes == ("E0101",)
    assert not list(tmp_path.rglob("*.cfg"))


def test_links_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, pair(tmp_path))
    with zipfile.ZipFile(path, "a") as archive:
        member = zipfile.ZipInfo("model.names")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert caught.value.codes == ("E0101",)
    assert "no plain file" in str(caught.value)


def test_what_would_become_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = pair(tmp_path) | {"zeros": bytes(1 << 20)}
    monkeypatch.setattr(archives, "ALWAYS", 1 << 10)
    with pytest.raises(SternaError) as caught:
        read_model(zipped(tmp_path, files))
    assert caught.value.codes == ("E0112",)
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    with pytest.raises(SternaError) as caught:
        read_model(zipped(tmp_path, files))
    assert caught.value.codes == ("E0112",)


def test_an_archive_of_no_model_and_a_damaged_one(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"a.txt": b"a", "b.txt": b"b"})
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert caught.value.codes == ("E0101",)
    content = bytearray(zipped(tmp_path, pair(tmp_path)).read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert set(caught.value.codes) <= {"E0101", "E0103"}


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_unpacked(kind: int, tmp_path: Path) -> None:
    """Other decompressors of Python's make all of a piece at once, however much an archive says that it is."""
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in pair(tmp_path).items():
            archive.writestr(name, content)
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert caught.value.codes == ("E0101",)
    assert "deflate" in str(caught.value)


def test_no_more_is_unpacked_than_an_archive_says(tmp_path: Path) -> None:
    """A list of names that claims a few bytes and holds many: what is more than it claims is not looked at."""
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(64 << 20))
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("zeros")
        member.file_size = 100
        tracemalloc.start()
        try:
            with contextlib.suppress(zipfile.BadZipFile):
                archives.member_content(archive, member)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path, pair(tmp_path))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    read_model(path)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("beside", ["model.cfg", "Data/com.apple.CoreML/Manifest.json"])
def test_a_file_without_a_name(beside: str, tmp_path: Path) -> None:
    """`zipfile` itself fails when it is asked whether such a file is a folder."""
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(beside, "{}")
        archive.writestr("x", "1")
        archive.filelist[1].filename = ""
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert caught.value.codes == ("E0101",)
