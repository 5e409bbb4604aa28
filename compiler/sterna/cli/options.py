"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from sterna.codegen.generators import DEFAULT, GENERATORS
from sterna.errors import SternaError, error
from sterna.ir.limits import MOST_CONSTANT_BYTES, memory_for
from sterna.options import math_bound
from sterna.targets.description import load_target
from sterna_runtime import Bundle, load
from sterna_runtime.abi import MAX_THREADS
from sterna_runtime.advice import Advice, fix_text
from sterna_runtime.cli.values import dim
from sterna_runtime.devices import needed

F = TypeVar("F", bound=Callable[..., Any])


def shape(text: str) -> tuple[str, tuple[int, ...] | None]:
    """`name=1,3,224,224` -> (name, sizes); `name=` is a scalar, `name=none` an optional or sequence of nothing."""
    name, _, sizes = text.rpartition("=")  # names of tensors may contain "=", sizes do not
    try:
        if not name:
            raise ValueError
        if sizes.strip() == "none":
            return name, None
        return name, tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
    except ValueError:
        fix = "--shape image=1,3,224,224"
        raise error("E0002", f'--shape "{text}" is not of the form NAME=SIZE,SIZE,...', fix=fix) from None


def value(text: str) -> tuple[str, float | tuple[float, ...]]:
    """`name=20` -> (name, number); `name=0.6,0.7` -> (name, numbers)."""
    name, _, numbers = text.rpartition("=")
    try:
        if not name:
            raise ValueError
        row = tuple(float(number) for number in numbers.split(","))
    except ValueError:
        fix = "--value min_size=20"
        raise error("E0002", f'--value "{text}" is not of the form NAME=NUMBER,NUMBER,...', fix=fix) from None
    return name, row if "," in numbers else row[0]


def math_mode(text: str) -> str:
    """`exact`, `fast` or `fast=1e-3`, checked."""
    if math_bound(text) is None:
        title = f'--math "{text}" is neither exact nor fast, nor fast=BOUND with a bound between 0 and 1'
        raise error("E0002", title, fix="--math fast=1e-3")
    return text


def bytes_of(text: str) -> int:
    """`96K`, `2M` or a number of bytes."""
    unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    digits = text if unit == 1 else text[:-1]
    if not digits.isdecimal() or not int(digits):
        raise error("E0002", f'"{text}" is no number of bytes', fix="96K, 2M or 65536")
    return int(digits) * unit


def bytes_or_none(text: str) -> int:
    """The same, or 0."""
    return 0 if text.strip("0") == "" != text else bytes_of(text)


def address(text: str) -> int:
    """`0x90000000`, or a number."""
    try:
        return int(text, 0)
    except ValueError:
        raise error("E0002", f'"{text}" is no address', fix="0x90000000") from None


def pool(text: str) -> tuple[str, int]:
    """`sram=96K` -> (name, bytes)."""
    name, equals, size = text.partition("=")
    if not equals or not name:
        raise error("E0002", f'--pool "{text}" is not of the form NAME=BYTES', fix="--pool sram=96K")
    return name, bytes_of(size)


def place(text: str) -> tuple[str, str]:
    """`softmax=cpu` -> (name, place)."""
    name, _, where = text.rpartition("=")
    if not name or not where:
        raise error("E0002", f'--device-for "{text}" is not of the form NAME=PLACE', fix="--device-for softmax=cpu")
    return name, where


def size_option(flag: str, help_: str) -> Callable[[F], F]:
    """An option that takes a number of bytes."""
    return click.option(flag, type=bytes_of, metavar="BYTES", help=help_)


def _limit_constants(context: click.Context, _option: click.Parameter, size: int) -> None:
    """--max-constant-bytes, for as long as the command runs."""
    context.with_resource(memory_for(size))


shape_option = click.option(
    "--shape", "shapes", multiple=True, type=shape, metavar="NAME=SIZES",
    help="Sizes of an input that the model leaves open: image=1,3,224,224.",
)  # fmt: skip
dim_option = click.option(
    "--dim", "dims", multiple=True, type=dim, metavar="NAME=SIZE", help="Size of a named dimension: batch=1."
)


value_option = click.option(
    "--value", "values", multiple=True, type=value, metavar="NAME=NUMBERS",
    help="Make an input of an ONNX or TensorFlow model a constant, on which sizes and loops may depend.",
)  # fmt: skip


