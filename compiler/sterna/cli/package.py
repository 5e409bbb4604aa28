"""`sterna package`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from sterna.cli import options
from sterna.cli.asked import takes_options
from sterna.cli.output import console, print_json
from sterna.codegen.generators import DEFAULT, GENERATORS
from sterna.errors import SternaError, error
from sterna.escape import rich as escape
from sterna.options import Options
from sterna.package.npm import npm_package
from sterna.scratch import temporary_directory
from sterna.targets.description import load_target
from sterna_runtime.advice import Advice, Option
from sterna_runtime.cli.reports import size
from sterna_runtime.cli.values import dim
from sterna_runtime.devices import needed
from sterna_runtime.names import model_name
from sterna_runtime.recipe import DEVICES

_THEN = {
    "npm": "`npm publish` in it makes it public",
    "c": "its README.md says how it is built",
    "deb": "`apt install` takes both .deb files; docs/raspberry-pi.md shows it",
    "ios": "Swift packages; docs/ios.md says how an app uses them",
    "android": "a Maven repository; docs/android.md says how an app uses it",
    "app": "a project: open it in Android Studio",
    **dict.fromkeys(
        ("arduino", "platformio", "zephyr", "esp-idf", "cmsis-pack", "cmake"), "its README.md says how it is used"
    ),
}
#: Made of one bundle, of a model for this target where no other is named; the others compile a model for several.
_FIRMWARE = {"arduino": "cortex-m4", "platformio": "cortex-m4", "zephyr": "cortex-m4", "esp-idf": "esp32s3",
             "cmsis-pack": "cortex-m4", "cmake": "cortex-m4"}  # fmt: skip
_OF_BUNDLES = {"npm": "browser", "c": "host", "deb": "host", **_FIRMWARE}
#: Devices that machines of a kind have beside their processors.
_DEVICES = {"android": ("opencl", "opencl-adreno", "opencl-mali"), "ios": ("metal",)}
_KINDS = ("npm", "c", "deb", "android", "ios", *_FIRMWARE)


@click.command("package")
@click.argument("bundle", type=click.Path(path_type=Path), metavar="BUNDLE|MODEL")
@click.option(
    "--for", "ecosystem", type=click.Choice(_KINDS), required=True, metavar="KIND",
    help=f"What kind of package: {', '.join(_KINDS[:-1])} or {_KINDS[-1]}.",
)  # fmt: skip
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Folder for the package. Default: the bundle's or model's name with the kind added.",
)
@click.option("--name", "package_name", help="The package's name. Default: the model's.")
@click.option("--package-version", "version", default="1.0.0", show_default=True, metavar="VERSION")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    type=options.shape,
    metavar="NAME=SIZES",
    help="Sizes of an input that the model leaves open, as `compile` takes them.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    type=dim,
    metavar="NAME=SIZE",
    help="Size of a named dimension of the model, NAME=LEAST..GREATEST[:DIVISOR], or an expression of others.",
)
@click.option(
    "--generator",
    "-g",
    type=click.Choice(list(GENERATORS)),
    default=DEFAULT,
    show_default=True,
    help="How kernels of a model are made.",
)
@click.option(
    "--target",
    "-t",
    "machine",
    metavar="NAME|FILE",
    help="npm, c, deb: machine to compile a model for. Default: browser for npm, else this one. android, ios: a target "
    "with a device, beside all processors.",
)
@click.option(
    "--gpu", type=click.Path(path_type=Path), metavar="BUNDLE",
    help="npm: the same model compiled for webgpu, which runs where there is a GPU.",
)  # fmt: skip
@click.option("--app", is_flag=True, help="android: write an app with the model, for Android Studio.")
@click.option("--dynamic", is_flag=True, help="ios: dynamic frameworks, which an app loads, in place of static ones.")
@click.option(
    "--maintainer", metavar="NAME <ADDRESS>",
    help="deb, arduino, platformio: who packages. Default for deb: DEBFULLNAME and DEBEMAIL.",
)  # fmt: skip
@click.option(
    "--all-variants",
    "all_of_them",
    is_flag=True,
    help="Also kernels for what better processors have, such as dot products of arm64; one is picked.",
)
@options.json_option
@takes_options
def command(
    make_options: Callable[..., Options],
    bundle: Path,
    ecosystem: str,
    output: Path | None,
    package_name: str | None,
    version: str,
    machine: str | None,
    gpu: Path | None,
    app: bool,
    dynamic: bool,
    maintainer: str | None,
    all_of_them: bool,
    as_json: bool,
) -> None:
    """Turn a MODEL, or for npm, C and Debian a BUNDLE, into a package of its own, ready to publish.

    An npm package contains the bundle, the JavaScript runtime, and a wrapper with types from the signature. It has
    no dependencies and runs nothing when it is installed. That of a MODEL with --target webgpu runs on the GPU where a
    page has one, and in WebAssembly everywhere else.

    For C it is a folder of sources: the bundle, the C runtime and a program that runs it, for any toolchain.

    For Debian (deb) there are two packages: the model's bundle, and the runtime with headers and `sterna-run`, which
    all models share.

    For Android the model is compiled for four ABIs. What is written is a Maven repository: a library (.aar) with a
    class of the model's signature, kernels and one set of weights, and one with the runtime, which all models of an
    app share. With a --target for OpenCL the model runs on the phone's GPU, or on the CPU of a phone that has none.
    With --app it is a project of Android Studio's: an app that runs the model, with that repository in it.

    For iOS the model is compiled for phones, the simulator and macOS. What is written are two Swift packages with
    XCFrameworks: one of the model, with a typed class and everything linked in, and one of the runtime, which all
    models of an app share. With a --target for Metal the model runs on the GPU, or on the CPU where there is none.

    For Arduino, PlatformIO, Zephyr, ESP-IDF, CMSIS-Pack and CMake a library of C sources for a microcontroller, with
    an example that runs the model on a recorded input. --target names the core.
    """
    named = bundle if bundle.name not in ("", "..") else bundle.resolve()
    kind = "app" if app else ecosystem
    folder = ecosystem in _OF_BUNDLES and bundle.is_dir()
    place = output or named.parent / f"{named.name if folder else named.stem}-{kind}"
    if app and ecosystem != "android":
        raise error("E0203", f"--app is for Android; the package is for {ecosystem}", fix="--for android --app")
    if dynamic and ecosystem != "ios":
        raise error("E0203", f"--dynamic is for iOS; the package is for {ecosystem}", fix="leave it out")
    if maintainer is not None and ecosystem not in ("deb", "arduino", "platformio"):
        title = "--maintainer is of use with --for deb, arduino and platformio"
        raise error("E0002", title, fix="leave it out")
    if gpu is not None and ecosystem != "npm":
        raise error("E0203", f"--gpu is for pages; the package is for {ecosystem}", fix="leave it out")
    if package_name == "":
        raise error("E0203", "a package cannot have an empty name", fix="--name my-model, or leave it out")
    device = None
    if machine is not None and ecosystem not in _OF_BUNDLES:
        device = _device(make_options, machine, ecosystem)
    if ecosystem not in _OF_BUNDLES and (bundle / "graph.json").is_file():
        raise _no_model(bundle, ecosystem)
    if ecosystem in _OF_BUNDLES:
        firmware = ecosystem in _FIRMWARE
        names = package_name.replace("-", "_").lower() if firmware and package_name and not folder else None
        target = load_target(machine or _OF_BUNDLES[ecosystem])
        paged = ecosystem == "npm" and target.device is not None and target.device.kind == "webgpu" and not folder
        # What runs where there is no GPU.
        fallback = load_target(_OF_BUNDLES[ecosystem]) if paged else target
        asked = make_options(target=fallback, all_variants=all_of_them, name=names)
        if folder and (machine or asked.shapes or asked.dims or all_of_them):
            title = "a bundle has been compiled: --target, --shape, --dim and --all-variants are of use with a model"
            raise error("E0203", title, fix="name the model, or give them to `sterna compile`")
        if not folder and ecosystem in ("c", "deb") and (asked.target.static or asked.target.is_wasm):
            title = f"a package for {ecosystem} runs on a system; {asked.target.name} is for firmware or browsers"
            raise error("E0507", title, fix="-t raspberrypi4; `sterna targets` lists others")
        if not folder and firmware and not target.static:
            title = f"a package for {ecosystem} is for microcontrollers; {target.name} is for none"
            raise error("E0507", title, fix=Option("target", _OF_BUNDLES[ecosystem]))
        if not folder and ecosystem == "npm" and not fallback.is_wasm:
            title = f"a package for npm runs in pages; {target.name} is for no page"
            fix = "-t browser; or -t webgpu, for the GPU where a page has one"
            raise error("E0507", title, fix=fix)
        if paged and gpu is not None:
            raise error("E0203", f"--gpu is a bundle, and {target.name} makes one", fix="leave out one of them")
        further = make_options(target=target) if paged else None
        with _bundle(bundle, asked, golden=int(firmware)) as made, _gpu(bundle, further, gpu) as beside:
            written = _of_bundle(ecosystem, made, place, package_name, version, maintainer, beside)
    elif app:
        from sterna.package.android_app import android_app  # noqa: PLC0415 (brings the compiler)

        written = android_app(bundle, make_options(), place, package_name, version, all_of_them, device)
    elif ecosystem == "ios":
        if all_of_them:
            raise error("E0203", "packages for iOS always hold all variants", fix="leave out --all-variants")
        from sterna.package.ios import ios_package  # noqa: PLC0415 (brings the compiler)

        written = ios_package(bundle, make_options(), place, package_name, version, dynamic, device)
    else:
        from sterna.package.android import android_package  # noqa: PLC0415 (brings the compiler)

        written = android_package(bundle, make_options(), place, package_name, version, all_of_them, device)
    total = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
    if as_json:
        print_json({"directory": str(written), "for": ecosystem, "bytes": total})
    else:
        console().print(f"{escape(str(written))}: {size(total)}; {_THEN[kind]}")


def _device(make_options: Callable[..., Options], machine: str, ecosystem: str) -> Options:
    """How a model is compiled for the device of a target, beside the processors of all machines of a kind.

    Raises:
        SternaError: E0203, the target has none.
    """
    target = load_target(machine)
    if target.device is None or target.static:
        title = f"a package for {ecosystem} is compiled for all processors of its machines; --target names one"
        raise error("E0203", title, fix=f"leave out --target; or name a device: -t {', '.join(_DEVICES[ecosystem])}")
    return make_options(target=target)


def _no_model(bundle: Path, ecosystem: str) -> SternaError:
    """Why a bundle is not what such a package is made of."""
    kinds = needed(str(bundle))
    if not kinds:
        title = f"{bundle} is a bundle, of kernels for one processor; a package for {ecosystem} holds several"
        return error("E0203", title, fix="name the model that it was compiled from")
    title = f"{bundle} is a bundle for devices of {', '.join(kinds)}; "
    if kinds[0] in _DEVICES[ecosystem]:
        title += f"a package for {ecosystem} also holds kernels for processors"
        return error("E0203", title, fix=f"name the model that it was compiled from: -t {kinds[0]}")
    title += f"packages for {ecosystem} have no kernels of these"
    sources = "; --for c writes sources that drive its device" if set(kinds) <= set(DEVICES) else ""
    return error("E0203", title, fix=f"name the model that it was compiled from: it then runs on the CPU{sources}")


@contextmanager
def _bundle(path: Path, asked: Options, golden: int) -> Iterator[Path]:
    """The bundle at a path; of a model, the one that it is compiled into, which lasts as long as the context.

    Args:
        golden: how many golden sets that one has.
    """
    if path.is_dir():
        yield path
        return
    from sterna.api import compile_with  # noqa: PLC0415 (brings the compiler)
    from sterna.bundle.directory import write_files  # noqa: PLC0415 (as above)
    from sterna.bundle.writer import bundle_files  # noqa: PLC0415 (as above)
    from sterna.debug.golden import golden_files, golden_sets  # noqa: PLC0415 (as above)

    sets = golden_files(*golden_sets(path, asked, golden)) if golden else None
    with temporary_directory("bundle") as scratch:
        files = bundle_files(compile_with(path, asked), sets)
        made = write_files(files, Path(scratch) / model_name(path.name)).directory
        with _called(path, made):
            yield made


@contextmanager
def _called(model: Path, made: Path) -> Iterator[None]:
    """Within it, what is wrong with a bundle that was made of a model is said of the model, which users know."""
    try:
        yield
    except SternaError as mistake:

        def told(text: str) -> str:
            return text.replace(str(made), str(model))

        raise SternaError(
            replace(each, title=told(each.title), where=tuple(map(told, each.where))) for each in mistake.diagnostics
        ) from None


@contextmanager
def _gpu(path: Path, asked: Options | None, given: Path | None) -> Iterator[Path | None]:
    """The bundle for WebGPU: of the model at a path if options say how it is compiled, else the one that was given."""
    if asked is None:
        yield given
        return
    with _bundle(path, asked, golden=0) as made:
        if not needed(str(made)):
            fix = Advice("compile it for WebAssembly alone: ", Option("target", "browser"))
            raise error("E0507", "nothing of the model runs on a GPU", str(path), fix=fix)
        yield made


def _of_bundle(
    ecosystem: str, bundle: Path, place: Path, name: str | None, version: str, maintainer: str | None, gpu: Path | None
) -> Path:
    if ecosystem == "npm":
        return npm_package(bundle, place, name, version, gpu)
    if ecosystem == "c":
        from sterna.package.c import c_package  # noqa: PLC0415 (as above)

        return c_package(bundle, place, name)
    if ecosystem in _FIRMWARE:
        from sterna.package.firmware import firmware_package  # noqa: PLC0415

        return firmware_package(ecosystem, bundle, place, name, version, maintainer)
    from sterna.package.deb import deb_packages  # noqa: PLC0415

    return deb_packages(bundle, place, name, version, maintainer)
