"""A model as Swift packages for iOS and macOS: one of the model, and one of the runtime, which all models of an app
share.

Each has an XCFramework: libraries for phones, the simulator and Macs, static or dynamic, with headers and what the App
Store asks.
Graph, weights and kernels are constants of the model's library: an app opens nothing when it runs. They are not in
`__TEXT`, which the App Store encrypts: weights would be decrypted when they are read, and would not be compressed.
"""

from __future__ import annotations

import os
import plistlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sterna.api import compile_with, variants_of
from sterna.bundle.graph_json import graph_json
from sterna.bundle.install import Files, install
from sterna.bundle.writer import strings_files
from sterna.codegen.render import render_template, resource
from sterna.compiled import Compiled
from sterna.driver import symbols_of
from sterna.errors import Diagnostic, SternaError, error
from sterna.ir import dtypes
from sterna.options import Options
from sterna.package import wrappers
from sterna.package.npm import license_text
from sterna.package.placing import placing
from sterna.package.slices import Part, Slice, members, public_headers, runtime_objects, slices
from sterna.scratch import scratch_folder
from sterna.toolchain.mach_o import universal
from sterna.version import __version__
from sterna_runtime.advice import Advice, Option

RUNTIME = "sterna-runtime"
FRAMEWORK = "SternaC"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
#: Types of Swift for elements; of the others, which are fewer bits or other floats, the bytes.
_ELEMENTS = {
    "float32": "Float", "float64": "Double", "float16": "UInt16", "bfloat16": "UInt16",
    "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64",
    "uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "bool": "Bool",
}  # fmt: skip
#: What Model.swift.j2 calls by a short name, and names that Swift looks up before a class of that name.
_USED = frozenset(
    ("Model", "Device", "Tensor", "Golden", "SternaError", "Sterna", "UnsafeMutableBufferPointer",
     "UnsafeRawBufferPointer", "Bool", "Int", "Type", "Protocol", "Self", "Any", "Array", "String", *_ELEMENTS.values())
)  # fmt: skip
#: What a property's name ends in where there are several of a tensor.
_ENDS = ("", "Tensor", "Best", "Fill")


@dataclass(frozen=True)
class _Tensor(wrappers.Tensor):
    """A tensor with the type of its elements; `bits`: Swift has no type for them, the type is of their bits."""

    element: str
    bits: bool


@dataclass(frozen=True)
class _Linked:
    """A graph of a model in its library."""

    symbols: str
    features: str
    bytes: int


@dataclass(frozen=True)
class _OnDevice:
    """What a model has for a device, in its library; `symbols`: with what its names begin."""

    symbols: str
    module: str
    params_bytes: int
    graph_bytes: int
    module_bytes: int
    library: bool


@dataclass(frozen=True)
class Tree:
    """A folder of a package: contents by path, and symbolic links with what they point to."""

    contents: Mapping[str, bytes]
    links: Mapping[str, str] = field(default_factory=dict)


def ios_package(
    model: str | os.PathLike[str],
    options: Options,
    output: str | os.PathLike[str],
    name: str | None = None,
    version: str = "1.0.0",
    dynamic: bool = False,
    device: Options | None = None,
) -> Path:
    """Compiles a model for iOS and macOS, and writes its Swift package beside that of the runtime.

    Other models may have been packaged into the same place.

    Args:
        options: of the compilation; their target does not matter.
        name: of the package; by default the model's.
        dynamic: frameworks are loaded by the app, not linked into it.
        device: how it is compiled for a device, too, which then runs it where there is one.

    Raises:
        SternaError: what compiling the model raises; E0203 the name or the version is none for Swift packages;
            E0507 no such system has that device, or nothing of the model runs there;
            E0402 there is no zig; E0204 the place is taken or cannot be written.
    """
    named = wrappers.name_of(model, options, name)
    artifact = _artifact(named, name, version)
    _check_device(device)
    options = replace(options, name=named)
    place = Path(output)
    wrappers.keep_apart(class_name(named), _classes(place, artifact), place)
    own = _model_tree(model, options, artifact, version, dynamic, device)
    shared = _runtime_tree(dynamic)
    fix = Advice("remove that package, or name another directory with ", Option("output", "elsewhere"))
    with placing(place, fix):
        for folder, tree in ((RUNTIME, shared), (artifact, own)):
            _put(place / folder, tree)
    return place


