"""Bundles for firmware on emulated boards: the functions of `runtime.library`, of a program that is built around the
model and started in QEMU.

Requests and replies are those of `runtime.remote`; what is known without running it comes from firmware.json. Nodes are
told with the instructions they take in place of nanoseconds: `-icount` gives each the same time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sterna.errors import error
from sterna.firmware.build import build, serving_program
from sterna.firmware.description import Firmware, Tensor, read_firmware
from sterna.firmware.machines import Machine, machine_for
from sterna.runtime import remote
from sterna.runtime.remote import Functions, Model, Reader
from sterna.scratch import temporary_directory
from sterna_runtime import Bundle, library


@dataclass(frozen=True)
class Counted:
    """What a run took on a board that counts instructions.

    Args:
        board: by QEMU's name, or that of its description.
        instructions: of the whole run; stack: bytes that it took below its caller's, None where nobody looks.
    """

    board: str
    instructions: int
    stack: int | None


@runtime_checkable
class Counts(Protocol):
    """Functions of `runtime.library` of boards, some of which count."""

    def counted(self, pointer: Any) -> Counted | None: ...


@dataclass
class BoardModel(Model):
    """A model on a board; `counted`: of the latest run, those apart that count nodes."""

    firmware: Firmware | None = None
    machine: Machine | None = None
    folder: tempfile.TemporaryDirectory[str] | None = None
    counted: Counted | None = None

    def end(self) -> bytes:
        said = super().end()
        if self.folder is not None:
            self.folder.cleanup()
        return said


def command_of(machine: Machine, image: Path) -> list[str]:
    """How QEMU runs a program that talks through its standard streams and files."""
    board = [] if "-M" in machine.options else ["-M", machine.name]
    quiet = ["-display", "none", "-monitor", "none", "-serial", "none"]
    files = ["-semihosting-config", "enable=on,target=native"]
    return [machine.program, *board, *machine.options, *quiet, *files, "-kernel", str(image)]


class BoardFunctions(Functions):
    """Those of `runtime.library`, of models on emulated boards.

    Args:
        machine: by QEMU's name; None: the first that runs a bundle.
        options: further ones for QEMU, of the program.
        nodes: whether they can be counted; the program then has the function that calls the kernels once more.
        how: the program is built (`firmware.build.build`).
    """

    def __init__(
        self,
        machine: str | None = None,
        options: Callable[[Path], list[str]] | None = None,
        nodes: bool = True,
        **how: Any,
    ):
        super().__init__(())
        self._machine, self._options = machine, options
        self._how = {"nodes": nodes, **how}

    def sterna_cpu_has(self, feature: bytes) -> int:
        return -1

    def counted(self, pointer: Any) -> Counted | None:
        model = self._models[pointer.value]
        return model.counted if isinstance(model, BoardModel) else None

    def _opened(self, path: bytes, threads: int) -> Model:
        firmware = read_firmware(os.fsdecode(path))
        machine = machine_for(firmware, self._machine)
        if threads > 1:
            title = f"{machine.name} has one processor; {threads} threads were asked for"
            raise error("E0501", title, fix="leave out the number of threads, or 1")
        folder = temporary_directory("firmware")
        image = build(firmware, machine, Path(folder.name), serving_program(firmware, self._how["nodes"]), **self._how)
        more = [] if self._options is None else self._options(image)
        command = [*command_of(machine, image), "-icount", f"shift={machine.shift}", *more]
        process = self._started(command)
        model = BoardModel(process, firmware=firmware, machine=machine, folder=folder)
        model.tables |= _tables(firmware)
        return model

    def _run(self, model: Model) -> None:
        assert isinstance(model, BoardModel)
        assert model.machine is not None
        profiled = model.on_node is not None
        self._give(model)
        reader = Reader(model.ask(remote.PROFILE if profiled else remote.RUN))
        stack, ticks, least = reader.many("I", 3)
        self._take(model)

        def instructions(count: int) -> int:
            return max(0, round((count - least) * model.machine.tick / 2**model.machine.shift)) if model.machine else 0

        if not profiled:
            model.counted = Counted(model.machine.name, instructions(ticks), stack)
        number = 0
        while model.on_node is not None and reader.left and number < len(model.table(remote.NODES)):
            model.on_node(None, number, b"", instructions(reader.one("I")))
            number += 1

    def sterna_memory_info(self, pointer: Any, info: library.CMemory) -> int:
        model = self._models[pointer.value]
        assert isinstance(model, BoardModel)
        assert model.firmware is not None
        found = model.firmware
        info.arena, info.scratch, info.params = found.memory_bytes, 0, found.params_bytes
        info.signature = sum(tensor.bytes for tensor in (*found.inputs, *found.outputs))
        return 0

    def sterna_value_count(self, pointer: Any) -> int:
        return 0


def counted(bundle: Bundle) -> Counted | None:
    """What the latest run of a bundle took on a board that counts, those apart that count nodes; None where it runs
    elsewhere."""
    functions, pointer = bundle.of_runtime()
    return functions.counted(pointer) if isinstance(functions, Counts) else None


def _tables(firmware: Firmware) -> Mapping[int, list[tuple[Any, ...]]]:
    nodes = [(node.name.encode(), node.kernel.encode(), 1) for node in firmware.nodes]
    inputs, outputs = (list(map(_tensor, side)) for side in (firmware.inputs, firmware.outputs))
    return {remote.INPUTS: inputs, remote.OUTPUTS: outputs, remote.VALUES: [], remote.DIMS: [], remote.NODES: nodes}


def _tensor(tensor: Tensor) -> tuple[Any, ...]:
    name, dtype = tensor.name.encode(), tensor.dtype.encode()
    return name, dtype, tensor.dims, tensor.bytes, 0, tensor.scales, tensor.zero_points, []
