"""Proves that tasks, and threads, touch elements of their own, whatever the sizes are.

Positions are made of the digits of a task's number: of its quotients by numbers and by sizes, and of what these leave,
as fused axes are taken apart. A task is known by its digits. So tasks are apart if an element lies at

    digit * step + rest,  0 <= rest < step

for the first digit, where the rest is made of the other digits in the same way, and at the end of what one task does.
Where positions are made of the number of a thread among those of all tasks, its digits tell threads apart, too.

Threads are compared number by number (`touched`, `barriers`), which takes steps that are numbers. `with_known_steps`
gives positions such steps: of rows of an open length, where every element is known to lie within its row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from sterna.ir.extremum import Extremum
from sterna.ir.integer import ONE, ZERO, Atom, FloorDiv, Int, Mod, Monomial, Symbol, as_int, of
from sterna.ir.remainders import rejoined
from sterna.ir.threads import ThreadAxis
from sterna.loops.elements import part_of
from sterna.loops.prove import Range, at_least_zero
from sterna.loops.touched import Access
from sterna.te.position import Quotient, depends_on_data

#: Digits of a number, at most.
MOST_DIGITS = 8


@dataclass(frozen=True)
class Elements:
    """Where a statement touches elements: the first and the last position of each time, integers that are not negative
    there, and the ranges of the symbols that are a thread's own: its numbers, its loops."""

    first: Int
    last: Int
    known: tuple[Int, ...]
    ranges: Mapping[Symbol, Range]

    def with_digits(self, values: Mapping[Atom, Int]) -> Elements:
        known = tuple(rejoined(n.substitute(values)) for n in self.known)
        return replace(self.at(values), known=known)

    def at(self, values: Mapping[Atom, Int]) -> Elements:
        """The same with atoms of positions replaced, and not of what is known."""
        return replace(self, first=rejoined(self.first.substitute(values)), last=rejoined(self.last.substitute(values)))

    def numbered(self, begin: Int, threads: Mapping[Symbol, int]) -> Elements:
        """With a number less the one that thread 0 has in the place of threads' symbols, which begin at numbers of
        their own."""
        values: dict[Atom, Int] = {s: begin + first for s, first in threads.items()}
        ranges = {s: r for s, r in self.ranges.items() if s not in threads}
        return replace(self.with_digits(values), ranges=ranges)

    def positions(self) -> tuple[Int, ...]:
        return (self.first, self.last, *self.known)

    def less(self, offset: Int) -> Elements:
        return Elements(self.first - offset, self.last - offset, self.known, self.ranges)

    def is_within(self, size: Int, others: Mapping[Symbol, Range]) -> bool:
        """Whether it is proved that all positions are at least 0 and less than a size."""
        ranges = {**others, **self.ranges}
        ends = (self.first, size - 1 - self.last)
        return all(at_least_zero(end, ranges, self.known) for end in ends)


def apart_by_digits(accesses: Sequence[Access], task: Symbol, n_tasks: Int, counts: Mapping[ThreadAxis, int]) -> bool:
    """Whether it is proved that no two tasks touch one element.

    Args:
        accesses: to one buffer; task: the symbol of a task's number; counts: threads along each axis.
    """
    elements, number = [_decided(elements_of(a, counts), task, n_tasks) for a in accesses], Symbol("number", 0, None)
    for first in _first_tasks(elements, task):
        counted = [each.with_digits({task: of(number) + first}) for each in elements]
        if all(_is_none(number, each) for each in counted) or _known_by(number, counted):
            return True
    return False


