"""From objects to the kernel library of a bundle: model.so, .dylib, .dll, .wasm or .a."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna import cache as caching
from sterna.cache import Cache, cache_directory
from sterna.errors import error
from sterna.scratch import scratch_folder
from sterna.targets.target import Target
from sterna.toolchain.check import check_library, check_objects, wants_functions
from sterna.toolchain.compilers import compiler_version, find_program, run
from sterna.toolchain.zig import find_zig, zig


def export_name(model: str) -> str:
    """The one symbol that a kernel library exports."""
    return f"sterna_{model}_library"


def link_library(objects: Sequence[bytes], target: Target, model: str, out_name: str = "") -> bytes:
    """The kernel library made of objects, with one exported symbol and no undefined one.

    The same objects give the same bytes. What the format of `out_name` (default: `target.library`) demands is chosen
    from its suffix. A WebAssembly module also exports what a host needs to place and call kernels: `__heap_base` and
    its table of functions. Without ziglang, ELF libraries are linked by an installed ld.lld or ld; where a processor
    needs functions in place of instructions, zig brings them.

    Raises:
        SternaError: E0402 no linker, E0403 it rejected the objects, E0404 they contain what a bundle must not.
    """
    name = out_name or target.library
    check_objects(objects, target)
    if name.endswith(".a"):
        return _link(lambda inputs: [*zig("ar", "rcsD"), name, *inputs], objects, target, name)
    export = export_name(model)
    script = f"{{ global: {export}; local: *; }};\n"
    further = [word for flag in target.link_flags for word in flag.removeprefix("-Wl,").split(",")]
    if name.endswith(".wasm"):
        head = zig("wasm-ld", "--no-entry", f"--export={export}", "--export=__heap_base", "--export-table")
        command = [*head, "--stack-first", "-z", "stack-size=65536", "--strip-all", *further, "-o", name]
    elif name.endswith(".dll"):
        command = [*zig("lld-link", "-dll", "-noentry", f"-export:{export}", "-Brepro"), *further, f"-out:{name}"]
    elif name.endswith(".dylib"):
        head = zig("cc", "-target", target.triple, "-shared", "-nostdlib", "-s", f"-Wl,-install_name,@rpath/{name}")
        command = [*head, *target.link_flags, "-o", name]
    elif target.run_time_functions and wants_functions(objects):
        head = zig("cc", "-target", target.triple, f"-mcpu={target.cpu}", "-shared", "-nostdlib", "-s")
        options = ["--gc-sections", "--version-script=exports.map", "--no-undefined", "--build-id=none"]
        options += [f"-soname={name}", "--hash-style=both", *further]
        command = [*head, "-rtlib=compiler-rt", *(f"-Wl,{option}" for option in options), "-o", name]
    else:
        options = [
            "-shared",
            "-soname",
            name,
            "--version-script",
            "exports.map",
            "-s",
            "--build-id=none",
            "--no-undefined",
        ]
        command = [*_elf_linker(), *options, "-z", "noexecstack", "-z", "relro", "-z", "now", *further, "-o", name]
    library = _link(lambda inputs: [*command, *inputs], objects, target, name, script)
    check_library(library, target, export)
    return library


def _link(
    command_for: Callable[[list[str]], list[str]], objects: Sequence[bytes], target: Target, name: str, script: str = ""
) -> bytes:
    inputs = [f"kernels{n or ''}.o" for n in range(len(objects))]
    command = command_for(inputs)
    store = Cache("libraries", cache_directory())
    entry = caching.key("link", compiler_version(command[0]), "\0".join(command[1:]), script, *objects)

    def make() -> bytes:
        with scratch_folder("link") as directory:
            for file, data in zip(inputs, objects, strict=True):
                (directory / file).write_bytes(data)
            (directory / "exports.map").write_text(script)
            run(command, directory, f"the library {name} of target {target.name}")
            return (directory / name).read_bytes()

    return store.get_or_make(entry, make)


def _elf_linker() -> list[str]:
    if find_zig() is not None:
        return zig("ld.lld")
    for program in ("ld.lld", "ld"):
        if (path := find_program(program)) is not None:
            return [path]
    raise error("E0402", "no linker is installed", fix="pip install ziglang, or install lld")
