"""The steps of a schedule that make stages of their own: copies that are staged, and what is computed again."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import prod

from sterna.ir.integer import ZERO, Int, of
from sterna.schedule.axes import AxisSteps
from sterna.schedule.decisions import Packing, RaggedTail, StageSchedule
from sterna.schedule.online import Online, online, online_in_matrices, weighted_by_softmax
from sterna.schedule.products import contains, factors, multiplies
from sterna.schedule.rewriting import (
    copied,
    filled_up,
    folded,
    folded_at,
    gathered,
    in_runs,
    permuted,
    read_from,
    redirect,
    thinned,
    thinned_at,
)
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Tensor


class CopySteps(AxisSteps):
    """A kernel and the steps applied to it, those that make stages among them.

    Attributes:
        packings: of constants, by name.
    """

    packings: dict[str, Packing]

    def cache_read(self, tensor: str, consumer: str, dtype: str = "") -> str:
        """Makes the consumer read a copy of a tensor; returns the new stage, to be placed by compute_at.

        Args:
            dtype: a wider type that the copy has; the tensor is a factor of the consumer's sum of products then.
        """
        self._step("cache_read", tensor, consumer, *([dtype] if dtype else []), known=False)
        reader = self._stage(consumer)
        source = next((load.tensor for load in E.loads(reader.body) if load.tensor.name == tensor), None)
        if not isinstance(source, Tensor):
            read = sorted({x.tensor.name for x in E.loads(reader.body)})
            self._illegal(f"{consumer} does not read {tensor}", f"it reads {', '.join(read)}")
        axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(source.shape))
        element: E.Expr = source[tuple(of(a) for a in axes)]
        if dtype:
            multiplied = [e for e in factors(reader.body) or () if isinstance(e, Load) and e.tensor.name == tensor]
            if len(multiplied) != 1 or not contains(dtype, source.dtype):
                self._illegal(f"{tensor} is not one factor of {consumer}, narrower than {dtype}", "copy it as it is")
            element = E.cast(element, dtype)
        numbered = (f"{tensor}_local{n if n > 1 else ''}" for n in count(1))
        name = next(candidate for candidate in numbered if candidate not in self.stages)
        copy = Tensor(name, source.shape, element.dtype, axes, element)
        self._add_stage(copy)
        reader.body = read_from(reader.body, tensor, copy)
        return copy.name

    def cache_write(self, stage: str) -> str:
        """Moves the computation of a stage into a new one `<stage>_acc`, which the stage then copies: of an output, or
        of what threads share, whose sums are in registers then."""
        s = self._step("cache_write", stage)
        t = s.tensor
        inner = copied(t, s.body, f"{stage}_acc")
        self._add_stage(inner)
        # What remains of a factored reduction is the reduction's.
        self.stages[inner.name].relations += [r for r in s.relations if isinstance(r, RaggedTail)]
        s.body = inner[tuple(of(a) for a in t.axes)]
        s.leaves = [a.name for a in t.axes]
        s.relations, s.annotations = [], {}
        return inner.name

    def from_tiles(self, stage: str, row: str, lane: str) -> None:
        """Lets a stage that only copies another one, whose accumulators stay tiles of the hardware (scope "fragment" or
        "tile"), store them: one for each iteration of what is around its innermost axes, which have a tile's rows and
        lanes. So the sums of a task take no more memory than what is stored at a time.

        The loops around count off tiles as those of the sums do, threads the same ones."""
        s = self._step("from_tiles", stage, row, lane)
        for axis in (row, lane):
            self._leaf(s, axis)
        if not isinstance(s.body, Load) or s.body.dtype != s.tensor.dtype or s.transferred:
            self._illegal(f"{stage} computes its elements", "store what cache_read lets copy")
        if s.leaves[-2:] != [row, lane]:
            self._illegal(f"{row}, {lane} are not the innermost axes of {s.leaves}", "reorder")
        for axis in (row, lane):
            s.annotations[axis] = "tensorized"
        s.from_tiles = row, lane

    def by_runs(self, stage: str, many: int, *factors: int) -> tuple[str, ...]:
        """Makes a reduction read its terms from stages of their own, `<stage>_terms`, whose last axis are runs of
        `many` of them: placed in registers within the reduction's loop over runs, they are what one access of a thread
        brings. In place of its own axes, which are counted through in their order, the reduction has the axes `run` and
        `term`. Returns the stages.

        Args:
            factors: of a sum of products, the numbers of those that have such a stage, 0 or 1; none: the terms do.
        """
        s: StageSchedule = self._step("by_runs", stage, many, *factors)
        reduction = s.body
        if not isinstance(reduction, Reduce) or reduction.combiner == "rescaled":
            self._illegal(
                f"{stage} does not combine single terms", "by_runs applies to sums, extremes and their places"
            )
        if s.relations or s.annotations or s.attach is not None:
            self._illegal(f"{stage} has steps of its own already", "by_runs before them")
        if not all(a.extent.is_const for a in reduction.axes):
            self._illegal("the number of terms is not known", "by_runs applies to constant extents")
        terms = prod(int(a.extent) for a in reduction.axes)
        if many < 2 or terms % many or not terms:
            self._illegal(f"{terms} terms are no runs of {many}", "a divisor of their number")
        if not {*factors} <= ({0, 1} if multiplies(reduction) else set()):
            self._illegal(f"{stage} is no sum of products with the factors {factors}", "leave the factors out")
        made, s.body = in_runs(s.tensor, reduction, many, factors)
        for each in made:
            self._add_stage(each)
        s.leaves = [a.name for a in s.axes]
        return tuple(each.name for each in made)

    def gather(self, stage: str, tensor: str) -> str:
        """Makes a sum of products read a tensor, which is a factor of it, from a stage of its own, `<tensor>_terms`,
        with an element for every position of the axes that it is read by. Windows that overlap each have what they read
        then, its terms side by side from the beginning of a row on. Returns the stage."""
        s: StageSchedule = self._step("gather", stage, tensor)
        found = [e for e in factors(s.body) or () if isinstance(e, Load) and e.tensor.name == tensor]
        if len(found) != 1 or not isinstance(s.body, Reduce):
            self._illegal(f"{tensor} is not one factor of {stage}", "name a tensor that a sum of products reads once")
        made, s.body = gathered(s.tensor, s.body, found[0], f"{tensor}_terms")
        self._add_stage(made)
        return made.name

    def fill_up(self, stage: str, axis: str, multiple: int) -> None:
        """Lets a reduced axis have so many more iterations that they are a multiple of a number. The stage is a sum of
        products of integers by a constant that is packed in such multiples along the axis, and has zeros behind its
        last position: what the other factor has there does not matter. It is read where tiles of the output overhang
        (`split`), which keeps what is read within its tensor."""
        s: StageSchedule = self._step("fill_up", stage, axis, multiple)
        reduced = next((a for a in s.axes if a.name == axis and a.reduction), None)
        if reduced is None or not isinstance(s.body, Reduce) or not reduced.extent.is_const or multiple < 2:
            self._illegal(f"{axis} of {stage} by {multiple}", "a reduced axis of a known size, by 2 at least")
        if s.leaves != [a.name for a in s.axes]:
            self._illegal(f"{stage} has steps of its own already", "fill it up before them")
        read = {e.tensor.name: e for e in factors(s.body) or () if isinstance(e, Load)}
        whole = (p for p in self.packings.values() if p.packed.name in read and s.tensor.dtype == "int32")
        position = of(reduced)
        if not any({position // multiple, position % multiple} <= {*read[p.packed.name].indices} for p in whole):
            self._illegal(f"no constant has zeros behind the last {axis}", f"pack one by {multiple} along it")
        s.body = filled_up(s.body, reduced, multiple)
        s.leaves = [a.name for a in s.axes]

    def online(self, stage: str, scores: str, block: int, columns: int, groups: int) -> str:
        """Computes a sum that is weighted by the softmax of the stage `scores` block by block of its terms, so that no
        row of scores is ever whole: see `schedule.online`. Returns the rescaled sums over the blocks, named
        `<stage>_sums`; `<stage>_scores`, `_peak`, `_powers` and `_part` are what a block has. All are to be placed; the
        stage itself is element-wise then.

        Args:
            block: terms of a block; columns: of the stage's last axis that share a sum of the weights; groups: of so
                many columns, each of which has every so many-th.
        """
        s: StageSchedule = self._step("online", stage, scores, block, columns, groups)
        self._stage(scores)
        if s.relations or s.annotations or s.attach is not None:
            self._illegal(f"{stage} has steps of its own already", "begin with online")
        found = weighted_by_softmax(s.body, scores, self.stages)
        if found is None or min(block, columns) < 1 or not _covers(columns * groups, s.tensor.shape[-1]):
            self._illegal(f"{stage} is no sum weighted by the softmax of {scores}", "name the product and its scores")
        return self._blocks(s, online(s.tensor, found, block, columns, groups))

    def online_in_matrices(self, stage: str, scores: str, block: int, groups: int, multiple: int, dtype: str) -> str:
        """The same with the exponentials and values of a block as matrices of 16-bit floats; `<stage>_values` and
        `_weight`, the sums of exponentials, are stages of a block, too.

        Args:
            block: terms of a block; groups: of columns, every so many-th of which share a sum of the weights.
            multiple: that the columns of the matrices are filled up to; dtype: of the matrices.
        """
        s: StageSchedule = self._step("online_in_matrices", stage, scores, block, groups, multiple, dtype)
        self._stage(scores)
        if s.relations or s.annotations or s.attach is not None:
            self._illegal(f"{stage} has steps of its own already", "begin with online_in_matrices")
        found = weighted_by_softmax(s.body, scores, self.stages)
        if found is None or min(block, groups, multiple) < 1 or multiple % groups or s.tensor.dtype != "float32":
            self._illegal(f"{stage} is no sum weighted by the softmax of {scores}", "name the product and its scores")
        return self._blocks(s, online_in_matrices(s.tensor, found, block, groups, multiple, dtype))

    def _blocks(self, s: StageSchedule, made: Online) -> str:
        for each in made.stages:
            self._add_stage(each)
        s.body = made.body
        s.leaves = [a.name for a in s.tensor.axes]
        return made.sums.name

    def fold(self, stage: str, dimension: int, factor: int) -> tuple[str, str]:
        """Gives an intermediate stage two dimensions, of which the second has `factor` positions, in place of one;
        returns their axes. What a reader needs of it may then lie `factor` apart: a thread has every `factor`-th column
        of a tile, and its neighbour the columns beside them. Where the factor does not divide the dimension, the last
        positions are beyond it, which the tiles of the output must be (`split` with `overhang`)."""
        s: StageSchedule = self._step("fold", stage, dimension, factor)
        if not 0 <= dimension < len(s.tensor.axes) or factor < 2:
            self._illegal(f"dimension {dimension} of {stage} by {factor}", "a dimension, by 2 at least")
        if stage in self.outputs:
            self._illegal("an output has the dimensions of the kernel's result", "use cache_write")
        if s.relations or s.annotations or s.attach is not None:
            self._illegal(f"{stage} has steps of its own already", "fold it before them")
        tensor = folded(s.tensor, s.body, dimension, factor)
        assert tensor.body is not None
        self.stages[stage] = StageSchedule(tensor, tensor.body, [a.name for a in tensor.all_axes])
        for reader in self.stages.values():
            reader.body = redirect(reader.body, stage, lambda load: tensor[folded_at(load.indices, dimension, factor)])
        outer, inner = tensor.axes[dimension : dimension + 2]
        return outer.name, inner.name

    def permute(self, stage: str, *order: int) -> None:
        """Gives an intermediate stage its dimensions in another order, in which it is stored: what threads read
        together then may lie side by side, whatever the order in which its elements are computed."""
        s: StageSchedule = self._step("permute", stage, *order)
        if sorted(order) != [*range(len(s.tensor.axes))] or stage in self.outputs:
            self._illegal(f"dimensions {list(order)} of {stage}", "each once, of a stage that is no output")
        if s.relations or s.annotations or s.attach is not None:
            self._illegal(f"{stage} has steps of its own already", "permute it before them")
        tensor = permuted(replace(s.tensor, body=s.body), order)
        self.stages[stage] = StageSchedule(tensor, s.body, [a.name for a in tensor.all_axes])
        for reader in self.stages.values():
            reader.body = redirect(reader.body, stage, lambda load: tensor[tuple(load.indices[d] for d in order)])

    def pad_rows(self, stage: str, elements: int, dimensions: int = 1) -> None:
        """Stores a stage that is placed within another with room for so many elements behind each row, its last
        dimension: what lies below one another then is in other banks of a memory.

        Args:
            dimensions: how many of the last dimensions are a row.
        """
        s: StageSchedule = self._step("pad_rows", stage, elements, *([dimensions] if dimensions > 1 else []))
        rows = 1 <= dimensions < len(s.tensor.axes)
        if elements < 1 or not rows or s.padded is not None or stage in self.outputs:
            self._illegal(f"rows of {stage} cannot have {elements} elements more", "once, of a stage that is placed")
        s.padded = (elements, dimensions)

    def swizzle(self, stage: str, elements: int = 1) -> None:
        """Stores a stage that is placed within another with each row, its last dimension, turned by so many elements
        against the row before it: element c of row r lies at (c + r * elements) mod the row's length. What lies below
        one another is in other banks of a memory, without the bytes that `pad_rows` takes. Rows of any length are
        turned, and positions stay formulas that can be proved; an exclusive or of address bits has neither."""
        s: StageSchedule = self._step("swizzle", stage, elements)
        if elements < 1 or s.turned or len(s.tensor.axes) < 2 or stage in self.outputs:
            self._illegal(f"rows of {stage} cannot be turned by {elements}", "once, of a stage that is placed")
        if s.transferred:
            self._illegal(f"{stage} is copied row by row", "pad_rows, or let threads store its elements")
        s.turned = elements

    def stride(self, stage: str, dimension: int, step: int) -> None:
        """Lets a copy, as `cache_read` makes it, have every `step`-th position of a dimension alone, where its readers
        read no others: of the image of a convolution with strides and one tap, what the tap reads."""
        s: StageSchedule = self._step("stride", stage, dimension, step)
        if not isinstance(s.body, Load) or stage in self.outputs or s.leaves != [a.name for a in s.tensor.axes]:
            self._illegal(f"{stage} is no copy without steps of its own", "stride what cache_read has made")
        if not 0 <= dimension < len(s.tensor.axes) or step < 2:
            self._illegal(f"dimension {dimension} of {stage} in steps of {step}", "a dimension, in steps of 2 at least")
        reads = [load for r in self.stages.values() for load in E.loads(r.body) if load.tensor.name == stage]
        if any(load.indices[dimension] % step != ZERO for load in reads):
            self._illegal(f"positions between every {step}th of dimension {dimension} are read", "copy all of them")
        tensor = thinned(s.tensor, s.body, dimension, step)
        assert tensor.body is not None
        self.stages[stage] = StageSchedule(tensor, tensor.body, [a.name for a in tensor.axes])
        for reader in self.stages.values():
            reader.body = redirect(reader.body, stage, lambda load: tensor[thinned_at(load.indices, dimension, step)])

    def pipeline(self, stage: str, axis: str, depth: int) -> None:
        """Brings what an iteration of an axis needs of the stages that are placed there `depth` - 1 iterations before
        it is read, into as many buffers for each as `depth`, which take turns: the iterations are a software pipeline,
        in which later loads and earlier products overlap. With one buffer, threads have in registers what the next
        iteration reads while one computes. What is brought is read from outside of the loop."""
        s: StageSchedule = self._step("pipeline", stage, axis, depth)
        self._leaf(s, axis)
        if axis in s.annotations or axis in s.pipelined or depth < 1:
            self._illegal(f"{axis} with {depth} buffers", "a serial axis, once, with 1 buffer at least")
        s.pipelined[axis] = depth

    def recompute(self, stage: str, *consumers: str) -> str:
        """Makes consumers read a copy of a stage that is computed once more, from what the stage reads; returns the new
        stage. So what two outputs read, or one output of another, can be placed within both."""
        s: StageSchedule = self._step("recompute", stage, *consumers)
        for consumer in consumers:
            if not any(load.tensor.name == stage for load in E.loads(self._stage(consumer).body)):
                self._illegal(f"{consumer} does not read {stage}", "name what reads it")
        if s.relations or s.annotations or s.attach is not None:
            self._illegal(f"{stage} has steps of its own already", "recompute it before them")
        numbered = (f"{stage}_again{n if n > 1 else ''}" for n in count(1))
        name = next(candidate for candidate in numbered if candidate not in self.stages)
        self._add_stage(copied(s.tensor, s.body, name))
        for consumer in consumers:
            reader = self._stage(consumer)
            reader.body = redirect(reader.body, stage, lambda load: replace(load, tensor=self.stages[name].tensor))
        return name

    def by_last_tasks(self, stage: str, parts: str, counters: str) -> None:
        """Lets the tasks of an output be run by those of another one that it reads: of all of these that have the same
        number but for whole multiples of how many tasks the stage has, the last one. It sees what the others stored.

        Args:
            counters: an output of zeros, where tasks are counted; it is zeros when a model is loaded, too.
        """
        s: StageSchedule = self._step("by_last_tasks", stage, parts, counters)
        if not {stage, parts, counters} <= {*self.outputs} or stage == parts:
            self._illegal(f"{stage}, {parts} and {counters} are not outputs of one kernel", "name three outputs")
        zeros = self._stage(counters)
        body = zeros.body
        if not isinstance(body, E.Const) or body.value != 0 or zeros.tensor.dtype != "uint32":
            self._illegal(f"{counters} is not zeros of uint32", "count in an output that is zero after a run")
        s.last_of = parts, counters

    @property
    def tasks(self) -> int | None:
        """The iterations of the outputs' parallel loops, but for those of which tasks of others are the last; None if
        they are not known, or there is none."""
        found = 0
        without = {name for s in self.stages.values() if s.last_of is not None for name in (s.name, s.last_of[1])}
        for name in self.outputs:
            s = self.stages[name]
            many = next((s.extent(axis) for axis in s.leaves if s.annotations.get(axis) == "parallel"), None)
            if many is None and name not in without:
                return None
            found += 0 if name in without or many is None else many
        return found

    def _add_stage(self, tensor: Tensor) -> None:
        if tensor.name in self.stages:
            self._illegal(f"a stage {tensor.name} exists already", "apply the primitive once")
        assert tensor.body is not None
        self.stages[tensor.name] = StageSchedule(tensor, tensor.body, [a.name for a in tensor.all_axes])


def _covers(positions: int, extent: Int) -> bool:
    """Whether so many positions are all of a dimension, whose size is known."""
    return extent.is_const and positions >= int(extent)
