"""Products of warpgroups, which multiply factors where they lie: what the strategy makes of them, by the interpreter in
random orders of threads and by the library in place of NVIDIA's driver; what may go wrong is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sterna.codegen import ptx
from sterna.codegen.generators import KernelSet, source
from sterna.errors import SternaError
from sterna.intrinsics import FRAGMENTS
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te.tensor import Kernel
from support.bound_axes import compare
from support.cuda_host import CUDA
from support.fragment_products import convolution, feeds, product
from support.ptx_on_cpu import translate

HOPPER = load_target("cuda-sm90a")
#: So that a few tiles are enough.
SMALL = replace(HOPPER, device=None, threads=replace(HOPPER.threads, multiprocessors=1))  # type: ignore[type-var]
WARPGROUPS = [i for i in FRAGMENTS.values() if i.tiles is not None and i.tiles.in_memory]


def proposed(kernel: Kernel) -> Schedule:
    s = propose(kernel, Context(SMALL))
    assert s is not None
    return s


def multiplies(kernel: Kernel) -> list[str]:
    """The intrinsics of warpgroups that a kernel is made of."""
    body = finish(lower(proposed(kernel))).body
    tiles = (s.intrinsic for s in P.walk(body) if isinstance(s, P.Tiles))
    return [i.name for i in tiles if i in WARPGROUPS]


@pytest.mark.parametrize("right", ["row", "col"])
@pytest.mark.parametrize("left", ["row", "col"])
def test_products(left: str, right: str) -> None:
    """Of matrices that lie either way, and a tile of which reaches beyond the result."""
    several = left != right  # steps, and orders of threads
    kernel = product(72, 40, 128 if several else 64, (left, right))
    assert multiplies(kernel) == [f"wgmma.f16.n64.{left}.{right}"]
    compare(proposed(kernel), None, tolerance=0, orders=1 + several, feeds=feeds(kernel))


def test_bfloat16_and_batches() -> None:
    kernel = product(64, 64, 64, batch=2, dtype="bfloat16")
    assert multiplies(kernel) == ["wgmma.bf16.n64.row.row"]
    compare(proposed(kernel), None, tolerance=0, orders=1, feeds=feeds(kernel))


def test_channels_are_the_depth() -> None:
    kernel = convolution(8, 64, 64, 3, 1)
    assert multiplies(kernel) == ["wgmma.f16.n64.row.row"]
    compare(proposed(kernel), None, tolerance=0, orders=1, feeds=feeds(kernel))


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (product(64, 64, 96), "zeros would fill up a step"),
        (product(64, 60, 64), "columns are no whole runs"),
        (convolution(8, 3, 64, 3, 1), "the windows of three channels lie in no runs"),
        (product(64, 64, 64, dtype="tf32"), "TF32"),
    ],
    ids=["depth", "columns", "channels", "tf32"],
)
def test_others_are_subgroups(kernel: Kernel, why: str) -> None:
    assert multiplies(kernel) == [], why
    assert any(isinstance(s, P.Tiles) for s in P.walk(finish(lower(proposed(kernel))).body))


def test_few_tiles_are_subgroups() -> None:
    """A tile of 64 x 64 for each of sixteen multiprocessors of 132 would leave the others idle."""
    s = propose(product(256, 256, 1024), Context(HOPPER))
    assert "wgmma" not in str(saved.to_json(s.steps))  # type: ignore[union-attr]


@pytest.mark.parametrize("intrinsic", WARPGROUPS, ids=[i.name for i in WARPGROUPS])
def test_every_intrinsic_in_ptx(intrinsic: object) -> None:
    """What is written has as many sums as threads hold, descriptors for both factors, and says how these lie."""
    assert intrinsic in WARPGROUPS
    (found,) = (i for i in WARPGROUPS if i is intrinsic)
    left, right = found.settings["orders"]
    kernel = product(128, found.lanes, 64, (left, right), dtype=found.operands[0])
    large = tuple(replace(m, bytes=200 << 10) if m.name == "shared" else m for m in SMALL.memories)
    s = propose(kernel, Context(replace(SMALL, memories=large)))
    assert s is not None
    program = finish(lower(s))
    verify_threads(program)
    text = ptx.source(KernelSet("model", [program], [()]), replace(SMALL, memories=large))
    turned = rf"{int(left == 'col')}, {int(right == 'row')}"
    dtype = found.settings["type"]
    registers = rf"\{{(?:%r\d+,? ?){{{found.lanes // 2}}}\}}"
    shape = rf"m64n{found.lanes}k16\.f32\.{dtype}\.{dtype}"
    assert len(re.findall(rf"{shape} {registers}, %rd\d+, %rd\d+, on, 1, 1, {turned};", text)) == 4
    before = re.findall(r"fence\.proxy\.async\.shared::cta;\n(?:\s*//.*\n)*\s*(\S+)", text)
    assert set(before) == {"bar.sync"}
    assert len(before) == text.count("bar.sync")


def waits_for_products(program: P.Function) -> list[int]:
    return [s.in_flight for s in P.walk(program.body) if isinstance(s, P.Settle)]


def settled(program: P.Function, last: P.Settle | None = None, within: int = 1) -> P.Function:
    """A pipeline's program with other waits for products: behind the loop, and how many go on in it."""

    def changed(s: P.Stmt) -> P.Stmt:
        if isinstance(s, P.Settle):
            return P.Settle(within) if s.in_flight else last or P.seq()
        return P.map_children(s, changed)

    return replace(program, body=changed(program.body))


