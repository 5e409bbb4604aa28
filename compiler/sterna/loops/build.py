"""Loop programs written by hand, for what has no index formula: sorting, searching, counting, walking trees.

    def largest(p: ProgramBuilder) -> None:                    # the greatest element of every row, and where it is
        x, (best, where) = p.input(0), p.outputs
        with p.tasks(x.shape[0], "row") as row:
            top = p.variable("top", x[row, 0])
            place = p.variable("place", 0, "int32")
            with p.loop(x.shape[1], "n", start=1) as n:
                with p.when(x[row, n] > top.value):
                    top.set(x[row, n])
                    place.set(number(n, "int32"))
            best[row] = top.value
            where[row] = place.value

What is read is read there and then: `a = x[i]` is the element at that moment, whatever is written later. An index that
is a value instead of a position is clamped to the dimension, so no data can make a program leave its buffers; and
every loop has an extent, from which `leave_if` goes early, so none can keep it from ending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Union

from sterna.ir import dtypes
from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import ZERO, Int, IntLike, Symbol, as_int, of
from sterna.ir.memory import INPUT, PARAM, SCRATCH, STACK
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr, ExprLike
from sterna.te.layout import most_elements
from sterna.te.position import IndexAtom, position
from sterna_runtime.abi import aligned

STACK_BYTES = 512  # of one array; larger ones lie in scratch memory
#: Words that could name a variable, and that a language keeps for itself in which kernels are written.
_WORDS = """
    and asm auto bool bitand bitor break case catch char class compl const constant continue default delete device do
    double else enum event explicit export extern false float for friend global goto half if image inline int kernel
    local long mutable namespace new not operator or pipe private protected public register restrict return sampler
    shared short signed sizeof static struct switch template this thread throw true try typedef typename union unsigned
    using vector virtual void volatile while xor
"""
_RESERVED = frozenset(_WORDS.split())

Index = Union[Int, int, Symbol, Expr, "Variable"]


class Variable:
    """A scalar that changes. `value` is its value wherever the expression ends up being used."""

    def __init__(self, program: ProgramBuilder, variable: P.Variable):
        self.program, self.variable = program, variable

    @property
    def dtype(self) -> str:
        return self.variable.dtype

    @property
    def value(self) -> Expr:
        return P.Read(self.variable.dtype, variable=self.variable)

    def set(self, value: ExprLike) -> None:
        self.program.emit(P.Assign(self.variable, self.program.typed(value, self.dtype)))

    def add(self, value: ExprLike) -> None:
        self.set(self.value + value)


class Array:
    """A tensor, or memory of the program's own. Indexing reads at once; assigning to an index writes."""

    def __init__(self, program: ProgramBuilder, buffer: P.Buffer):
        self.program, self.buffer = program, buffer

    @property
    def shape(self) -> tuple[Int, ...]:
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Expr:
        load = E.Load(self.dtype, tensor=self.buffer, indices=(self._offset(index),))
        return self.program.let(load, self.buffer.name)

    def __setitem__(self, index: Index | tuple[Index, ...], value: ExprLike) -> None:
        offset = self._offset(index)
        self.program.emit(P.Store(self.buffer, offset, self.program.typed(value, self.dtype)))

    def _offset(self, index: Index | tuple[Index, ...]) -> Int:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            raise IndexError(f"{self.buffer.name} has {len(self.shape)} dimensions, {len(indices)} indices given")
        return self.buffer.offset(
            tuple(self.program.index(i, size) for i, size in zip(indices, self.shape, strict=True))
        )