def _artifact(model: str, name: str | None, version: str) -> str:
    """The package's name. Raises E0203 for all that is wrong with the names and the version."""
    artifact = name or model.replace("_", "-")
    wrong = []
    if not _VERSION.fullmatch(version):
        fix = Advice(Option("version", "1.0.0"))
        wrong.append(Diagnostic("E0203", f'the App Store does not take the version "{version}"', (), fix))
    if not _NAME.fullmatch(artifact) or artifact.lower() == RUNTIME:  # macOS sees one folder
        title = f'a Swift package cannot be called "{artifact}"'
        wrong.append(Diagnostic("E0203", title, (), Advice(Option("name", "my-model"))))
    if wrong:
        raise SternaError(wrong)
    return artifact


def _classes(place: Path, artifact: str) -> dict[str, str]:
    """The classes of the other models' packages in a directory, by their names."""
    sources = [path for path in sorted(place.glob("*/Sources/*Model/*.swift")) if path.parents[2].name != artifact]
    return {path.parents[2].name: path.stem for path in sources}


def _put(folder: Path, tree: Tree) -> None:
    """Writes a package; the same one may be there."""
    same = folder.is_dir() and all(
        (folder / name).is_file() and (folder / name).read_bytes() == data for name, data in tree.contents.items()
    )
    if not same:
        install(folder, Files(tree.contents, ("Package.swift",), links=tree.links))


# ---- The two packages ----


def _runtime_tree(dynamic: bool) -> Tree:
    sources = resource("runtime_apple") / "Sources" / "Sterna"
    framework = _xcframework(FRAMEWORK, __version__, public_headers(), runtime_objects, dynamic)
    files = {f"Sources/Sterna/{path.name}": path.read_bytes() for path in sorted(sources.glob("*.swift"))}
    files |= {"Package.swift": _text("runtime.swift"), "LICENSE": license_text()}
    return Tree({**files, **framework.contents}, framework.links)


def _model_tree(
    model: str | os.PathLike[str],
    options: Options,
    artifact: str,
    version: str,
    dynamic: bool,
    device: Options | None,
) -> Tree:
    compilations: dict[str, Compiled] = {}
    named = wrappers.name_of(model, options, None)

    def objects(part: Part) -> list[bytes]:
        compiled = compile_part(model, options, part)
        compilations.setdefault(compiled.model, compiled)
        return linked_objects(compiled, part, None if device is None else compile_device(model, device, named, part))

    kind = class_name(named)
    header = _text("model.h", model=named)
    framework = _xcframework(f"{kind}Kernels", version, {f"{kind}Kernels.h": header}, objects, dynamic)
    (compiled,) = compilations.values()
    files = {
        "Package.swift": _text("model.swift", artifact=artifact, type=kind),
        f"Sources/{kind}Model/{kind}.swift": source(compiled, device is not None),
    }
    return Tree({**files, **framework.contents}, framework.links)


def class_name(model: str) -> str:
    """The name of the model's class."""
    return wrappers.class_name(model, _USED)


def source(compiled: Compiled, device: bool = False) -> bytes:
    """The source of the model's class; `device`: it has kernels for one."""
    tensors = []
    for t in wrappers.tensors(compiled.graph, _ENDS):
        element = "String" if t.dtype == dtypes.STRING else _ELEMENTS.get(t.dtype, "UInt8")
        tensors.append(_Tensor(**vars(t), element=element, bits=element.lower() not in (t.dtype, *_plain(t.dtype))))
    kind = class_name(compiled.model)
    return _text("Model.swift", model=compiled.model, type=kind, tensors=tensors, device=device)


