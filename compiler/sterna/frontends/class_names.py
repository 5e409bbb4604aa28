"""Names of the classes that a classifier tells apart, where they lie in a file beside it.

A file counts only if an output has as many elements as it has names: a list that is there by chance does no harm.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from sterna.frontends.archives import member_content
from sterna.frontends.detectors import with_detections
from sterna.frontends.source import Source
from sterna.ir.graph import Graph

#: Bytes of a list of names, and names, beyond which something else is meant.
LARGEST, MOST = 1 << 22, 1 << 16
_LEAST = 2  # one name says nothing
#: ImageNet's numbers of classes, which stand before their names.
_SYNSET = re.compile(r"^n\d{8}\s+(?=\S)")
#: Names that people give such files, in the order in which they are looked at; `*` stands for the model's own name.
USUAL = (
    "*.names", "*.labels", "*.labels.txt", "*_labels.txt", "labels.txt", "label.txt", "classes.txt", "labelmap.txt",
    "synset_words.txt", "synset.txt", "imagenet_classes.txt", "metadata.json", "labels.json", "classes.json",
    "imagenet_class_index.json", "*label_map.pbtxt", "*labelmap*.pbtxt", "*labelmap*.prototxt",
)  # fmt: skip
#: An entry of the label maps of TensorFlow's and Caffe's detectors, and its fields.
_ITEM = re.compile(r"\bitem\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"\b(?:id|label)\s*:\s*(\d{1,5})\b")
_NAME = re.compile(r"""\b(?:display_)?name\s*:\s*("([^"]*)"|'([^']*)')""")


def with_class_names(graph: Graph, source: Source, front_end: str) -> Graph:
    """The graph with the names of classes that lie beside its model or in its archive, unless it says some itself."""
    if source.path is None or graph.metadata.get("labels"):
        return graph
    for read in _lists(source):
        names = names_of(read())
        if names and (detector := with_detections(graph, names, front_end)) is not None:
            return detector
        fitting = [name for name, value in zip(graph.output_names, graph.results, strict=False) if _fits(value, names)]
        if len(fitting) == 1:
            return replace(graph, metadata={**graph.metadata, "labels": {fitting[0]: list(names)}})
    return graph


def _fits(value: Any, names: Sequence[str]) -> bool:
    """Whether a result is a score for each of some classes."""
    if len(names) < _LEAST or value.type.rank == 0 or value.dtype not in ("float32", "float16", "float64"):
        return False
    others = value.shape[1:] if value.type.rank > 1 else value.shape
    last = [size for size in others if size != 1]
    return len(last) == 1 and last[0] == len(names)


def _lists(source: Source) -> Iterator[Callable[[], bytes]]:
    """What may be lists of names, likely ones first: each reads one."""
    path = source.file()
    if source.is_archive:
        yield from (partial(_member, path, name) for name in _likely(source.names, ""))
    folders = [path, path / "assets", path / "assets.extra"] if source.is_folder else [path.parent]
    stem = "" if source.is_folder else path.stem
    for folder in folders:
        yield from (partial(_content, folder / name) for name in _likely(_names(folder), stem))


def _likely(names: Sequence[str], stem: str) -> Iterator[str]:
    """Of paths those that may be lists of names. Of several of one kind that which is called as the model is meant;
    without such nobody knows which."""
    for pattern in USUAL:
        fitting = [each for each in names if fnmatch(PurePosixPath(each).name.lower(), pattern)]
        own = [each for each in fitting if stem and each.startswith(stem)]
        yield from own or (fitting if len(fitting) == 1 else [])


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each, _ in zip(folder.iterdir(), range(MOST), strict=False) if each.is_file())
    except OSError:
        return []


def _content(path: Path) -> bytes:
    """What stands in a file; nothing of one that is too large or cannot be read."""
    try:
        return path.read_bytes() if path.stat().st_size <= LARGEST else b""
    except OSError:
        return b""


def _member(path: Path, name: str) -> bytes:
    """What stands in a file of an archive, likewise."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(name)
            return member_content(archive, info) if info.file_size <= LARGEST else b""
    except Exception:  # what a damaged archive makes its decompressors raise; the model itself is read already
        return b""


def names_of(content: bytes) -> tuple[str, ...]:
    """The names in the content of such a file."""
    try:
        text = content.decode("utf-8-sig")
        items = _ITEM.findall(text)
        found = _of_items(items) if items else None
        if found is None:
            found = _of_json(json.loads(text)) if text.lstrip()[:1] in ("{", "[") else text.splitlines()
    except (ValueError, RecursionError):
        return ()
    while found and not found[-1].strip():
        found = found[:-1]
    return tuple(_SYNSET.sub("", line.strip()) for line in found[:MOST])


def _of_items(items: Sequence[str]) -> list[str]:
    """The names of a label map by their numbers, empty where a number has none."""
    named: dict[int, str] = {}
    for item in items:
        number, names = _NUMBER.search(item), _NAME.findall(item)
        if number is not None and names and int(number[1]) < MOST:
            _, double, single = names[-1]  # the name to display stands after the one that data have
            named[int(number[1])] = double or single
    return [named.get(n, "") for n in range(max(named, default=-1) + 1)]


def _of_json(value: Any) -> list[str]:
    """A list of names, a mapping by number, or either as `labels` of a mapping (Teachable Machine)."""
    if isinstance(value, dict) and "labels" in value:
        value = value["labels"]
    if isinstance(value, dict):
        if set(value) != {str(n) for n in range(len(value))}:
            return []
        value = [value[str(n)] for n in range(len(value))]
    if not isinstance(value, list):
        return []
    # Keras's own list has ImageNet's number and the name of every class.
    found = [each[-1] if isinstance(each, list) and each else each for each in value]
    return found if all(isinstance(each, str) for each in found) else []