def apart_by_number(accesses: Sequence[Access], task: Symbol, n_tasks: Int, counts: Mapping[ThreadAxis, int]) -> bool:
    """Whether it is proved that no two threads, of whichever tasks, touch one element: positions are made of
    (task - first task) * threads + thread alone.

    Args:
        accesses: to one buffer; counts: threads along each axis.
    """
    axes = [axis for axis, count in counts.items() if count > 1]
    if len(axes) != 1:
        return False
    threads = [{s: n for s, (axis, n) in a.place.threads.items() if axis == axes[0]} for a in accesses]
    elements, number = [_decided(elements_of(a, counts), task, n_tasks) for a in accesses], Symbol("number", 0, None)
    few = {_reached(each.known, own, counts[axes[0]]) for each, own in zip(elements, threads, strict=True)}
    for first, count in product(_first_tasks(elements, task), dict.fromkeys((max(few), counts[axes[0]]))):
        begin = of(number) - (of(task) - first) * count
        values: dict[Atom, Int] = {task: first + of(number) // count}  # what is made of a task's number alone
        numbered = [each.numbered(begin, own).at(values) for each, own in zip(elements, threads, strict=True)]
        if _known_by(number, numbered):
            return True
    return False


def _reached(known: Sequence[Int], threads: Mapping[Symbol, int], count: int) -> int:
    """How many threads reach elements, the first ones: fewer than there are where a condition says so, as where other
    outputs have more."""
    ends = ((fact + of(s), first) for s, first in threads.items() for fact in known)
    return min([count, *(max(1, int(end) + 1 - first) for end, first in ends if end.is_const)])


def _first_tasks(elements: Sequence[Elements], task: Symbol) -> list[Int]:
    """The numbers that a task's is known not to be below wherever there is an access, those of inner conditions
    first."""
    found = list[list[Int]]()
    for each in elements:
        numbers = (of(task) - fact for fact in reversed(each.known))
        found.append([n for n in numbers if _is_of_sizes(n, {task, *each.ranges})])
    return list(dict.fromkeys([*(first for first in found[0] if all(first in other for other in found)), ZERO]))


def _is_of_sizes(value: Int, others: Set[Symbol]) -> bool:
    """Whether sizes alone make a number, and no other symbol, nor data, and it is not negative."""
    least = value.bounds()[0]
    return least is not None and least >= 0 and _is_fixed(value, others)


def _is_fixed(value: Int, varying: Set[Symbol]) -> bool:
    """Whether a number is the same wherever it stands: made neither of symbols that vary nor of data."""
    return varying.isdisjoint(value.symbols()) and not depends_on_data(value)


def _is_none(number: Symbol, elements: Elements) -> bool:
    """Whether a condition says that a number is not greater than 0: one task reaches these elements."""
    above = (fact + of(number) for fact in elements.known)
    return any(n.is_const and int(n) <= 0 for n in above)


def _decided(elements: Elements, task: Symbol, n_tasks: Int) -> Elements:
    """The same without minima and maxima of which conditions say what they are."""
    elements = replace(elements, known=(*elements.known, n_tasks - 1 - of(task)))
    for atom in [a for n in elements.positions() for a in n.atoms() if isinstance(a, Extremum)]:
        a, b = atom.operands
        for chosen, other in ((a, b), (b, a)):
            difference = other - chosen if atom.kind == "min" else chosen - other
            if at_least_zero(difference, elements.ranges, elements.known):
                elements = elements.with_digits({atom: chosen})
                break
    return elements


def _beside_each_other(elements: Sequence[Elements], numbers: Collection[Symbol]) -> list[Elements]:
    """Less what all positions have in common, as the place of the first element in its storage."""
    varying = {*numbers, *(s for each in elements for s in each.ranges)}
    fixed = {m for each in elements for m in each.first.terms if _is_fixed(Int({m: 1}, 0), varying)}
    least = {m: min(each.first.terms.get(m, 0) for each in elements) for m in fixed}
    common = Int({m: c for m, c in least.items() if c}, min(each.first.const for each in elements))
    return [each.less(common) for each in elements]


def _known_by(number: Symbol, elements: Sequence[Elements]) -> bool:
    """Whether elements at the same position are of one number."""
    found = _in_digits({number: None}, elements)
    return found is not None and _apart(*found)


def _in_digits(
    numbers: Mapping[Symbol, Range | None], elements: Sequence[Elements]
) -> tuple[list[Elements], list[Symbol], dict[Symbol, Range]] | None:
    """Elements less what all have in common, with the digits of some numbers for these; the digits, and the ranges of
    those of which they are known. None of too many digits.

    Args:
        numbers: with what their ranges are known to be.
    """
    digits, ranges = [*numbers], {number: r for number, r in numbers.items() if r is not None}
    elements = _beside_each_other(elements, numbers)
    # Of remainders: how great a quotient is, positions say.
    while (found := _division(elements, digits)) is not None:
        atom, digit, divisor = found
        if len(digits) == MOST_DIGITS:
            return None
        high, low = Symbol(f"{digit.name}_high", 0, None), Symbol(f"{digit.name}_low", 0, _most(divisor))
        values: dict[Atom, Int] = {digit: of(high) * divisor + of(low)}
        if isinstance(atom, Quotient):
            values[atom] = of(high)
        elements = [each.with_digits(values) for each in elements]
        place = digits.index(digit)
        digits[place : place + 1] = [high, low] if low.hi != 0 else [high]
        ranges[low] = Range(ZERO, divisor - 1)
        if (whole := ranges.pop(digit, None)) is not None and divisor.is_const:
            ranges[high] = Range(ZERO, whole.greatest // int(divisor))
    return [*elements], digits, ranges


def rows_of_tasks(
    accesses: Sequence[Access], task: Symbol, n_tasks: Int, counts: Mapping[ThreadAxis, int]
) -> list[Int] | None:
    """The position of each among those of its task, by numbers alone, where tasks have tiles of rows that are taken
    apart by open sizes: elements of one position are of one task, and at one of these positions. None where that is not
    proved.

    Args:
        accesses: to one buffer; task: the symbol of a task's number; counts: threads along each axis.
    """
    elements = [_decided(elements_of(a, counts), task, n_tasks) for a in accesses]
    number, column = Symbol("number", 0, None), Symbol("column", 0, None)
    own, numbered, parts = list[Int](), list[Elements](), dict[Atom, Int]()
    begin, across = ZERO, ONE
    for each in (_threads_apart(e, parts) for e in elements):
        tile = _tile_of_rows(each, task)
        if tile is None or (own and (tile.begin, tile.across) != (begin, across)):
            return None
        begin, across = tile.begin, tile.across
        own.append(tile.row)
        numbered.append(each.with_digits({tile.replaced: of(number) - (tile.begin + tile.row) + of(tile.replaced)}))
        if across != ONE:
            numbered[-1] = numbered[-1].with_digits({a: of(column) for a in (of(task) % int(across)).atoms()})
        if task in numbered[-1].first.symbols() | numbered[-1].last.symbols():
            return None
    found = _in_digits({number: None, **({column: Range(ZERO, across - 1)} if across != ONE else {})}, numbered)
    if found is None:
        return None
    rest, digits, ranges = found
    while digits:
        for digit in digits:
            others = [d for d in digits if d != digit]
            less = _without_digit(rest, digit, others, {d: ranges[d] for d in others if d in ranges})
            if less is not None:
                break
        else:
            return None
        rest, digits = less, others
    reach = [_reach(each.last, each.ranges) for each in rest]
    if None in reach:
        return None
    width = 1 + max(n for n in reach if n is not None)
    return [(row * width + each.first).substitute(parts) for row, each in zip(own, rest, strict=True)]


def _threads_apart(elements: Elements, parts: dict[Atom, Int]) -> Elements:
    """With d * high + low for the numbers of threads that positions have quotients of by a number d; what these are of
    the threads is noted in `parts`."""
    for atom in [a for a in elements.first.atoms() if isinstance(a, FloorDiv)]:
        found = next((s for s in elements.ranges if atom.value == of(s)), None)
        if found is None or elements.ranges[found].least != ZERO or not elements.ranges[found].greatest.is_const:
            continue
        most = int(elements.ranges[found].greatest)
        high, low = Symbol(found.name, 0, most // atom.divisor), Symbol(found.name, 0, atom.divisor - 1)
        thread = of(found).substitute(parts)
        parts |= {high: thread // atom.divisor, low: thread % atom.divisor}
        ranges = {s: r for s, r in elements.ranges.items() if s != found}
        ranges |= {s: Range(ZERO, as_int(s.hi or 0)) for s in (high, low)}
        elements = replace(elements.with_digits({found: of(high) * atom.divisor + of(low)}), ranges=ranges)
    return elements


@dataclass(frozen=True)
class _TileOfRows:
    """A row of a task: `begin` + `row`, where `begin` is the first one of its tile.

    Args:
        replaced: an atom that `row` has once; across: tiles of a row, which tasks side by side have.
    """

    begin: Int
    row: Int
    replaced: Atom
    across: Int


def _tile_of_rows(elements: Elements, task: Symbol) -> _TileOfRows | None:
    """What a position is made of by the quotients of: begin + row, where the rows of a task are those up to the first
    one of the next."""
    for dividend in (a.dividend for a in elements.first.atoms() if isinstance(a, Quotient)):
        begin = Int({m: c for m, c in dividend.terms.items() if task in Int({m: 1}, 0).symbols()}, 0)
        row = dividend - begin
        (monomial, size), *more = [*begin.terms.items()] or [((), 0)]
        if more or len(monomial) != 1 or size < 1 or not row.symbols() <= elements.ranges.keys():
            continue
        (atom,) = monomial
        across = as_int(atom.divisor) if isinstance(atom, FloorDiv) and atom.value == of(task) else ONE
        if atom != task and across == ONE:
            continue
        once = (m[0] for m, c in row.terms.items() if len(m) == 1 and c == 1)
        within = all(at_least_zero(end, elements.ranges, elements.known) for end in (row, size - 1 - row))
        if within and (replaced := next(once, None)) is not None:
            return _TileOfRows(begin, row, replaced, across)
    return None


def elements_of(access: Access, counts: Mapping[ThreadAxis, int]) -> Elements:
    """Those of an access."""
    ends = {s: (n, counts[axis]) for s, (axis, n) in access.place.threads.items()} | dict(access.place.local)
    ranges = {s: Range(as_int(n), as_int(n + count - 1)) for s, (n, count) in ends.items()}
    known = tuple(limit - 1 - index for index, limit in access.place.guards)
    return Elements(access.index, access.index + (access.span - 1) * access.stride, known, ranges)


def _most(divisor: Int) -> int | None:
    most = divisor.bounds()[1]
    return None if most is None else most - 1


def _division(elements: Sequence[Elements], digits: Sequence[Symbol]) -> tuple[Atom, Symbol, Int] | None:
    """A division of a digit that positions are made of: (its atom, the digit, by what all tasks divide by)."""
    varying = {*digits, *(s for each in elements for s in each.ranges)}
    for atom in (atom for each in elements for n in each.positions() for atom in n.atoms()):
        if isinstance(atom, Quotient):
            value, divisor = atom.dividend, atom.divisor
        elif isinstance(atom, (FloorDiv, Mod)):
            value, divisor = atom.value, as_int(atom.divisor)
        else:
            continue
        digit = next((d for d in digits if value == of(d)), None)
        if digit is not None and _is_fixed(divisor, varying):
            return atom, digit, divisor
    return None


def _apart(elements: Sequence[Elements], digits: Sequence[Symbol], ranges: Mapping[Symbol, Range]) -> bool:
    """Whether elements at the same position have the same digits.

    Args:
        ranges: of digits, where they are known.
    """
    if not digits:
        return True
    for digit in digits:
        others = [d for d in digits if d != digit]
        rest = _without_digit(elements, digit, others, {d: ranges[d] for d in others if d in ranges})
        if rest is not None:
            return _apart(rest, others, ranges)
    # Rows of what a task has: elements that meet are of one row, whichever task's.
    known = {d: ranges[d] for d in digits if d in ranges}
    rows = _in_rows(elements, digits, known)
    if rows is None:
        columns = _in_known_rows(elements, digits, known)
    else:
        columns = rows.columns if rows.common == ZERO else None
    return columns is not None and _apart(columns, digits, ranges)


def _without_digit(
    elements: Sequence[Elements], digit: Symbol, others: Sequence[Symbol], known: Mapping[Symbol, Range]
) -> list[Elements] | None:
    """What is left of positions beside digit * step, where that is at least 0 and less than the step."""
    following: dict[Atom, Int] = {digit: of(digit) + 1}
    steps = {end.substitute(following) - end for each in elements for end in (each.first, each.last)}
    step, *more = steps
    varying = {digit, *others, *(s for each in elements for s in each.ranges)}
    if more or not _is_fixed(step, varying):
        return None
    rest = [each.less(of(digit) * step) for each in elements]
    return rest if all(each.is_within(step, known) for each in rest) else None


@dataclass(frozen=True)
class _Rows:
    """Positions as common + S * number + column, 0 <= column < S.

    Args:
        common: the same for all; numbers: of each one's row; columns: what is left of each.
    """

    common: Int
    numbers: list[Int]
    columns: list[Elements]


def _in_rows(elements: Sequence[Elements], digits: Sequence[Symbol], others: Mapping[Symbol, Range]) -> _Rows | None:
    """Rows an open step apart that symbols of a thread's own number, or numbers alone; None if positions are not of
    this form, with one step and one common part, which are the same for all."""
    own = {s for each in elements for s in each.ranges}

    def is_own(atom: Atom) -> bool:
        return bool(found := Int({(atom,): 1}, 0).symbols()) and found <= own

    mixed = {m for each in elements for m in each.first.terms if len(m) > 1 and any(map(is_own, m))}
    if mixed:
        steps = {tuple(a for a in m if not is_own(a)) for m in mixed}
        times = gcd(*(each.first.terms.get(m, 0) for each in elements for m in mixed))
    else:  # numbers alone tell rows apart
        found = {m: {each.first.terms.get(m, 0) for each in elements} for each in elements for m in each.first.terms}
        steps = {m for m, several in found.items() if len(several) > 1 and not any(map(is_own, m))}
        times = gcd(*(c for m in steps for c in found[m]))
    if len(steps) != 1 or any(sum(map(is_own, m)) != 1 for m in mixed):
        return None
    (step,) = steps
    size, varying = Int({step: times}, 0), {*own, *digits}
    commons, numbers, columns = set[Int](), list[Int](), list[Elements]()
    for each in elements:
        row, common = dict[tuple[Atom, ...], int](), dict[tuple[Atom, ...], int]()
        for monomial, coefficient in each.first.terms.items():
            if monomial in mixed:
                row[tuple(a for a in monomial if is_own(a))] = coefficient // times
            elif all(a in monomial for a in step) and not any(map(is_own, monomial)):
                common[monomial] = coefficient
        beside = common.get(step, 0) // times
        if beside:
            common[step] -= beside * times
        number = Int(row, beside)
        shared = Int({m: c for m, c in common.items() if c}, 0)
        commons.add(shared)
        numbers.append(number)
        columns.append(each.less(size * number + shared))
    if len(commons) != 1 or not all(_is_fixed(n, varying) for n in (size, *commons)):
        return None
    if not all(each.is_within(size, others) for each in columns):
        return None
    return _Rows(next(iter(commons)), numbers, columns)


def _in_known_rows(
    elements: Sequence[Elements], digits: Sequence[Symbol], others: Mapping[Symbol, Range]
) -> list[Elements] | None:
    """The columns of rows that are a number of elements apart, further than the digits' steps: rows that symbols of a
    thread's own number, or those of a thread alone."""
    own = {s for each in elements for s in each.ranges}
    step = max(abs(each.first.coefficient(digit) or 0) for each in elements for digit in digits)

    def is_row(monomial: Monomial, coefficient: int) -> bool:
        return coefficient > step and Int({monomial: 1}, 0).symbols() <= own

    steps = {c for each in elements for m, c in each.first.terms.items() if is_row(m, c)}
    between = gcd(*(each.first.const for each in elements))
    for size in dict.fromkeys((min(steps, default=0), between)):
        if step == 0 or size <= step or any(c % size for c in steps):
            continue
        columns = list[Elements]()
        for each in elements:
            rows = {m: c for m, c in each.first.terms.items() if c % size == 0}
            whole = Int({m: c for m, c in rows.items() if not Int({m: 1}, 0).symbols() & {*digits}}, 0)
            columns.append(each.less(whole + each.first.const // size * size))
        if all(each.is_within(as_int(size), others) for each in columns):
            return columns
    return None


def with_known_steps(elements: Sequence[Elements]) -> list[Int] | None:
    """The first position of each, less what all have in common, with a number in place of the open size by which rows
    lie apart: positions that differ still do. None where there are no such rows."""
    rows = _in_rows(elements, (), {})
    if rows is None:
        return None
    own = {s for each in elements for s in each.ranges}
    columns = [part_of(each.first, own) for each in rows.columns]
    beside = {
        each.first - (column or ZERO) - each.first.const for each, column in zip(rows.columns, columns, strict=True)
    }
    within = [(column or ZERO) + each.first.const for each, column in zip(rows.columns, columns, strict=True)]
    ends = [(c + end, e.ranges) for c, e in zip(within, elements, strict=True) for end in (ZERO, e.last - e.first)]
    reach = [_reach(end, ranges) for end, ranges in ends]
    if None in columns or None in reach or len(beside) != 1 or not all(_is_fixed(n, own) for n in beside):
        return None
    width = 1 + 2 * max(n for n in reach if n is not None)
    return [number * width + column for number, column in zip(rows.numbers, within, strict=True)]


def _reach(column: Int, ranges: Mapping[Symbol, Range]) -> int | None:
    """How far from 0 a column can be."""
    far = abs(column.const)
    for monomial, coefficient in column.terms.items():
        ends = [end for a in monomial if (end := _furthest(a, ranges)) is not None]
        if len(ends) < len(monomial):
            return None
        far += abs(coefficient) * prod(max(1, end) for end in ends)
    return far


def _furthest(atom: Atom, ranges: Mapping[Symbol, Range]) -> int | None:
    """How far from 0 a thread's own symbol, or a quotient or a remainder of it, can be."""
    if isinstance(atom, Symbol):
        end = ranges[atom].greatest if atom in ranges else None
        return abs(int(end)) if end is not None and end.is_const else None
    return None if atom.lo is None or atom.hi is None else max(abs(atom.lo), abs(atom.hi))
