"""The steps of a schedule that shape the loops of a stage: they cut, join and order its axes, and say who runs each."""

from __future__ import annotations

from typing import Any, NoReturn

from sterna.errors import Diagnostic, SternaError
from sterna.ir.integer import ZERO
from sterna.ir.threads import THREADS, VIRTUAL
from sterna.schedule.decisions import Fuse, Split, StageSchedule, Step
from sterna.te.expr import Cast, IndexValue, Reduce
from sterna.te.tensor import Kernel


class AxisSteps:
    """A kernel, the steps applied to it, and what they have decided about its stages.

    Attributes:
        outputs: names of the stages that are results of the kernel.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.steps: tuple[Step, ...] = ()
        self.stages: dict[str, StageSchedule] = {}
        for tensor in kernel.stages:
            assert tensor.body is not None
            names = [a.name for a in tensor.all_axes]
            if len(set(names)) != len(names):
                raise ValueError(f"stage {tensor.name} names an axis twice: {names}")
            self.stages[tensor.name] = StageSchedule(tensor, tensor.body, names)
        self.outputs = [t.name for t in kernel.outputs]

    # -- axes
    def split(self, stage: str, axis: str, factor: int, overhang: bool = False) -> tuple[str, str]:
        """axis -> (axis.o, axis.i), the inner one of `factor` iterations. A remainder becomes a tail of its own.

        Args:
            overhang: of an axis of an output, or of several fused: there is no tail, the last tile is as large as the
                others. All of it is computed, so that every thread takes part; what reads beyond a tensor reads its
                last element again, and what lies beyond the output is not stored.
        """
        s = self._step("split", stage, axis, factor, *([True] if overhang else []))
        self._leaf(s, axis)
        if overhang and (stage not in self.outputs or s.first_of(axis) not in (a.name for a in s.tensor.axes)):
            self._illegal(f"{axis} is no whole axis of an output", "let the tiles of an output overhang")
        if factor < 1:
            self._illegal(f"factor {factor} is not positive", "use a factor of at least 1")
        outer, inner = f"{axis}.o", f"{axis}.i"
        s.relations.append(Split(axis, outer, inner, factor, overhang))
        at = s.leaves.index(axis)
        s.leaves[at : at + 1] = [outer, inner]
        return outer, inner

    def fuse(self, stage: str, first: str, second: str, pitch: int = 0) -> str:
        """Two neighbouring axes -> one. Storage whose rows are `pitch` apart is walked through in one go: the second
        axis has as many iterations, and those beyond its own compute elements of an intermediate stage that nothing
        reads.
        """
        s = self._step("fuse", stage, first, second, *([pitch] if pitch else []))
        self._leaf(s, first)
        self._leaf(s, second)
        at = s.leaves.index(first)
        if s.leaves[at + 1 : at + 2] != [second]:
            self._illegal(f"{second} does not follow {first} in {s.leaves}", "reorder the axes first")
        if (first in s.reduction_leaves) != (second in s.reduction_leaves):
            self._illegal("one of the axes is reduced and the other is not", "fuse axes of one kind")
        width = 0
        if pitch:
            extent = next((a.extent for a in s.tensor.axes if a.name == second), ZERO)
            if stage in self.outputs or not extent.is_const or not 0 < int(extent) <= pitch:
                self._illegal(f"{second} has no pitch of {pitch}", "it is for a whole axis of an intermediate stage")
            width = int(extent)
        fused = f"{first}+{second}"
        s.relations.append(Fuse(fused, first, second, pitch, width))
        s.leaves[at : at + 2] = [fused]
        return fused

    def tile(self, stage: str, factors: dict[str, int]) -> tuple[list[str], list[str]]:
        """Splits several axes and moves the inner parts innermost; returns (outer, inner) names."""
        outer, inner = zip(*(self.split(stage, axis, factor) for axis, factor in factors.items()), strict=True)
        s = self.stages[stage]
        rest = [leaf for leaf in s.leaves if leaf not in outer and leaf not in inner]
        self.reorder(stage, *[leaf for leaf in s.leaves if leaf in rest or leaf in outer], *inner)
        return list(outer), list(inner)

    def reorder(self, stage: str, *axes: str) -> None:
        """Puts the axes named into this order, in the places that they hold now."""
        s = self._step("reorder", stage, *axes)
        for axis in axes:
            self._leaf(s, axis)
        places = sorted(s.leaves.index(a) for a in axes)
        if len(set(places)) != len(axes):
            self._illegal("an axis is named twice", "name each axis once")
        for place, axis in zip(places, axes, strict=True):
            s.leaves[place] = axis

    def unroll(self, stage: str, axis: str) -> None:
        self._annotate("unroll", stage, axis, "unrolled")

    def vectorize(self, stage: str, axis: str, whole: bool = False) -> None:
        """Makes the axis the lanes of vectors; it must be the innermost.

        Args:
            whole: the vectors of a tail are as wide as the others, with only their first lanes active.
        """
        s = self._annotate("vectorize", stage, axis, "vectorized", *((True,) if whole else ()))
        if whole:
            s.whole.add(axis)
        if axis in s.reduction_leaves:
            self._illegal(
                f"{axis} is reduced; lanes of a vector are independent", "use rfactor, then vectorize its new axis"
            )

    def by_lane(self, stage: str, axis: str, lanes: int) -> None:
        """Writes out a loop, as `unroll` does, and loads what its iterations repeat in all lanes of a vector, where it
        lies side by side in memory, as vectors of so many elements, of which each iteration takes a lane: the
        multiplication by an element of NEON. Loops written out within it take part. What is repeated is a number, or
        the group that a dot product takes."""
        s = self._annotate("by_lane", stage, axis, "lanes", lanes)
        if lanes < 2 or lanes & (lanes - 1):
            self._illegal(f"no vector has {lanes} elements", "use a power of two, of 2 at least")
        s.by_lane[axis] = lanes

    def parallel(self, stage: str, axis: str) -> None:
        """Makes the iterations the tasks of the kernel; only the outermost axis of an output, or of a stage within the
        steps of a recurrence. There workers wait for one another after every such stage."""
        s = self._annotate("parallel", stage, axis, "parallel")
        step = self.kernel.scan is not None and s.tensor.axes[0].extent == self.kernel.scan.length
        if s.leaves[1 if step else 0] != axis or not (step or stage in self.outputs):
            self._illegal(f"{axis} is not the outermost axis of an output", "reorder it outermost")
        if axis in s.reduction_leaves:
            self._illegal(f"{axis} is reduced; tasks must not write the same elements", "use rfactor")

    def bind(self, stage: str, axis: str, threads: str) -> None:
        """Gives each iteration of an axis to a thread of the task, along `thread.x`, `thread.y` or `thread.z`; or, as a
        virtual thread (`vthread`), to the thread that has all of them.

        A task has as many threads along an axis as the widest loop bound to it. What is placed within such a loop in
        registers or on the stack is each thread's own; in a memory that the threads share it is computed for all of
        them, and its own axes are bound again, so that they do it together. Barriers follow from who reads what.

        Virtual threads stand around the axes of real ones, where these are strided: of elements v * 16 + x, thread x
        has those of every v. Their loop moves inside all others and is written out, so that what is placed in the
        thread's loop is there once for all of them, and they share what they read (TVM's virtual threads).
        """
        s = self._annotate("bind", stage, axis, "unrolled" if threads == VIRTUAL else threads, threads)
        if threads not in (*THREADS, VIRTUAL):
            self._illegal(f"there is no axis of threads {threads}", f"one of {', '.join((*THREADS, VIRTUAL))}")
        if axis in s.reduction_leaves:
            self._illegal(f"{axis} is reduced; threads must not write the same elements", "use rfactor")
        if s.iterations(axis) is None:
            self._illegal(f"{axis} has no constant number of iterations", "split by a constant and bind the inner part")
        if threads == VIRTUAL:
            if taken := [r.name for r in self.stages.values() if r.attach == (stage, axis)]:
                self._illegal(f"{taken[0]} is placed in the loop of {axis}", "bind virtual threads before compute_at")
            s.leaves.remove(axis)
            last = bool(s.leaves) and s.annotations.get(s.leaves[-1]) in ("vectorized", "tensorized")
            s.leaves.insert(len(s.leaves) - last, axis)
        elif list(s.annotations.values()).count(threads) > 1:
            self._illegal(f"another axis of {stage} is bound to {threads}", "bind each to an axis of its own, or fuse")

    def across(self, stage: str, axis: str, threads: int) -> None:
        """Shares a reduced axis among the threads along `thread.x`, of which the task has that many: each combines its
        iterations in a register, then all of them combine what they have by exchanges within their subgroup, log2 of
        `threads` of them, after which every one has the result (M. Harris, Optimizing Parallel Reduction, 2007; a
        butterfly). No memory is shared, so no barrier follows.

        The stage is each thread's own, and all of them compute the same elements of it. It may be a sum, product,
        minimum or maximum, argmin or argmax.
        """
        s = self._annotate("across", stage, axis, "thread.x", threads)
        if not isinstance(s.body, Reduce) or axis not in s.reduction_leaves or s.body.combiner == "rescaled":
            self._illegal(f"{axis} is not reduced", "bind axes of elements, and share those of sums by across")
        if threads < 2 or threads & (threads - 1):
            self._illegal(f"{threads} threads do not exchange all they have in pairs", "use a power of two")
        if s.body.index is not None and not is_place(s.body):
            self._illegal(f"of equal values {stage} does not take the least place", "share sums, minima and maxima")
        if list(s.annotations.values()).count("thread.x") > 1:
            self._illegal(f"another axis of {stage} is bound to thread.x", "fuse both, then split")
        iterations = s.iterations(axis)
        if iterations is None or iterations > threads:
            why = f"{axis} has {iterations} iterations for {threads} threads"
            self._illegal(why, "share the inner part of a split")
        s.across[axis] = threads

    # -- inside
    def _stage(self, name: str) -> StageSchedule:
        if name not in self.stages:
            self._illegal(f"no stage {name}", f"stages: {', '.join(self.stages)}")
        return self.stages[name]

    def _step(self, primitive: str, stage: str, *arguments: Any, known: bool = True) -> Any:
        self.steps += (Step(primitive, stage, arguments),)
        return self._stage(stage) if known else None

    def _annotate(self, primitive: str, stage: str, axis: str, annotation: str, *more: Any) -> StageSchedule:
        s: StageSchedule = self._step(primitive, stage, axis, *more)
        self._leaf(s, axis)
        if axis in s.annotations:
            self._illegal(f"{axis} is {s.annotations[axis]} already", "annotate an axis once")
        if annotation == "vectorized" and s.leaves[-1] != axis:
            self._illegal(f"{axis} is not the innermost axis of {s.leaves}", "reorder it innermost")
        s.annotations[axis] = annotation
        return s

    def _leaf(self, s: StageSchedule, axis: str) -> None:
        if axis not in s.leaves:
            self._illegal(f"stage {s.name} has no axis {axis}", f"its axes now: {', '.join(s.leaves)}")

    def _illegal(self, why: str, fix: str) -> NoReturn:
        raise SternaError(
            Diagnostic("E0302", f"illegal schedule step {self.steps[-1]}: {why}", (f"kernel {self.kernel.name}",), fix)
        )


def is_place(reduction: Reduce) -> bool:
    """Whether argmin or argmax gives the position along its axes, counted through in their order, so that the first of
    equals has the least."""
    index, place = reduction.index, ZERO
    while isinstance(index, Cast):
        index = index.a
    for axis in reduction.axes:
        place = place * axis.extent + axis.var
    return isinstance(index, IndexValue) and index.index == place
