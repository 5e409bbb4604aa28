"""A schedule: a list of steps applied to a kernel.

    s = Schedule(kernel)
    s.split("out", "w", 14)
    s.compute_at("conv", "out", "w.o", scope=REGISTER)
    s.vectorize("out", "c.i")
    s.steps            # tuple[Step]; `saved.apply(kernel, steps)` gives the same schedule again

Every method appends one `Step`, so a schedule is exactly its steps. An illegal step raises a coded error (E03xx) that
names the step and what is there instead.

Axes are named by strings: those of the stage's tensor expression, and those that steps derive from them:
`split("s", "w", 4)` makes `w.o` and `w.i`, `fuse("s", "h", "w")` makes `h+w`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import prod

import numpy as np

from sterna.intrinsics import INTRINSICS, Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import Atom, as_int, of
from sterna.ir.memory import FRAGMENT, REGISTER, SCRATCH, STACK, STATE, Memory, Scope
from sterna.schedule.copies import CopySteps
from sterna.schedule.decisions import (
    Ahead,
    Derived,
    Fuse,
    Packing,
    Split,
    StageSchedule,
    Tensorized,
    parts_of,
)
from sterna.schedule.matching import match
from sterna.schedule.matrices import copied, matrices, multiplied
from sterna.schedule.products import factors
from sterna.schedule.rewriting import (
    constant_sum,
    factored,
    is_row,
    negation,
    redirect,
    restored_with,
    sum_with,
    widened,
    widened_bits,
    with_fused_axes,
    with_longer_rows,
    with_other_sign,
    with_rest,
)
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.conditions import needed
from sterna.te.couples import couples, restored, sum_of_couples
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Kernel, Tensor

#: Where any target lets a stage be placed; memories of its own come on top.
SCOPES: dict[str, Scope] = {scope.name: scope for scope in (REGISTER, STACK, SCRATCH, STATE, FRAGMENT)}
#: Types that `narrow` stores constants in.
NARROW = dtypes.HALVES


class Schedule(CopySteps):
    """A kernel and the steps applied to it. See the module's docstring."""

    def __init__(
        self, kernel: Kernel, intrinsics: Mapping[str, Intrinsic] = INTRINSICS, memories: Sequence[Memory] = ()
    ):
        """
        Args:
            intrinsics: those that `tensorize` takes, by name: the package's own, or all that a target has.
            memories: of the target, which steps may name as scopes.
        """
        super().__init__(kernel)
        self.intrinsics, self.memories = intrinsics, tuple(memories)
        self.scopes: dict[str, Scope] = {**SCOPES, **{memory.name: memory for memory in memories}}
        self.packings: dict[str, Packing] = {}
        self.replaced: dict[str, Derived] = {}
        self.derived: dict[str, Derived] = {}
        self.narrowed: dict[str, Tensor] = {}

    # -- loops that follow from what a stage computes
    def tensorize(self, stage: str, *arguments: str) -> None:
        """Computes the innermost axes by a hardware intrinsic, whose name comes last; the stage must be what its
        behaviour says.

        The axes are given in the order of the behaviour's, those reduced last. Each stands for one of the behaviour and
        has as many iterations, and the stage's operations and types are the behaviour's.

        A dot product takes two: the `lane`, of as many iterations as it has lanes (fewer in a tail, whose other lanes
        are idle), and the `group`, reduced, of as many as it adds up per lane. Where a factor has a narrower type than
        the operand it is widened; a tail of the group reads zeros.

        A product of tiles takes four: `row` (at most its rows), `lane`, and, reduced, `word` (at most its words) and
        `group`. Its accumulators are tiles of the hardware while the reduction runs, and stored after it. Where rows
        are left over, the last tile begins earlier and computes some of them again; lanes beyond the last are computed
        and left out, so the right factor must be packed with room for them.

        Of an intrinsic over memory no axis may have a tail. What stands for an operand is an element of a tensor.
        """
        *axes, intrinsic = arguments
        s: StageSchedule = self._step("tensorize", stage, *arguments)
        for axis in axes:
            self._leaf(s, axis)
        declared = self.intrinsics.get(intrinsic)
        if declared is None:
            self._illegal(f"there is no intrinsic {intrinsic}", f"one of {', '.join(self.intrinsics)}")
        reduced = [axis in s.reduction_leaves for axis in axes]
        if s.leaves[-len(axes) :] != axes or reduced != [a.reduction for a in declared.axes]:
            names = ", ".join(f"{a.name} (reduced)" if a.reduction else a.name for a in declared.axes)
            why = f"{', '.join(axes)} are not the innermost axes of {s.leaves}, to be {names}"
            self._illegal(why, "reorder")
        for axis, own in zip(axes, declared.axes, strict=True):
            most, have = int(own.extent), s.iterations(axis)
            if have is None or not (have <= most if own.name in declared.shorter else have == most):
                self._illegal(f"{axis} does not have {most} iterations", f"split an axis by {most}")
        done = Tensorized(declared, tuple(axes))
        roles: dict[Atom, frozenset[str]] = {
            a: frozenset(done.role(leaf) for leaf in s.leaves_of(a.name) & {*axes}) for a in s.axes
        }
        found = match(s.body, declared, roles)
        if isinstance(found, str):
            why = f"{stage} does not compute what {intrinsic} does: {found}"
            self._illegal(why, "tensorize a stage of its operations, types and axes")
        if not declared.accumulates and (outer := s.reduction_leaves & {*s.leaves} - {*axes}):
            why = f"{intrinsic} does not add to what is there, and {min(outer)} is reduced outside of it"
            self._illegal(why, "reduce within it alone, or use one that accumulates")
        for axis in axes:
            s.annotations[axis] = "tensorized"
        s.tensorized = done

    def partition(self, stage: str, *axes: str) -> None:
        """Computes a stage part by part: each part is what is left of its domain between the positions along these axes
        at which the stage's conditions change (loop partitioning), so that no element asks for what its part settles.
        A stage that pads another one becomes loops over the border and loops over the interior. Where sums are placed
        within the stage, their conditions count too, and in each part they add up what is not zero there: of a
        convolution of a padded image, the taps that do not read padding alone."""
        s: StageSchedule = self._step("partition", stage, *axes)
        own = [a.name for a in s.tensor.axes]
        if stray := [a for a in axes if a not in own]:
            self._illegal(f"{stray[0]} is not an axis of the elements of {stage}", f"its axes: {', '.join(own)}")
        if isinstance(s.body, Reduce):
            self._illegal(f"{stage} is a reduction", "partition the element-wise stage that it reads")
        if open_ends := [a.name for a in s.tensor.axes if a.name in axes and not a.extent.is_const]:
            self._illegal(f"the extent of {open_ends[0]} is not known", "partition axes of constant extents")
        s.partitioned = axes

    def clip(self, stage: str, axis: str) -> None:
        """Lets the loop over a reduced axis of a sum of products begin and end where a factor that pads can be other
        than zero, for the elements that are computed together: of a window over a padded row, the taps that some
        element of a tile reads within the row."""
        s: StageSchedule = self._step("clip", stage, axis)
        self._leaf(s, axis)
        body = s.body
        if not isinstance(body, Reduce) or axis not in s.reduction_leaves or body.combiner != "sum":
            self._illegal(f"{axis} is not added up", "name a reduced axis of a sum")
        if not any(axis in (a.name for a in e.symbols() if isinstance(a, Axis)) for e in needed(body.a)):
            self._illegal(f"no factor of {stage} is zero at the ends of {axis}", "clip where one pads")
        s.clipped += (axis,)

    # -- storage and placement
    def inline(self, stage: str) -> None:
        """Computes the stage anew wherever it is read."""
        s = self._step("inline", stage)
        if isinstance(s.body, Reduce) or stage in self.outputs:
            self._illegal("only an element-wise intermediate stage can be inlined", "use compute_at")
        s.inlined = True

    def compute_at(self, stage: str, consumer: str, axis: str, scope: Scope | str = STACK) -> None:
        """Computes what one iteration of the consumer's axis needs, at its start, into storage of the given scope: by
        itself or, as in saved steps, by its name."""
        name = str(scope)
        s = self._step("compute_at", stage, consumer, axis, name)
        self._leaf(self._stage(consumer), axis)
        if name not in self.scopes:
            self._illegal(f"unknown scope {name}", f"one of {', '.join(self.scopes)}")
        found = self.scopes[name]
        if stage in self.outputs:
            self._illegal("an output is computed for itself", "use cache_write")
        carries = () if self.kernel.scan is None else self.kernel.scan.carries
        if found.is_allocated != any(stage == carry.next.name for carry in carries):
            self._illegal(f"{stage} in scope {name}", "the next state of a recurrence, and no other stage, is a state")
        s.attach, s.scope = (consumer, axis), found

    def transfer(self, stage: str, asynchronous: bool = False) -> None:
        """Moves the elements of a stage that only copies another, or has zeros in their place, as `cache_read`,
        `cache_write` and `as_matrices` make it, by `Copy`: the only way into a memory that loads do not reach.

        Args:
            asynchronous: the copies go on while what follows runs, until the first use of what they move.
        """
        s: StageSchedule = self._step("transfer", stage, *([True] if asynchronous else []))
        if not isinstance(read := copied(s.body), Load) or read.dtype != s.tensor.dtype:
            self._illegal(f"{stage} computes its elements", "transfer what cache_read or cache_write lets copy")
        if s.turned:
            self._illegal(f"rows of {stage} are turned, so that no neighbours are", "pad_rows in place of swizzle")
        s.transferred, s.asynchronous = True, asynchronous

    def rfactor(self, stage: str, axis: str, outermost: bool = False) -> str:
        """Factors a reduction: a new stage `<stage>_rf` keeps one partial result per iteration of `axis` (the inner
        part of a split reduction axis, or of several fused), which the stage then combines over an axis `lane`. The
        new stage's last axis is that one, or the first (`outermost`). What combines the lanes can be factored again."""
        s = self._step("rfactor", stage, axis, *([True] if outermost else []))
        reduction = s.body
        if not isinstance(reduction, Reduce) or reduction.index is not None:
            self._illegal("the stage is not a plain reduction", "rfactor applies to sums, products, minima and maxima")
        fuses, (split,) = s.relations[:-1], s.relations[-1:] or (None,)
        if not (isinstance(split, Split) and split.inner == axis and axis in s.reduction_leaves) or not all(
            isinstance(r, Fuse) for r in fuses
        ):
            self._illegal(
                f"{axis} is not the inner part of the only split",
                "fuse reduction axes or not, split one, then rfactor its inner part",
            )
        if fuses and not all(a.extent.is_const for a in reduction.axes):
            self._illegal("the number of iterations that are fused is not known", "split an axis without fusing it")
        reduction = with_fused_axes(reduction, [r for r in fuses if isinstance(r, Fuse)])
        parent = next(a for a in reduction.axes if a.name == split.parent)
        numbered = (f"{stage}_rf{n if n > 1 else ''}" for n in count(1))
        name = next(candidate for candidate in numbered if candidate not in self.stages)
        partial, tail, s.body = factored(s.tensor, reduction, parent, split.factor, name, outermost)
        self._add_stage(partial)
        if tail is not None:
            self.stages[name].relations.append(tail)
        s.leaves = [a.name for a in s.axes]
        s.relations, s.annotations, s.across = [], {}, {}
        return name

    def as_matrices(
        self,
        stage: str,
        batch: Sequence[str],
        folded: Sequence[str],
        depth: int,
        turned: Sequence[bool] = (False, False),
        swapped: bool = False,
        run: int = 1,
    ) -> tuple[str, str, str]:
        """Computes a sum of products as a product of matrices (implicit GEMM): stages `<stage>_left` and `_right` have
        their elements, `<stage>_sums` the products, of axes `row`, `column` and, reduced, `depth`; returns their names.
        The stage itself is element-wise then.

        Its last axis are the columns, and all others are rows, but those of a `batch`, of which each has matrices of
        its own; the left factor does not depend on the columns, the right one not on the rows.

        Args:
            folded: the reduced axes that become `depth`, rounded up to a multiple of a number by zeros; others stay.
            turned: whether the left matrix has the dimensions (depth, row), the right one (column, depth).
            swapped: whether the second factor is the left one.
            run: terms side by side that are copied together, all of them or none are zeros: a part of those there are.
        """
        turns = bool(turned[0]), bool(turned[1])
        given = [list(batch), list(folded), depth, list(turns), swapped, *([run] if run > 1 else [])]
        s: StageSchedule = self._step("as_matrices", stage, *given)
        pair, reduction = multiplied(s.body), s.body
        if pair is None or not isinstance(reduction, Reduce):
            self._illegal(f"{stage} is no sum of products", "as_matrices applies to those")
        if s.relations or s.annotations or s.attach is not None or stage in self.outputs:
            self._illegal(f"{stage} has steps of its own already, or is an output", "cache_write, then as_matrices")
        own, inner = {a.name: a for a in s.tensor.axes[:-1]}, {a.name: a for a in reduction.axes}
        inside = [a for name, a in inner.items() if name in folded]
        rows = [axis for name, axis in own.items() if name not in batch]
        if not all(a.extent.is_const for a in reduction.axes):
            self._illegal("the number of its elements is not known", "as_matrices applies to constant extents")
        if stray := [*({*batch} - own.keys()), *({*folded} - inner.keys())] or ([] if folded else ["depth"]):
            self._illegal(f"{stray[0]} is no axis for that", "a batch of the stage's axes, folded of those reduced")
        a, b = pair[::-1] if swapped else pair
        if a.dtype != b.dtype or s.tensor.axes[-1] in E.axes_of(a) or not E.axes_of(b).isdisjoint(rows):
            self._illegal(f"the factors of {stage} are no matrices", "other batches, or swap them")
        if swapped:
            assert isinstance(reduction.a, E.Binary)
            reduction = replace(reduction, a=E.binary("mul", reduction.a.b, reduction.a.a))
        if run < 1 or depth % run or prod(int(a.extent) for a in inside) % run:
            self._illegal(f"its terms are no runs of {run}", "a number that divides them, and the depth")
        made = matrices(s.tensor, reduction, [own[n] for n in batch], inside, depth, turns, run)
        for matrix in (made.left, made.right, made.sums):
            self._add_stage(matrix)
        s.body, s.leaves = made.body, [a.name for a in s.tensor.axes]
        return made.left.name, made.right.name, made.sums.name

    def pack(self, tensor: str, factors: Mapping[int, int | Sequence[int]], order: Sequence[tuple[int, str]]) -> None:
        """Stores a constant in another order, done once at compile time. See `Packing`."""
        sizes = {d: (f,) if isinstance(f, int) else tuple(f) for d, f in factors.items()}
        blocks = [[d, f[0] if len(f) == 1 else list(f)] for d, f in sizes.items()]
        self._step("pack", tensor, blocks, [list(o) for o in order], known=False)
        source = next((p for p in self.kernel.params if p.name == tensor), None)
        if source is None:
            self._illegal(f"{tensor} is not a constant of this kernel", "pack applies to parameters")
        if tensor in self.packings or tensor in self.narrowed:
            self._illegal(f"{tensor} is stored in a form of its own already", "pack a tensor once, before narrow")
        if any(len(f) > 2 or f[0] % f[-1] for f in sizes.values()):
            self._illegal(f"factors {factors} do not divide one another", "one factor, or a multiple and the factor")
        now = self.stored_tensor(source)
        parts = {(d, p): n for d, size in enumerate(now.shape) for p, n in parts_of(int(size), sizes.get(d, ()))}
        expected = set(parts)
        if set(order) != expected or len(order) != len(expected):
            self._illegal(f"order {list(order)} does not name every dimension once", f"use each of {sorted(expected)}")
        shape = tuple(as_int(parts[d, p]) for d, p in order)
        packed = Tensor(f"{tensor}_packed", shape, now.dtype)
        packing = Packing(now, packed, tuple(sizes.items()), tuple((d, p) for d, p in order))
        self.packings[tensor] = packing
        for s in self.stages.values():
            s.body = redirect(
                s.body, now.name, lambda load: replace(load, tensor=packed, indices=packing.index(load.indices))
            )

    def narrow(self, tensor: str, dtype: str, finite: bool = False) -> None:
        """Stores a constant of float32 in a type of 16 bits, rounded to nearest, and widens it wherever it is read.

        Args:
            finite: it is known to be, and is widened by arithmetic on its bits: less than what any number takes where
                no instruction does it.
        """
        self._step("narrow", tensor, dtype, *([finite] if finite else []), known=False)
        source = next((p for p in self.kernel.params if p.name == tensor), None)
        if source is None or source.dtype != "float32":
            self._illegal(f"{tensor} is not a constant of float32", "narrow applies to parameters of that type")
        if dtype not in NARROW:
            self._illegal(f"{dtype} is no type to store weights in", f"one of {', '.join(NARROW)}")
        if tensor in self.narrowed:
            self._illegal(f"{tensor} is narrow already", "narrow a tensor once")
        now = self.stored_tensor(source)
        self.narrowed[tensor] = narrow = replace(now, dtype=dtype)
        widen = widened_bits if finite and dtype == "float16" else widened
        for s in self.stages.values():
            s.body = redirect(s.body, now.name, lambda load: widen(replace(load, tensor=narrow, dtype=dtype)))

    def negate(self, tensor: str) -> None:
        """Stores a constant of integers negated, and negates it again wherever it is read: for instructions that take
        the negative number, such as shifts by vectors of counts that shift left."""
        self._step("negate", tensor, known=False)
        source = next((p for p in self.kernel.params if p.name == tensor), None)
        if source is None or source.dtype not in dtypes.SIGNED:
            self._illegal(f"{tensor} is not a constant of signed integers", "negate applies to parameters of those")
        if tensor in self.packings or tensor in self.replaced:
            self._illegal(f"{tensor} is stored in a form of its own already", "negate a tensor once, before pack")
        self.replaced[tensor] = negated = Derived(negation(source))
        for s in self.stages.values():
            s.body = redirect(s.body, tensor, lambda load: E.unary("neg", replace(load, tensor=negated.stage)))

    def pad_rows(self, stage: str, elements: int, dimensions: int = 1) -> None:
        """Of a constant: stores it with so many zeros behind each row, so that rows begin where wide accesses do."""
        source = next((p for p in self.kernel.params if p.name == stage), None)
        if source is None:
            return super().pad_rows(stage, elements, dimensions)
        self._step("pad_rows", stage, elements, known=False)
        if elements < 1 or dimensions != 1 or len(source.shape) < 2 or self.stored_tensor(source) is not source:
            self._illegal(f"rows of {stage} cannot have {elements} elements more", "a matrix in no form of its own yet")
        self.replaced[stage], longer = with_longer_rows(source, elements)
        for s in self.stages.values():
            s.body = redirect(s.body, stage, lambda load: replace(load, tensor=longer))
        return None

    def offset(self, stage: str, tensor: str) -> None:
        """Reads a factor of a sum of products, bytes of one signedness, as bytes of the other.

        An int8 x is the uint8 (x xor 128) less 128, and a uint8 the int8 (x xor 128) plus 128; so the sum over x w is
        that over (x xor 128) w less (plus) 128 times the sum of w. The latter is computed at compile time (w must be a
        constant) and added where the stage is read.
        """
        s: StageSchedule = self._step("offset", stage, tensor)
        found = factors(s.body)
        reduction = s.body
        if found is None or not isinstance(reduction, Reduce):
            self._illegal(f"{stage} is not a sum of products of integers", "offset applies to those")
        sides = [n for n, e in enumerate(found) if isinstance(e, Load) and e.tensor.name == tensor]
        if len(sides) != 1 or found[sides[0]].dtype not in ("int8", "uint8"):
            self._illegal(f"{tensor} is not one factor of {stage}, of bytes", "name the factor to be read otherwise")
        x, w = found[sides[0]], found[1 - sides[0]]
        if not isinstance(w, Load) or w.tensor not in self.kernel.params:
            self._illegal("the other factor is not a constant", "offset before it is packed, and where it is constant")
        if stage in self.outputs:
            self._illegal("an output has no reader that could add the difference", "use cache_write")
        s.body, rest = with_other_sign(x, w, reduction)
        self._corrected(s, rest, lambda load, sums: E.binary("add", load, sums))

    def couple(self, stage: str, tensor: str, axis: str, bias: str = "") -> None:
        """Stores a constant factor of a sum of products of bytes two by two as numbers of 16 bits, for a processor that
        multiplies pairs of those: neighbours along a reduced axis, of which it has an even number.

        The stage becomes 256 times its sum, and what the formula of `te.couples` adds, which is computed at compile
        time, is taken off where it is read. The caller knows that the constant has no -128 and that the sum fits in 24
        bits.

        Args:
            bias: a constant that is added to the stage and read nowhere else, where the sum fits with it, too: both
                constants become one.
        """
        s: StageSchedule = self._step("couple", stage, tensor, axis, *([bias] if bias else []))
        found, reduction = factors(s.body), s.body
        if found is None or not isinstance(reduction, Reduce) or reduction.dtype != "int32":
            self._illegal(f"{stage} is not a sum of products in int32", "couple applies to those")
        sides = [n for n, e in enumerate(found) if isinstance(e, Load) and e.tensor.name == tensor]
        x, w = (found[1 - sides[0]], found[sides[0]]) if len(sides) == 1 else found
        source = next((p for p in self.kernel.params if p.name == tensor), None)
        own = next((a for a in reduction.axes if a.name == axis), None)
        if source is None or not isinstance(w, Load) or not isinstance(x, Load) or len(sides) != 1:
            self._illegal(f"{tensor} is not a constant that {stage} multiplies by a tensor", "name a constant factor")
        if (x.dtype, w.dtype) != ("int8", "int8") or tensor in self.packings or tensor in self.narrowed:
            self._illegal(f"{stage} multiplies {x.dtype} by {w.dtype}, or {tensor} is stored anew", "couple int8 first")
        even = own is not None and own.extent.is_const and int(own.extent) % 2 == 0
        if own is None or not even or of(own) not in w.indices:
            self._illegal(f"{axis} is no reduced axis of {tensor} with an even extent", "couple along such a one")
        if stage in self.outputs:
            self._illegal("an output has no reader that could take off what is added", "use cache_write")
        if s.leaves != [a.name for a in s.axes]:
            self._illegal(f"the loops of {stage} have been changed already", "couple before split and reorder")
        stored = couples(source, w.indices.index(of(own)), f"{tensor}_coupled")
        self.replaced[tensor] = Derived(stored)
        s.body, rest = sum_of_couples(x, w, Tensor(stored.name, stored.shape, stored.dtype), reduction, own)
        if not bias:
            negated = replace(rest, a=E.unary("neg", rest.a))
            self._corrected(s, negated, restored)
            return
        if bias != self.addend(stage) or of(s.tensor.axes[-1]) != w.indices[-1]:
            self._illegal(f"{bias} is not one constant for each sum of {stage}, added to it", "leave it out")
        total, _ = constant_sum(rest, s.tensor)
        self.replaced[bias] = merged = with_rest(next(p for p in self.kernel.params if p.name == bias), total)
        for reader in self.stages.values():
            reader.body = E.rewrite(reader.body, lambda e: restored_with(e, stage, merged.stage))

    def addend(self, stage: str) -> str:
        """The constant that is added to a stage where that is read, one element for each position along its last axis,
        and that nothing else reads; "" if there is none."""
        loads = [load for s in self.stages.values() for load in E.loads(s.body)]
        added = [found for s in self.stages.values() for e in E.walk(s.body) if (found := sum_with(e, stage))]
        if len(added) != 1 or sum(load.tensor.name == stage for load in loads) != 1:
            return ""
        ((read, other),) = added
        param = next((p for p in self.kernel.params if p is other.tensor), None)
        alone = sum(load.tensor.name == other.tensor.name for load in loads) == 1
        if param is None or not alone or param.dtype != read.dtype or param.name in self.replaced:
            return ""
        return param.name if param.shape and other.indices[-1] == read.indices[-1] and is_row(param) else ""

    def prefetch(self, stage: str, axis: str, tensor: str, part: str, rounds: Sequence[str]) -> None:
        """While a sum is computed, asks for the part of a packed constant that its reader needs next, evenly over the
        iterations of one of the sum's axes: see `Ahead`."""
        s: StageSchedule = self._step("prefetch", stage, axis, tensor, part, list(rounds))
        self._leaf(s, axis)
        packing = self.packings.get(tensor)
        if axis not in s.reduction_leaves or axis in s.annotations:
            self._illegal(f"{axis} is no loop of a sum", "name a reduced axis that stays a loop")
        if packing is None or packing.order[0][1] != "o":
            self._illegal(f"{tensor} does not lie in parts, one after the other", "pack it, outer parts first")
        if s.attach is None:
            self._illegal(f"{stage} has no reader whose loops could say what comes next", "compute_at first")
        reader = self._stage(s.attach[0])
        if stray := [a for a in (part, *rounds) if not reader.leaves_of(a)]:
            self._illegal(f"{stray[0]} is no axis of {reader.name}", f"its axes: {', '.join(reader.leaves)}")
        s.ahead = Ahead(tensor, axis, part, tuple(rounds))

    def stored_tensor(self, param: Tensor) -> Tensor:
        """What the loops read in place of a parameter."""
        packing, other = self.packings.get(param.name), self.replaced.get(param.name)
        now = param if other is None else other.stage
        return self.narrowed.get(param.name) or (packing.packed if packing is not None else now)

    def stored(self, constants: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The constants as the loops read them: replaced by others, packed, then those that are derived.

        Args:
            constants: one for every parameter of the kernel.
        """
        given = {p.name: array for p, array in zip(self.kernel.params, constants, strict=True)}
        packed = {n: self.replaced[n].apply(given) if n in self.replaced else a for n, a in given.items()}
        packed = {n: self.packings[n].apply(a) if n in self.packings else a for n, a in packed.items()}
        for name, tensor in self.narrowed.items():
            with np.errstate(over="ignore"):
                packed[name] = packed[name].astype(dtypes.to_numpy(tensor.dtype))
        return [*packed.values(), *(d.apply(given) for d in self.derived.values())]

    # -- inside
    def _corrected(self, s: StageSchedule, rest: Reduce, corrected: Callable[[Load, Load], E.Expr]) -> None:
        """Makes a sum of constants a constant of its own, and what reads the stage correct its elements by it."""
        derived, element_for = constant_sum(rest, s.tensor)
        self.derived[derived.stage.name] = derived
        for reader in self.stages.values():
            if reader is not s:
                reader.body = redirect(reader.body, s.name, lambda load: corrected(load, element_for(load)))
