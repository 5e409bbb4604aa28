"""From C source to a relocatable object, by zig (the default), clang, gcc or a compiler of the user's."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from sterna import cache as caching
from sterna.cache import Cache, cache_directory
from sterna.errors import error
from sterna.scratch import scratch_folder
from sterna.targets.target import Target
from sterna.timing import timed
from sterna.toolchain import zig as zigs
from sterna_runtime.building import zig_environment

#: What every compiler is told. -ffp-contract=off: a fused multiply-add is written where it is meant. -fno-math-errno:
#: else sqrt is a call. -fno-stack-protector: else its handler is one.
COMMON = (
    "-O2", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-stack-protector",
    "-ffreestanding", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables", "-fomit-frame-pointer", "-fno-ident",
    "-Wno-psabi", "-Wno-unknown-warning-option",
)  # fmt: skip
#: How compilers are told what code to make.
CLANG_LEVELS = {"fast": "-O3", "small": "-Os", "smallest": "-Oz"}
GCC_LEVELS = {"fast": "-O3", "small": "-Os", "smallest": "-Os"}
SOURCE, OBJECT = "kernels.c", "kernels.o"


def compile_c(
    source: str, target: Target, compiler: str = "zig", extra_flags: Sequence[str] = (), ordered: bool = False
) -> bytes:
    """The object of one translation unit.

    The same source, target, flags and compiler version give the same bytes; the object is taken from the cache if it
    was made before, unless headers of the user's own are part of it.

    Args:
        compiler: "zig", "clang", "gcc", a cross compiler such as "arm-none-eabi-gcc", or a path to any of them.
        extra_flags: added after all others.
        ordered: whether instructions keep the order of the source until they have registers, as tiles want it that
            fill all of them; gcc does so anyway.

    Raises:
        SternaError: E0402 no such compiler, E0403 it rejected the source.
    """
    command = [*compiler_command(compiler, target, ordered), *extra_flags]
    if any(d.c_header for d in target.intrinsics):
        return _compile(command, source, target)  # the user's header may change
    store = Cache("objects", cache_directory())
    # The program's place is not part of what the object is made from, its version is.
    entry = caching.key("c", source, compiler_version(command[0]), "\0".join(command[1:]))
    return store.get_or_make(entry, lambda: _compile(command, source, target))


def compiler_command(compiler: str, target: Target, ordered: bool = False) -> list[str]:
    """The command line up to `-c source -o object`, with the program's path in front.

    Raises:
        SternaError: E0402.
    """
    standard = "-std=c99" if target.dialect in ("plain", "packed") else "-std=gnu99"
    position = () if target.static or target.llvm_triple.startswith(("wasm", "thumb")) else ("-fPIC",)
    # A program for firmware takes what it calls.
    sections = ("-ffunction-sections", "-fdata-sections") if target.static else ()
    common = [*COMMON, standard, *position, *sections]
    if compiler == "zig":
        cpu = [f"-mcpu={target.cpu}"] if target.cpu else []
        return [*zigs.zig("cc", "-target", target.triple), *cpu, *common, *_clang(target, ordered), *target.c_flags]
    program = find_program(compiler)
    if program is None:
        raise error(
            "E0402",
            f'the compiler "{compiler}" is not installed',
            fix="install it, give its path, or use zig, which comes with Sterna",
        )
    if "clang" in Path(program).name:
        machine = ["-target", target.llvm_triple]
        for option, values in (("-target-cpu", (target.llvm_cpu,)), ("-target-feature", target.llvm_features)):
            for value in filter(None, values):
                machine += ["-Xclang", option, "-Xclang", value]
        return [program, *machine, *common, *_clang(target, ordered), *target.c_flags]
    return [program, *_gcc_machine(target), *common, GCC_LEVELS[target.code], *target.c_flags]


def _clang(target: Target, ordered: bool) -> tuple[str, ...]:
    """Flags of clang, and of zig, whose driver lowers -O3 to -O2: behind it, it keeps tiles of accumulators in
    registers."""
    scheduler = ("-mllvm", "-enable-misched=false") if ordered else ()
    return "-fno-sanitize=all", "-Xclang", CLANG_LEVELS[target.code], *scheduler


def find_program(name: str) -> str | None:
    """The path of a program given by name or path."""
    return shutil.which(name)


def compiler_version(program: str) -> str:
    """What identifies a compiler's output: the first line it says about itself and the machine it compiles for."""
    found = zigs.find_zig()
    if found is not None and Path(program) == found:
        return f"ziglang {metadata.version('ziglang')}"
    try:
        status = Path(program).stat()
    except OSError:
        return ""
    return _version(program, status.st_mtime_ns, status.st_size)