class ProgramBuilder:
    """A loop program in the making.

    Args:
        inputs: a buffer of scope "input" or "param" for each operand; None where one is left out.
        outputs: a buffer of scope "output" for each result.
    """

    def __init__(self, name: str, inputs: Sequence[P.Buffer | None], outputs: Sequence[P.Buffer]):
        self.name = name
        self.buffers = tuple(inputs), tuple(outputs)
        self.inputs = tuple(None if b is None else Array(self, b) for b in inputs)
        self.outputs = tuple(Array(self, b) for b in outputs)
        self.blocks: list[list[P.Stmt]] = [[]]
        self.names = {b.name: 0 for b in (*inputs, *outputs) if b is not None}
        self.n_tasks = as_int(1)
        self.scratch_bytes = 0

    def input(self, position: int) -> Array:
        """An operand that must be there."""
        array = self.inputs[position]
        assert array is not None
        return array

    @property
    def output(self) -> Array:
        """The only result."""
        (only,) = self.outputs
        return only

    def function(self) -> P.Function:
        """The finished program."""
        (body,) = self.blocks
        inputs, outputs = self.buffers
        given = [b for b in dict.fromkeys(inputs) if b is not None]  # one operand may stand in several places
        return P.Function(
            self.name,
            tuple(b for b in given if b.scope is INPUT),
            tuple(b for b in given if b.scope is PARAM),
            outputs,
            self.n_tasks,
            self.scratch_bytes,
            _without_unused(P.seq(*body)),
        )

    # -- statements
    def emit(self, stmt: P.Stmt) -> None:
        self.blocks[-1].append(stmt)

    @contextmanager
    def _block(self) -> Iterator[list[P.Stmt]]:
        self.blocks.append([])
        try:
            yield self.blocks[-1]
        finally:
            self.blocks.pop()

    @contextmanager
    def loop(self, extent: Index, name: str = "i", start: Index = 0, apart: bool = False) -> Iterator[Int]:
        """start <= i < extent, one after the other, or, where they are apart, in vectors."""
        first, end = self._bound(start), self._bound(extent)
        hi = end.bounds()[1]
        symbol = Symbol(self._name(name), 0, None if hi is None else max(hi - 1, 0))
        with self._block() as body:
            yield of(symbol)
        if hi is None or hi > (first.bounds()[0] or 0):
            self.emit(P.For(symbol, end, "serial", P.seq(*body), start=first, apart=apart))

    @contextmanager
    def tasks(self, count: IntLike, name: str = "task") -> Iterator[Int]:
        """A loop whose iterations the runtime hands out to threads; it is all there is in the program."""
        if len(self.blocks) != 1 or self.blocks[0]:
            raise ValueError("a parallel loop stands outermost and alone")
        self.n_tasks = as_int(count)
        hi = self.n_tasks.bounds()[1]
        symbol = Symbol(self._name(name), 0, None if hi is None else max(hi - 1, 0))
        with self._block() as body:
            yield of(symbol)
        if hi != 0:
            self.emit(P.For(symbol, self.n_tasks, "parallel", P.seq(*body)))

    @contextmanager
    def places(self, sizes: Sequence[IntLike], name: str = "task") -> Iterator[tuple[Int, ...]]:
        """The positions of a shape, handed out to threads. A position cannot be divided by a size that is open, so
        those after the first are run through within a task, from the first of them that is open on."""
        end = next((n for n in range(1, len(sizes)) if not as_int(sizes[n]).is_const), len(sizes))
        with self.tasks(product(sizes[:end]), name) as task, self.nest(sizes[end:], name) as rest:
            yield (*unflatten(task, sizes[:end]), *rest)

    @contextmanager
    def nest(self, extents: Sequence[IntLike], name: str = "i") -> Iterator[tuple[Int, ...]]:
        """Loops over all positions of a shape, in row-major order."""
        if not extents:
            yield ()
            return
        with self.loop(as_int(extents[0]), name) as first, self.nest(extents[1:], name) as rest:
            yield (first, *rest)

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """What is done only if a condition holds."""
        with self._block() as body:
            yield
        self.emit(P.Branch(condition, P.seq(*body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Right after `when`: what is done if its condition does not hold."""
        branch = self.blocks[-1].pop()
        assert isinstance(branch, P.Branch)
        assert branch.otherwise is None
        with self._block() as body:
            yield
        self.emit(replace(branch, otherwise=P.seq(*body)))

    def leave_if(self, condition: Expr) -> None:
        """Leaves the innermost loop."""
        self.emit(P.Branch(condition, P.Break()))

    # -- values
    def let(self, value: ExprLike, name: str = "t", dtype: str = "") -> Expr:
        """The value as it is now, under a name."""
        typed = self.typed(value, dtype) if dtype else value
        assert isinstance(typed, Expr)
        if isinstance(typed, E.Const):
            return typed
        variable = P.Variable(self._name(name), typed.dtype, 1)
        self.emit(P.Let(variable, typed))
        return P.Read(typed.dtype, variable=variable)

    def variable(self, name: str, value: ExprLike, dtype: str = "") -> Variable:
        """A scalar that changes, and its first value."""
        dtype = dtype or (value.dtype if isinstance(value, Expr) else "")
        variable = P.Variable(self._name(name), dtype, 1)
        self.emit(P.Declare(variable))
        result = Variable(self, variable)
        result.set(value)
        return result

    def array(self, name: str, dtype: str, shape: Sequence[IntLike], on_stack: bool = True) -> Array:
        """Memory of the program's own, with no particular contents.

        Args:
            on_stack: if it is small. What is read at computed places is reached in fewer instructions elsewhere, by a
                register of its own.
        """
        sizes = tuple(as_int(size) for size in shape)
        count = most_elements(sizes) * dtypes.size(dtype)
        if on_stack and count <= STACK_BYTES:
            buffer = P.dense_buffer(self._name(name), dtype, sizes, STACK)
        else:
            buffer = P.dense_buffer(self._name(name), dtype, sizes, SCRATCH, self.scratch_bytes)
            self.scratch_bytes += aligned(count)
        self.emit(P.Alloc(buffer))
        return Array(self, buffer)

    def index(self, value: Index, extent: IntLike, from_end: bool = False) -> Int:
        """A value as a position among `extent` elements, as it is now; outside of them it is clamped. With
        `from_end`, negative ones count from the end."""
        size = as_int(extent)
        if isinstance(value, Variable):
            value = value.value
        if not isinstance(value, Expr):
            given = of(value) if isinstance(value, Symbol) else as_int(value)
            return maximum(minimum(given, size - 1), 0)
        found = position(value, size, from_end)
        if found.is_const:
            return found
        lo, hi = found.bounds()
        symbol = Symbol(self._name("at"), lo, hi)
        self.emit(P.LetIndex(symbol, found))
        return of(symbol)

    def known(self, value: Expr, extent: IntLike, least: int = 0) -> Int:
        """A value as a position from `least` up to `extent` that needs no clamp: it comes of a table of constants that
        the compiler has written, such as a position within that table, whatever the inputs are."""
        size = as_int(extent)
        hi = size.bounds()[1]
        end = None if hi is None else max(hi - 1, least)
        symbol = Symbol(self._name("at"), least, end)
        self.emit(P.LetIndex(symbol, of(IndexAtom(value, least, end, maximum(size - 1, least)))))
        return of(symbol)

    def bound(self, value: Expr | Variable, most: IntLike) -> Int:
        """A value as the extent of a loop: clamped to 0 ... most."""
        return self.index(value, as_int(most) + 1)

    def typed(self, value: ExprLike, dtype: str) -> Expr:
        result = E.as_expr(value, dtype)
        if result.dtype != dtype:
            raise TypeError(f"{result.dtype} where {dtype} is wanted")
        return result

    # -- whole tensors
    def copy(self, target: Array, source: Array) -> None:
        """Copies a tensor of the same shape."""
        with self.nest(source.shape) as i:
            target[i] = source[i]

    def fill(self, target: Array, value: ExprLike) -> None:
        with self.nest(target.shape) as i:
            target[i] = value

    def _bound(self, value: Index) -> Int:
        if isinstance(value, (Expr, Variable)):
            raise TypeError("the bound of a loop is a position: make it one by `bound`")
        return of(value) if isinstance(value, Symbol) else as_int(value)

    def _name(self, wanted: str) -> str:
        wanted = f"{wanted}_" if wanted in _RESERVED else wanted
        count = self.names.get(wanted)
        self.names[wanted] = 0 if count is None else count + 1
        if count is None:
            return wanted
        name = f"{wanted}_{count + 1}"
        return self._name(name) if name in self.names else self._taken(name)

    def _taken(self, name: str) -> str:
        self.names[name] = 0
        return name


# ---------------------------------------------------------------- values
def number(index: Int | int, dtype: str) -> Expr:
    """A position as a value."""
    return E.index_value(as_int(index), dtype)


def equal(a: Expr, b: ExprLike) -> Expr:
    return E.compare("eq", a, b)


def unequal(a: Expr, b: ExprLike) -> Expr:
    return E.compare("ne", a, b)


def both(*conditions: Expr) -> Expr:
    """Whether all hold; all are evaluated."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = E.binary("and", result, condition)
    return result


def either(*conditions: Expr) -> Expr:
    """Whether one holds; all are evaluated."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = E.binary("or", result, condition)
    return result


def negated(condition: Expr) -> Expr:
    return E.unary("logical_not", condition)


def integer(extent: IntLike) -> str:
    """The type of a value that counts up to `extent`."""
    hi = as_int(extent).bounds()[1]
    return "int32" if hi is not None and hi < 2**31 else "int64"


def unflatten(index: Int, sizes: Sequence[IntLike]) -> tuple[Int, ...]:
    """The coordinates of a position in row-major order; the sizes are known, the first one does not matter."""
    result: list[Int] = []
    for size in reversed(sizes[1:]):
        if size == 0:
            return (ZERO,) * len(sizes)  # there are no positions
        result.append(index % int(size))
        index = index // int(size)
    return (*([index] if sizes else []), *reversed(result))


def product(sizes: Sequence[IntLike]) -> Int:
    result = as_int(1)
    for size in sizes:
        result = result * size
    return result


# ---------------------------------------------------------------- cleaning
def _without_unused(body: P.Stmt) -> P.Stmt:
    """The program without names that nothing reads."""
    while True:
        variables: set[P.Variable] = set()
        symbols: set[Symbol] = set()
        for stmt in P.walk(body):
            value = P.value_of(stmt)
            if value is not None:
                _note(value, variables, symbols)
            for index in P.positions_of(stmt):
                _note_position(index, variables, symbols)

        def kept(stmt: P.Stmt) -> P.Stmt:
            return P.seq(*(P.map_children(s, kept) for s in P.members(stmt) if used(s)))

        def used(stmt: P.Stmt, variables: set[P.Variable] = variables, symbols: set[Symbol] = symbols) -> bool:
            if isinstance(stmt, P.Let):
                return stmt.variable in variables
            return stmt.symbol in symbols if isinstance(stmt, P.LetIndex) else True

        if all(used(stmt) for stmt in P.walk(body)):
            return body
        body = kept(body)


def _note(value: Expr, variables: set[P.Variable], symbols: set[Symbol]) -> None:
    for node in E.walk(value):
        if isinstance(node, P.Read):
            variables.add(node.variable)
        for index in E.positions(node):
            _note_position(index, variables, symbols)


def _note_position(index: Int, variables: set[P.Variable], symbols: set[Symbol]) -> None:
    for atom in index.atoms():
        if isinstance(atom, Symbol):
            symbols.add(atom)
        for value in atom.expressions():
            _note(value, variables, symbols)
