"""A model as a library for Android: a Maven repository with an .aar of the model and one of the runtime.

All models of an app share the runtime.
An .aar of a model holds kernels for four ABIs, one set of weights, and a class with the names of its signature; with
all variants also kernels for what better processors of an ABI can do. One for a device holds a second bundle
(`android_device`), and an app then has a library that drives such devices.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sterna.api import compile_with
from sterna.bundle.graph_json import graph_json, graph_name
from sterna.bundle.install import Files, install
from sterna.bundle.writer import strings_files
from sterna.codegen.render import render_template
from sterna.compiled import Compiled
from sterna.errors import Diagnostic, SternaError
from sterna.ir import dtypes
from sterna.options import Options
from sterna.package import java, natives, wrappers
from sterna.package.abis import Abi, abis
from sterna.package.android_device import SYSTEM_LIBRARIES, OnDevice, check_device, compile_device, driver_name
from sterna.package.placing import placing
from sterna.scratch import scratch_folder
from sterna.version import __version__
from sterna_runtime.advice import Advice, Option

RUNTIME = "sterna-runtime-android"
GROUP = "dev.sterna"
MODELS = "dev.sterna.models"
#: The extension is one of those that Android's packager stores: else the weights could not be mapped.
PARAMS = "params.bin.jet"

#: Libraries of Android's, and ours: a model's may not take their place.
_TAKEN = frozenset(
    ("c", "m", "dl", "z", "log", "android", "aaudio", "amidi", "camera2ndk", "EGL", "GLESv1_CM", "GLESv2", "GLESv3",
     "jnigraphics", "mediandk", "nativewindow", "neuralnetworks", "OpenMAXAL", "OpenSLES", "sync", "vulkan",
     "sterna_jni")
)  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9._-]{0,99}")
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", re.ASCII)
_VIEWS = {
    "float32": ("floats", "FloatBuffer"), "float64": ("doubles", "DoubleBuffer"),
    "int32": ("ints", "IntBuffer"), "uint32": ("ints", "IntBuffer"),
    "int64": ("longs", "LongBuffer"), "uint64": ("longs", "LongBuffer"),
    "int16": ("shorts", "ShortBuffer"), "uint16": ("shorts", "ShortBuffer"),
    "float16": ("shorts", "ShortBuffer"), "bfloat16": ("shorts", "ShortBuffer"),
    dtypes.STRING: ("", ""),
}  # fmt: skip
#: What Model.java.j2 calls by a short name: `java.lang`'s and its imports; and what the templates of an app do.
_USED = frozenset(
    ("Object", "String", "Override", "AutoCloseable", "IllegalArgumentException", "IOException", "NotNull", "Math",
     "Context", "Bitmap", "Assets", "Model", "Options", "Quantization", "Tensor", "ByteBuffer",
     *(name for _, name in _VIEWS.values()),
     "Activity", "Array", "BitmapFactory", "Boolean", "Bundle", "Button", "ByteArray", "DType", "Deprecated",
     "EditText", "ExecutorService", "Executors", "ImageView", "Inputs", "Int", "Intent", "LinearLayout", "MainActivity",
     "OutOfMemoryError", "RuntimeException", "ScrollView", "SeekBar", "Suppress", "System", "TextView", "Unit", "Uri",
     "View")
)  # fmt: skip
#: What a method's name ends in where there are several of a tensor.
_METHODS = ("", "Tensor", "Best")


@dataclass(frozen=True)
class Tensor(wrappers.Tensor):
    """A tensor, with the method that gives its elements as a buffer of some type."""

    view: str
    buffer: str


@dataclass(frozen=True)
class Packaged:
    """A model's artifact in Maven's words, and the folders of a repository that hold it and the runtime."""

    compiled: Compiled
    artifact: str
    folders: Mapping[str, Mapping[str, bytes]]


def android_package(
    model: str | os.PathLike[str],
    options: Options,
    output: str | os.PathLike[str],
    name: str | None = None,
    version: str = "1.0.0",
    all_variants: bool = False,
    device: Options | None = None,
) -> Path:
    """Compiles a model for Android, and writes a Maven repository; other models may have been packaged into it.

    Args:
        options: of the compilation; their target does not matter.
        name: of the artifact, the model's class and its library; by default the model's.
        all_variants: also kernels for better processors of an ABI, one of which the runtime picks.
        device: how it is compiled for a device, too, which then runs it on phones that have one.

    Raises:
        SternaError: what compiling the model raises; E0203 the name or the version is none for Maven, or the model is
            called as a library of Android's; E0507 no phone has such a device, or nothing of the model runs there;
            E0402 there is no JDK; E0204 the place is taken or cannot be written, or another package there has a class
            of the same name.
    """
    place = Path(output)
    named = wrappers.name_of(model, options, name)
    others = _classes(place, _artifact(named, name, version))
    wrappers.keep_apart(class_name(named), others, place)
    made = packaged(model, options, name, version, all_variants, device)
    fix = Advice(Option("version", "1.0.1"), ", or name another directory")
    with placing(place, fix):
        for folder, files in made.folders.items():
            _put(place / folder, files)
    return place


def packaged(
    model: str | os.PathLike[str],
    options: Options,
    name: str | None,
    version: str,
    all_variants: bool,
    device: Options | None,
) -> Packaged:
    """Compiles a model for Android. Raises what `android_package` does, but for E0204."""
    named = wrappers.name_of(model, options, name)
    artifact = _artifact(named, name, version)
    check_device(device)
    natives.java_home()  # before the model is compiled, which takes longer
    there = None if device is None else compile_device(model, replace(device, name=named))
    compiled, graphs = compile_abis(model, replace(options, name=named), all_variants)
    shared = _published(GROUP, RUNTIME, __version__, runtime_aar(), java.sources(), ())
    drivers = [] if there is None else [there.kind]
    for kind in drivers:
        shared |= _published(GROUP, driver_name(kind), __version__, driver_aar(kind), {}, (RUNTIME,))
    sources = {source_path(compiled): source(compiled, there)}
    needs = (RUNTIME, *map(driver_name, drivers))
    own = _published(MODELS, artifact, version, model_aar(compiled, graphs, there), sources, needs)
    return Packaged(compiled, artifact, {**shared, **own})


def _artifact(model: str, name: str | None, version: str) -> str:
    """The artifact's name. Raises E0203 for all that is wrong with the names and the version."""
    artifact = name or model.replace("_", "-")
    wrong = []
    if not _VERSION.fullmatch(version):
        fix = Advice(Option("version", "1.0.0"))
        wrong.append(Diagnostic("E0203", f'Maven does not take the version "{version}"', (), fix))
    if not _NAME.fullmatch(artifact):
        fix = Advice(Option("name", "my-model"))
        wrong.append(Diagnostic("E0203", f'Maven does not take the name "{artifact}"', (), fix))
    if model in _TAKEN:
        title = f"Android has a library of its own that is called lib{model}.so"
        wrong.append(Diagnostic("E0203", title, (), Advice(Option("name", "my-model"))))
    if wrong:
        raise SternaError(wrong)
    return artifact