def untuned_model_options(function: F) -> F:
    """What `compile`, `verify` and `tune` have in common: how a model is compiled."""
    for option in reversed(
        (
            click.option("--target", "-t", default="host", metavar="NAME|FILE", show_default=True,
                         help="Machine to compile for; `sterna targets` lists them."),
            click.option("--host", metavar="NAME|FILE",
                         help="For targets with a device (OpenCL): the target of the kernels that stay on the CPU. "
                         "Default: this machine."),
            click.option("--device-for", multiple=True, type=place, metavar="NAME=PLACE",
                         help="For these targets: run a node or kernel on the CPU (cpu), or on the device (opencl, "
                         "cuda, metal, webgpu) against the estimate; * stands for any text."),
            shape_option,
            dim_option,
            value_option,
            click.option("--generator", "-g", type=click.Choice(list(GENERATORS)), default=DEFAULT, show_default=True,
                         help="Generate C and call a C compiler, or generate code in this process with LLVM."),
            click.option("--cc", "compiler", default="zig", metavar="zig|clang|gcc|PATH", show_default=True,
                         help="C compiler that the C generator calls."),
            click.option("--weights", type=click.Choice(["fp32", "fp16", "bf16"]), default="fp32", show_default=True,
                         help="Store the weights rounded to 16 bits; computation stays in fp32."),
            click.option("--math", type=math_mode, default="exact", show_default=True, metavar="exact|fast[=BOUND]",
                         help="fast: compute otherwise than the model says where that is faster, as long as no output "
                         "differs by more than BOUND (1e-3) of its largest magnitude, which is measured."),
            threads_option("Threads that the model will probably run on: a hint, not a limit."),
            click.option("--max-constant-bytes", type=click.IntRange(min=1), default=MOST_CONSTANT_BYTES,
                         show_default=True, metavar="N", expose_value=False, callback=_limit_constants,
                         help="What constants may take while the model is compiled; it is refused if it needs more."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def model_options(function: F) -> F:
    """The same, of commands that take what was tuned."""
    tuning = click.option(
        "--tuning/--no-tuning", default=True, show_default=True,
        help="Compile kernels as `sterna tune` has found them to be faster.",
    )  # fmt: skip
    return untuned_model_options(tuning(function))


def threads_option(help_: str) -> Callable[[F], F]:
    """--threads."""
    return click.option(
        "--threads", type=click.IntRange(1, MAX_THREADS), default=1, show_default=True, metavar="N", help=help_
    )


def seed_option(help_: str) -> Callable[[F], F]:
    """--seed."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help=help_)


class Number(click.FloatRange):
    """A number within bounds; not NaN, which is in every range, and not infinite."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


on_option = click.option(
    "--on", metavar="DEVICE",
    help="Run it elsewhere: rpc://HOST, where `sterna rpc serve` runs; node or chromium, for bundles for browsers, in "
    "chromium for webgpu, too; serial:BOARD.toml, firmware on a board behind a serial line; or qemu:TARGET|BOARD, an "
    "emulator of that target or board (mps2-an386): instructions of firmware are counted, other times are the "
    "emulator's own.",
)  # fmt: skip


@contextlib.contextmanager
def opened(bundle: Path, threads: int, on: str | None) -> Iterator[Bundle]:
    """A bundle that is loaded here, or where --on says."""
    if on is None:
        try:
            loaded = load(bundle, threads)
        except SternaError as problem:
            raise _with_emulator(problem, bundle) from None
        with loaded:
            yield loaded
        return
    with on_device(on, needed(str(bundle))), load(bundle, threads) as loaded:
        yield loaded


def on_device(on: str, kinds: tuple[str, ...]) -> contextlib.AbstractContextManager[None]:
    """Within it, bundles for devices of these kinds are loaded where --on says.

    Raises:
        SternaError: as of `emulate.devices.device` and `check_devices`.
    """
    from sterna.emulate.devices import check_devices, device  # noqa: PLC0415 (brings the compiler)

    check_devices(on, kinds)
    return device(on)


def _with_emulator(problem: SternaError, bundle: Path) -> SternaError:
    """Why a bundle cannot be loaded here, with the emulator or engine that can, where there is one."""
    from sterna.emulate.devices import device_of  # noqa: PLC0415 (brings the compiler)

    try:
        name = json.loads((bundle / "graph.json").read_bytes())["target"]["name"]
        device = device_of(load_target(name)) if problem.codes == ("E0507",) else None
    except (SternaError, OSError, ValueError, LookupError, TypeError, RecursionError):
        return problem
    [one] = problem.diagnostics
    if device is None or f"--on {device[1]}" in fix_text(one.fix or "", "cli"):
        return problem
    further = Advice(one.fix or "", f"; or run it in {device[0]}: --on {device[1]}")
    return SternaError(replace(one, fix=further))


signature_option = click.option(
    "--signature", metavar="NAME",
    help="Signature of the model, where its format has some (TensorFlow Lite). Default: its first graph.",
)  # fmt: skip
weights_file_option = click.option(
    "--weights-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Weights of a model in two files (Caffe, DarkNet, Keras, MXNet). Default: the file beside it.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
