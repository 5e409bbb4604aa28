"""How the C runtime is compiled with ziglang.

hatch_build.py loads this file by its path, in an environment that has neither this package nor its dependencies, so it
imports nothing but the standard library.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import NamedTuple

SOURCES = (
    *("bundle", "control", "cpu", "dims", "graph", "hash", "heap", "json", "library", "manifest", "model", "pool"),
    *("run", "status", "values"),
)
"""The files of runtime_c/src, without the extension."""

DEVICES = {
    "opencl": ("bindings", "nodes", "opencl", "opencl_driver", "system"),
    "cuda": ("bindings", "cuda", "cuda_driver", "cuda_memory", "cuda_steps", "nodes", "system"),
    "metal": ("nodes", "metal", "system"),
}
"""Libraries beside the runtime that drive devices: by their kind, the files of runtime_c/devices."""

_ONLY_ON = {"metal": "Darwin"}
"""Kinds of devices that one system alone has."""

SHARED_WITH_DEVICES = ("cpu", "dims", "hash", "heap", "json", "library", "manifest", "status", "values")
"""Files of runtime_c/src that those need parts of; the linker leaves out the rest."""

FLAGS = (
    "-std=c99",
    "-Os",
    *("-Xclang", "-Oz"),  # zig makes -Os of a plain -Oz
    "-g0",
    "-fvisibility=hidden",
    "-fno-sanitize=all",
    "-fno-stack-protector",
    "-ffunction-sections",
    "-fdata-sections",
    "-DSTERNA_SHARED",
    "-DSTERNA_BUILDING",
)
"""For size: the time goes into the kernels, which are not compiled here."""


def devices_of(system: str | None = None) -> tuple[str, ...]:
    """The kinds of devices that machines with a system, as `platform.system()` names it (here: this one), may have."""
    return tuple(kind for kind in DEVICES if _ONLY_ON.get(kind) in (None, system or platform.system()))


def library_name(system: str | None = None, kind: str = "") -> str:
    """File name of the shared library on a system as `platform.system()` names it (here: this one).

    Args:
        kind: of the device, for the library that drives it.
    """
    stem = f"sterna_{kind}" if kind else "sterna"
    names = {"Windows": f"{stem}.dll", "Darwin": f"lib{stem}.dylib"}
    return names.get(system or platform.system(), f"lib{stem}.so")


class Platform(NamedTuple):
    """What a library is for: system and machine as `platform` names them; on Linux also the C library."""

    system: str
    machine: str
    libc: str = "glibc"

    @property
    def _cpu(self) -> str:
        names = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "arm", "armv6l": "arm"}
        return names.get(self.machine.lower(), self.machine.lower())

    @property
    def target(self) -> str:
        """The zig triple, with the oldest system version that is supported; `tag` says the same to pip."""
        if self.system == "Darwin":
            return f"{self._cpu}-macos.11.0"
        if self.system == "Windows":
            return f"{self._cpu}-windows-gnu"
        if self.system != "Linux":
            return "native"
        hard = "eabihf" if self._cpu == "arm" else ""
        if self.libc == "musl":
            return f"{self._cpu}-linux-musl{hard}"
        return f"{self._cpu}-linux-gnu{hard}.{_oldest_glibc(self._cpu)}"

    @property
    def processor(self) -> str:
        """Zig's words for the least processor, where it is another than those of the triple."""
        # That of Debian's armhf, VFPv3 with 16 registers and no NEON; and that of the first Raspberry Pi and the Zero.
        least = {"armv7l": "generic+v7a+vfp3d16-neon-d32", "armv6l": "arm1176jzf_s"}
        return least.get(self.machine.lower(), "") if self.system == "Linux" else ""

    @property
    def tag(self) -> str:
        """The platform tag of a wheel with such a library."""
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(self.machine.lower(), self.machine.lower())
        if self.system == "Darwin":
            return f"macosx_11_0_{'arm64' if machine == 'aarch64' else machine}"
        if self.system == "Windows":
            return "win_arm64" if machine == "aarch64" else "win_amd64"
        if self.system != "Linux":
            import sysconfig  # noqa: PLC0415 (of builds; programs that run bundles import this file)

            return re.sub(r"[^a-z0-9]", "_", sysconfig.get_platform().lower())
        if self.libc == "musl":
            return f"musllinux_1_2_{machine}"  # 1.2 made times 64 bits wide on 32-bit machines
        if machine == "armv6l":
            return "linux_armv6l"  # manylinux has no such machine; piwheels and pip on Raspberry Pi OS take this
        glibc = _oldest_glibc(self._cpu)
        old = f".manylinux2014_{machine}" if glibc == "2.17" else ""
        return f"manylinux_{glibc.replace('.', '_')}_{machine}{old}"