def _classes(place: Path, artifact: str) -> dict[str, str]:
    """The classes of the other models' artifacts in a repository, by their names."""
    found = {}
    for file in sorted((place / MODELS.replace(".", "/")).glob("*/*/*.aar")):
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(file) as archive:
            for graph in archive.namelist():
                if graph.startswith("assets/sterna/"):
                    found[file.parents[1].name] = class_name(graph.split("/")[2])
    found.pop(artifact, None)
    return found


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes an artifact; the same one may be there."""
    same = folder.is_dir() and all(
        (folder / name).is_file() and (folder / name).read_bytes() == files[name] for name in files
    )
    if not same:
        install(folder, Files(files, tuple(name for name in files if name.endswith(".pom"))))


def compile_abis(
    model: str | os.PathLike[str], options: Options, all_variants: bool = False
) -> tuple[Compiled, dict[str, bytes]]:
    """The model with a library for every ABI, in their order; and the graphs by the names of their assets.

    Args:
        all_variants: also what better processors of the first ABI run by; it needs no more of the others' weights.
    """
    library = f"lib{wrappers.name_of(model, options, None)}.so"
    made = [Abi(abi.name, replace(abi.target, library=library)) for abi in abis()]
    first, *rest = (abi.target for abi in made)
    better = tuple(replace(t, library=library) for t in abis()[0].alternatives) if all_variants else ()
    compiled = compile_with(model, replace(options, target=first, variants=tuple(rest), alternatives=better))
    further = {graph_name(each.options.target): _graph(each, {}) for each in compiled.alternatives}
    graphs = dict(further)
    for abi, built in zip(made, compiled.libraries, strict=True):
        chosen = replace(compiled.options.alone, target=abi.target)
        alternatives = compiled.alternatives if abi.target is first else ()
        alone = replace(
            compiled,
            options=chosen,
            kernels=built.kernels,
            libraries=(replace(built, name=library),),
            alternatives=alternatives,
        )
        opened = {each.libraries[0].name: each.library for each in alternatives}
        graphs[_graph_asset(abi)] = _graph(alone, {**further, **opened} if alternatives else {})
    return compiled, graphs


def _graph(compiled: Compiled, further: Mapping[str, bytes]) -> bytes:
    """graph.json of a compilation with one library; further: other files that it names."""
    (library,) = compiled.libraries
    own = {"params.bin": compiled.params, library.name: library.data, **strings_files(compiled.graph)}
    return graph_json(compiled, {**own, **further})


def _graph_asset(abi: Abi) -> str:
    return f"graph-{abi.name}.json"


def model_aar(compiled: Compiled, graphs: Mapping[str, bytes], device: OnDevice | None = None) -> bytes:
    """The .aar of a model: its class, kernels for every ABI, one graph for each, one set of weights; what a device runs
    has such a set of its own, as its kernels read them in another form."""
    folder = f"assets/sterna/{compiled.model}"
    package = f"{MODELS}.lib{compiled.model}"  # no part of it is a word of Java's
    names = [abi.name for abi in abis()]
    libraries = [(abi, f"lib{compiled.model}.so", own.data) for abi, own in zip(names, compiled.libraries, strict=True)]
    libraries += [(names[0], each.libraries[0].name, each.library) for each in compiled.alternatives]
    weights = {f"{folder}/{PARAMS}": compiled.params}
    if device is not None:
        libraries += [(abi, library, data) for abi, library, data in device.libraries]
        weights[f"{folder}/{device.kind}/{PARAMS}"] = device.params
    written = {source_path(compiled): source(compiled, device)}
    files = {
        "AndroidManifest.xml": _text("AndroidManifest.xml", package=package, library=""),
        "R.txt": b"",
        "classes.jar": java.archive(java.classes(written, "the model's class")),
        **weights,
        **({} if device is None else {f"{folder}/{device.kind}/{file}": data for file, data in device.assets.items()}),
        **{f"{folder}/{file}": data for file, data in strings_files(compiled.graph).items()},
        **{f"{folder}/{name}": graph for name, graph in graphs.items()},
        **{f"jni/{abi}/{name}": library for abi, name, library in libraries},
    }
    return java.archive(files, frozenset(weights))


def runtime_aar() -> bytes:
    """The .aar of the runtime, which all models share."""
    files = {
        "AndroidManifest.xml": _text("AndroidManifest.xml", package=GROUP, library=""),
        "R.txt": b"",
        "proguard.txt": _text("proguard.txt"),
        "classes.jar": java.archive(java.classes(java.sources(), "the Java runtime")),
    }
    with scratch_folder("android") as folder:
        for platform in natives.ANDROID:
            built = natives.build(platform, folder / platform.name)
            files[f"jni/{platform.name}/{built.name}"] = built.read_bytes()
    return java.archive(files)


def driver_aar(kind: str) -> bytes:
    """The .aar of the library that drives devices of a kind. An app has it, and asks for the phone's own library, only
    where one of its models has kernels for them."""
    manifest = _text("AndroidManifest.xml", package=f"{GROUP}.{kind}", library=SYSTEM_LIBRARIES[kind])
    files = {"AndroidManifest.xml": manifest, "R.txt": b"", "classes.jar": java.archive({})}
    with scratch_folder("android") as folder:
        for platform in natives.ANDROID:
            built = natives.build(platform, folder / platform.name, kind)
            files[f"jni/{platform.name}/{built.name}"] = built.read_bytes()
    return java.archive(files)


def _published(
    group: str, artifact: str, version: str, aar: bytes, sources: Mapping[str, bytes], runtimes: Sequence[str]
) -> dict[str, dict[str, bytes]]:
    """An artifact as Maven keeps it: folder -> files with their checksums; `runtimes`: what it needs of ours."""
    stem = f"{artifact}-{version}"
    values = {
        "group": group,
        "artifact": artifact,
        "version": version,
        "runtimes": runtimes,
        "runtime_version": __version__,
    }
    pom = _text("pom.xml", **values)
    files = {f"{stem}.aar": aar, f"{stem}.pom": pom, f"{stem}-sources.jar": java.archive(sources)}
    sums = {
        f"{name}.{kind}": hashlib.new(kind, data, usedforsecurity=False).hexdigest().encode()
        for name, data in files.items()
        for kind in ("md5", "sha1", "sha256")
    }
    return {f"{group.replace('.', '/')}/{artifact}/{version}": {**files, **sums}}


def _text(template: str, **values: Any) -> bytes:
    return render_template(f"package/android/{template}.j2", **values).encode()


def class_name(model: str) -> str:
    """The name of the model's class."""
    return wrappers.class_name(model, _USED)


def source_path(compiled: Compiled) -> str:
    """Where the source of the model's class lies."""
    return f"{MODELS.replace('.', '/')}/{class_name(compiled.model)}.java"


def source(compiled: Compiled, device: OnDevice | None = None) -> bytes:
    """The source of the model's class; it looks for the device first, if there is one."""
    tensors = tensors_of(compiled)
    return _text(
        "Model.java",
        package=MODELS,
        model=compiled.model,
        type=class_name(compiled.model),
        device="" if device is None else device.kind,
        tensors=tensors,
        images=any(t.image for t in tensors),
        quantized=any(t.image and t.image.quantized for t in tensors),
        buffers=sorted({t.buffer for t in tensors if t.buffer}),
    )


def tensors_of(compiled: Compiled) -> list[Tensor]:
    """The inputs and outputs of a model, inputs first, each under a name of its own."""
    tensors = []
    for t in wrappers.tensors(compiled.graph, _METHODS):
        view, buffer = _VIEWS.get(t.dtype, ("buffer", "ByteBuffer"))
        tensors.append(Tensor(**vars(t), view=view, buffer=buffer))
    return tensors