def toolchain(generator: str, compiler: str) -> str:
    """What makes kernels, for people: its name, a space, its version. It does not depend on where that is installed."""
    if generator == "llvm":
        from llvmlite import binding  # noqa: PLC0415 - it takes a while, and the C generator does without

        return f"llvmlite {metadata.version('llvmlite')}, LLVM {'.'.join(map(str, binding.llvm_version_info))}"
    program = zigs.find_zig() if compiler == "zig" else find_program(compiler)
    return compiler_version(str(program)) if program is not None else ""


@lru_cache(maxsize=32)
def _version(program: str, changed: int, size: int) -> str:
    lines = []
    for question in ("--version", "-dumpmachine"):
        try:
            answer = subprocess.run([program, question], capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        lines.append(answer.stdout.strip().split("\n")[0])
    return " ".join(lines)


def _gcc_machine(target: Target) -> list[str]:
    """gcc's words for the target's processor; everything gcc is not told follows from how it was built."""
    architecture = target.llvm_triple.split("-")[0]
    if architecture == "x86_64":
        # What LLVM calls features beside those of the processor is tuning.
        more = [f"-m{name[1:]}" for name in target.llvm_features if name[:1] == "+" and name[1:] in target.cpu_features]
        return [f"-march={target.llvm_cpu}", *more] if target.llvm_cpu else []
    if architecture.startswith("thumb"):
        hard = "hard" if target.llvm_triple.endswith("hf") else "soft"
        return ["-mthumb", f"-mcpu={target.llvm_cpu}", f"-mfloat-abi={hard}"]
    if target.llvm_cpu and target.llvm_cpu != "generic":
        return [f"-mcpu={target.llvm_cpu}"]
    return []


def _compile(command: list[str], source: str, target: Target) -> bytes:
    with scratch_folder("compile") as directory:
        (directory / SOURCE).write_text(source, "utf-8")
        run([*command, "-c", SOURCE, "-o", OBJECT], directory, f"the kernels of target {target.name}")
        return (directory / OBJECT).read_bytes()


def run(
    command: Sequence[str], directory: Path, subject: str, variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Runs a compiler or linker in a directory of its own; `variables`: of its environment, besides the usual ones.

    Raises:
        SternaError: E0402 it cannot be started, E0403 it failed; with its first error lines and the command.
    """
    environment = {**zig_environment(directory), **variables}
    try:
        with timed(f"{Path(command[0]).name}: {subject}"):
            done = subprocess.run(
                command,
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
    except OSError as problem:
        raise error("E0402", f"{command[0]} cannot be started: {problem.strerror or problem}") from None
    if done.returncode == 0:
        return
    said = [line.rstrip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    # GNU's linker says of a memory that is too small that it overflowed, and only after that that this is an error.
    first = next((n for n, line in enumerate(said) if "error" in line or "overflowed" in line), 0)
    reason = said[first : first + 6] or [f"it ended with status {done.returncode} and said nothing"]
    raise error(
        "E0403", f"{Path(command[0]).name} rejected {subject}", *reason, f"command: {shlex.join(command)}",
        fix="generated code that a compiler rejects is a bug in Sterna, unless your flags made it so; please report it",
    )  # fmt: skip