def _plain(dtype: str) -> tuple[str, ...]:
    return {"float32": ("float",), "float64": ("double",)}.get(dtype, ())


# ---- Kernels, graphs and weights as objects ----


def compile_part(model: str | os.PathLike[str], options: Options, part: Part) -> Compiled:
    """The model for a processor, with what better processors of that system run instead."""
    archive = f"{wrappers.name_of(model, options, None)}.a"
    target = replace(part.target, library=archive)
    others = tuple(replace(each, library=archive) for each in variants_of(part.target))
    return compile_with(model, replace(options, target=target, alternatives=others))


def _check_device(options: Options | None) -> None:
    """Raises E0507: Apple's systems have no devices of this kind."""
    if options is not None and (options.target.device is None or options.target.device.kind != "metal"):
        fix = Advice(Option("target", "metal"), " for the GPU; without it the package is for the CPU of every machine")
        raise error("E0507", f"iPhones and Macs do not run kernels for {options.target.name}", fix=fix)


def compile_device(model: str | os.PathLike[str], options: Options, named: str, part: Part) -> Compiled:
    """The model for the device of a target, with what stays on the CPU for a processor. In one program with the model
    for the CPU, its symbols begin otherwise.

    Raises:
        SternaError: what compiling the model raises; E0507 nothing of it runs on the device.
    """
    assert options.target.device is not None
    own = f"{named}_{options.target.device.kind}"
    host = replace(part.target, library=f"{own}.a")
    compiled = compile_with(model, replace(options, name=own, host=host))
    if not compiled.module:
        fix = Advice("leave out ", Option("target"), ": the package is then for the CPU")
        raise error("E0507", "nothing of the model runs on a GPU", os.fspath(model), fix=fix)
    return compiled


def _on_device(compiled: Compiled, named: str) -> tuple[_OnDevice, dict[str, bytes], list[bytes]]:
    """What a model has for a device, the files with it, and objects of what stays on the CPU."""
    assert compiled.options.target.device is not None
    module, symbols = compiled.options.target.device.module, f"sterna_{compiled.model}"
    kernels = {module: compiled.module.encode()}
    libraries = {library.name: library.data for library in compiled.libraries}
    given = {"params.bin": compiled.params, **kernels, **libraries, **strings_files(compiled.graph)}
    text = graph_json(replace(compiled, model=named), given)
    described = _OnDevice(
        symbols, module, len(compiled.params), len(text), len(kernels[module]), bool(compiled.libraries)
    )
    files = {f"{symbols}.bin": compiled.params, f"{symbols}.json": text, **kernels}
    return described, files, [each for library in libraries.values() for each in members(library)]


def linked_objects(compiled: Compiled, part: Part, device: Compiled | None = None) -> list[bytes]:
    """The objects of a model: kernels, and graphs and weights as constants.

    Args:
        device: the same model for a device.
    """
    objects: list[bytes] = []
    graphs: list[_Linked] = []
    strings = strings_files(compiled.graph)
    beside = {"params.bin": compiled.params, **strings}
    own = replace(compiled, alternatives=())
    for each in (*compiled.alternatives, own):
        target = each.options.target
        (library,) = each.libraries
        symbols = compiled.model if each is own else symbols_of(compiled.model, target)
        text = graph_json(each, {"params.bin": compiled.params, library.name: library.data, **strings})
        graphs.append(_Linked(symbols, " ".join(target.cpu_features), len(text)))
        beside[f"{symbols}.json"] = text
        objects += members(library.data)
    there = None
    if device is not None:
        there, files, further = _on_device(device, compiled.model)
        beside |= files
        objects += further
    kind = class_name(compiled.model)
    sizes = {"params_bytes": len(compiled.params), "strings_bytes": sum(map(len, strings.values()))}
    made = _text("model.c", model=compiled.model, type=kind, graphs=graphs, device=there, **sizes)
    beside[f"{kind}Kernels.h"] = _text("model.h", model=compiled.model)
    with scratch_folder("ios") as folder:
        path = folder / "model.c"
        path.write_bytes(made)
        folders = (resource("runtime_c") / "include", resource("runtime_apple") / "include")
        return [*part.compile([path], folders, beside), *objects]