def _oldest_glibc(cpu: str) -> str:
    return "2.27" if cpu.startswith("riscv") else "2.17"  # RISC-V came with 2.27; manylinux2014 is 2.17


#: What the wheel `sterna-runtime` is built for.
WHEELS = (
    *(Platform("Linux", machine, libc) for libc in ("glibc", "musl") for machine in ("x86_64", "aarch64", "armv7l")),
    Platform("Linux", "armv6l"),
    Platform("Darwin", "x86_64"),
    Platform("Darwin", "arm64"),
    Platform("Windows", "AMD64"),
)


def this_machine() -> str:
    """`platform.machine()` of this Python, which on a 64-bit kernel may be one of 32 bits, as on 32-bit Raspberry Pi
    OS: the size of its pointers decides.
    """
    machine = platform.machine()
    if sys.maxsize < 1 << 32:
        return {"aarch64": "armv7l", "arm64": "armv7l", "x86_64": "i686", "amd64": "x86"}.get(machine.lower(), machine)
    return machine


def this_platform() -> Platform:
    """That of this Python."""
    import sysconfig  # noqa: PLC0415 (as above)

    musl = "musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE"))
    return Platform(platform.system(), this_machine(), "musl" if musl else "glibc")


def platform_of_build() -> Platform:
    """What a wheel is built for: STERNA_BUILD_PLATFORM, a platform tag, else this machine.

    Raises:
        RuntimeError: the tag is of no supported system.
    """
    wanted = os.environ.get("STERNA_BUILD_PLATFORM", "")
    for pattern, system, libc in (
        (r"(?:manylinux\w*?|linux)_", "Linux", "glibc"),
        (r"musllinux\w*?_", "Linux", "musl"),
        (r"macosx_\d+_\d+_", "Darwin", "glibc"),
        (r"win_?", "Windows", "glibc"),
    ):
        found = re.fullmatch(pattern + r"(x86_64|aarch64|arm64|amd64|armv7l|armv6l|riscv64)", wanted)
        if found:
            return Platform(system, found[1], libc)
    if wanted:
        raise RuntimeError(f"STERNA_BUILD_PLATFORM={wanted} is not a platform tag of a supported system")
    # cibuildwheel cross-compiles on macOS in this way.
    if platform.system() == "Darwin" and "arm64" in os.environ.get("ARCHFLAGS", ""):
        return Platform("Darwin", "arm64")
    return this_platform()


def compile_for(made_for: Platform, sources: Path, folder: Path, kind: str = "") -> Path:
    """Compiles the runtime for a wheel into a folder; returns the library. With a `kind` that for such devices.

    Raises:
        RuntimeError: ziglang could not, with what it said on standard error.
    """
    import subprocess  # noqa: PLC0415 (as above)

    library = folder / library_name(made_for.system, kind)
    command = compile_command(sources, library, made_for.target, made_for.processor, kind)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        raise RuntimeError(f"ziglang could not compile the C runtime for {made_for.target}")
    return library


def compile_command(sources: Path, output: Path, target: str, processor: str = "", kind: str = "") -> list[str]:
    """The command line that builds the runtime from the folder `sources` (runtime_c) with ziglang; with a `kind` the
    library that drives such devices."""
    windows, thumb = "windows" in target, target.startswith("arm-") and processor != "arm1176jzf_s"
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, "-target", target, f"-I{sources / 'include'}", "-shared"]
    if processor:
        command.append(f"-mcpu={processor}")
    if not windows:
        # On Windows zig would give the last two to its own C library too, which does not compile with them.
        command += ["-fPIC", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"]
    if "linux" in target and not target.startswith("arm-"):  # at link time zig forgets the thumb mode
        command.append("-flto")
    if "linux" in target and target.startswith("x86_64"):
        command.append("-fno-plt")
        command.append("-fomit-frame-pointer")  # zig keeps it unless told
    if thumb:  # shorter; zig takes no -mthumb. That of armv6 has no floats.
        command += ["-Xclang", "-target-feature", "-Xclang", "+thumb-mode"]
    if kind:
        command += [str(sources / "devices" / f"{name}.c") for name in DEVICES[kind]]
    command += [str(sources / "src" / f"{name}.c") for name in (SHARED_WITH_DEVICES if kind else SOURCES)]
    command.append(str(sources / "port" / ("windows.c" if windows else "posix.c")))
    if "linux" in target:
        command += ["-Wl,--gc-sections", "-Wl,-Bsymbolic", "-Wl,--hash-style=gnu", f"-Wl,-soname,{output.name}"]
        command += ["-lpthread", "-ldl"]
    elif "macos" in target:
        command.append(f"-Wl,-install_name,@rpath/{output.name}")
    elif windows:
        # What programs are linked with; zig writes one in any case, and would name it after the first source.
        command.append(f"-Wl,--out-implib,{output.with_suffix('.lib')}")
    return [*command, "-s", "-o", str(output)]