def test_a_product_goes_on_while_the_next_step_begins() -> None:
    """With four slots and more; the program is refused if it did so for longer, or if its end were not waited for."""
    s = propose(product(64, 64, 384), Context(replace(SMALL, device=HOPPER.device)))
    assert s is not None
    program = finish(lower(s))
    assert waits_for_products(program) == [1, 0]
    verify_threads(settled(program, P.Settle()))
    with pytest.raises(SternaError, match=r"E0306(.*\n)*.*acc.* is used before its product is waited for") as problem:
        verify_threads(settled(program))
    assert "is never waited for" in str(problem.value)
    with pytest.raises(SternaError, match=r"E0306(.*\n)*.*is written before the product that .* has ended"):
        verify_threads(settled(program, P.Settle(), 2))
    assert waits_for_products(finish(lower(proposed(product(64, 64, 64))))) == [0]


def test_what_does_not_lie_in_blocks_is_refused() -> None:
    """Rows of a block with room behind them: an instruction would read what is there."""
    s = proposed(product(64, 64, 64))
    s.pad_rows("acc_left", 8)
    with pytest.raises(SternaError, match=r"wgmma\.f16\.n64\.row\.row.*acc_left.*does not lie in blocks"):
        lower(s)


def test_cuda_has_no_words_for_them(tmp_path: Path) -> None:
    program = finish(lower(proposed(product(64, 64, 64))))
    with pytest.raises(SternaError, match=r"E0205.*fragments of matrices, which wgmma\.f16\.n64\.row\.row multiplies"):
        source(KernelSet("model", [program], [()]), replace(CUDA.target, name="cuda-sm90a"))


def test_the_translation_knows_what_is_fenced() -> None:
    """The stand-in for a GPU refuses products of what was written without a fence before the barrier."""
    program = finish(lower(proposed(product(64, 64, 64))))
    text = translate(ptx.source(KernelSet("model", [program], [()]), SMALL))
    assert "cuda_now->unseen = false;" in text
    assert "meet_before_products();" in text


def test_all_threads_of_a_warp_come_to_them() -> None:
    """LLVM knows of no inline assembly what it does: that no branch may come before it is said of each."""
    text = ptx.entry_assembly(finish(lower(proposed(product(64, 64, 64)))), SMALL)
    written = [line for line in text.splitlines() if "asm sideeffect" in line]
    assert len(written) > 1
    assert all(line.endswith(" convergent") for line in written)