# ---- Frameworks ----


def _xcframework(
    name: str, version: str, headers: Mapping[str, bytes], objects: Callable[[Part], list[bytes]], dynamic: bool
) -> Tree:
    """A framework for every system; `objects`: what its library is made of."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    rows = []
    for each in slices():
        place = f"{name}.framework/{'' if each.flat else 'Versions/A/'}{name}"
        libraries = []
        for part in each.parts:
            made = objects(part)
            data = part.library(made, f"@rpath/{place}") if dynamic else part.archive(made)
            libraries.append((part.processor, data))
        library = universal(libraries)
        framework = _framework(name, version, headers, library, each)
        at = f"{name}.xcframework/{each.name}/{name}.framework"
        files |= {f"{at}/{path}": data for path, data in framework.contents.items()}
        links |= {f"{at}/{path}": target for path, target in framework.links.items()}
        rows.append(
            {
                "BinaryPath": place,
                "LibraryIdentifier": each.name,
                "LibraryPath": f"{name}.framework",
                "SupportedArchitectures": [part.processor for part in each.parts],
                "SupportedPlatform": each.platform,
                **({"SupportedPlatformVariant": each.variant} if each.variant else {}),
            }
        )
    listed = {"AvailableLibraries": rows, "CFBundlePackageType": "XFWK", "XCFrameworkFormatVersion": "1.0"}
    files[f"{name}.xcframework/Info.plist"] = plistlib.dumps(listed)
    return Tree(files, links)


def _framework(name: str, version: str, headers: Mapping[str, bytes], library: bytes, system: Slice) -> Tree:
    """The framework of a system. On macOS a framework has versions inside, and links to the present one."""
    minimum = "MinimumOSVersion" if system.flat else "LSMinimumSystemVersion"
    information = {
        "CFBundleDevelopmentRegion": "en",
        "CFBundleExecutable": name,
        "CFBundleIdentifier": f"dev.sterna.{name}",
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleName": name,
        "CFBundlePackageType": "FMWK",
        "CFBundleShortVersionString": version,
        "CFBundleSupportedPlatforms": [system.system],
        "CFBundleVersion": version,
        minimum: system.minimum,
    }
    resources = "" if system.flat else "Resources/"
    files = {
        name: library,
        **{f"Headers/{header}": data for header, data in headers.items()},
        "Modules/module.modulemap": _text("module.modulemap", module=name, headers=list(headers)),
        f"{resources}Info.plist": plistlib.dumps(information),
        f"{resources}PrivacyInfo.xcprivacy": plistlib.dumps(_PRIVACY),
    }
    if system.flat:
        return Tree(files)
    tops = sorted({path.partition("/")[0] for path in files})
    links = {"Versions/Current": "A", **{top: f"Versions/Current/{top}" for top in tops}}
    return Tree({f"Versions/A/{path}": data for path, data in files.items()}, links)


#: What the App Store asks of every library. The runtime reads no file and no clock that it wants reasons for: a test
#: holds what its libraries call against Apple's list.
_PRIVACY: dict[str, Any] = {
    "NSPrivacyAccessedAPITypes": [],
    "NSPrivacyCollectedDataTypes": [],
    "NSPrivacyTracking": False,
    "NSPrivacyTrackingDomains": [],
}


def _text(template: str, **values: Any) -> bytes:
    return render_template(f"package/ios/{template}.j2", **values).encode()
