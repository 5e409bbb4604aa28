"""Proves that a position is at least zero for all sizes of the model's dimensions.

Interval arithmetic settles nearly everything when all sizes are numbers. Where dimensions are open it does not see that
a loop which ends at n - 1 stays within a row of n - 1. Two methods do, the cheap one first, after minima and maxima are
taken apart into cases:

- Every loop variable is replaced by the end of its range that makes the position least, as an expression, until only
  dimensions are left, and what they have in common cancels.
- The position is written as a sum of what is known not to be negative (`loops.combination`): the distances of variables
  to the ends of their ranges, the conditions under which the statement is reached, the rests of divisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from sterna.ir.division import divide_exactly
from sterna.ir.extremum import Extremum
from sterna.ir.integer import ONE, ZERO, Atom, FloorDiv, Int, Mod, Monomial, Symbol, as_int, of
from sterna.loops.clamps import without_clamps
from sterna.loops.combination import is_combination
from sterna.loops.refute import Box, is_refuted
from sterna.loops.size_names import of_some, shifted_sizes
from sterna.te.position import IndexAtom, Quotient

_MOST_CASES = 6  # minima and maxima in one position
_MOST_FACTS = 60


@dataclass(frozen=True)
class Range:
    """A variable's least and greatest value."""

    least: Int
    greatest: Int


class _Remainder(Symbol):
    """What a division that is taken apart leaves."""

    __slots__ = ()


def at_least_zero(value: Int, ranges: Mapping[Symbol, Range], known: Sequence[Int] = ()) -> bool:
    """Whether value >= 0 can be shown.

    Args:
        ranges: of loop variables, outer first; a range may depend on variables before it and on dimensions.
        known: integers that are not negative here.
    """
    lo = value.bounds()[0]
    if lo is not None and lo >= 0:
        return True
    if some := _dimensions_of_some(value, ranges, known):
        value, known = value.substitute(some), [fact.substitute(some) for fact in known]
        ranges = {s: Range(r.least.substitute(some), r.greatest.substitute(some)) for s, r in ranges.items()}
    names: dict[Atom, Int] = {s: r.least for s, r in ranges.items() if r.least == r.greatest}
    apart, rest = _apart(ranges, names)
    inside, ends = without_clamps(value, rest, ranges)
    if ends:
        within = {s: r if s.hi is None or r.greatest.symbols().isdisjoint(ranges) else Range(r.least, as_int(s.hi))
                  for s, r in apart.items()} | {s: Range(ZERO, end) for s, end in ends.items()}  # fmt: skip
        if _by_cases(*_question(inside, within, rest, known), _MOST_CASES, False):
            return True
    whole = _question(value, _open(ranges, names), names, known)
    if _by_cases(*whole, _MOST_CASES, False):
        return True
    questions = [whole] if len(rest) == len(names) else [whole, _question(value, apart, rest, known)]
    questions = [(v, r, _relaxed(facts, v)) for v, r, facts in questions]
    if any(_by_cases(*question, _MOST_CASES, combined) for combined in (False, True) for question in questions):
        return True
    if not (sizes := shifted_sizes((value, *known))):
        return False
    ranges = {s: Range(r.least.substitute(sizes), r.greatest.substitute(sizes)) for s, r in ranges.items()}
    return at_least_zero(value.substitute(sizes), ranges, [fact.substitute(sizes) for fact in known])


def _dimensions_of_some(value: Int, ranges: Mapping[Symbol, Range], known: Sequence[Int]) -> dict[Atom, Int]:
    """Dimensions that may be 0, but are not here: no loop around the position would run, or a condition not hold. Each
    by one that is at least 1, of which minima and maxima with ends of tensors say more."""
    may_be = [a for a in value.symbols() if a.lo == 0 and a.hi != 0 and a not in ranges]
    if not may_be:
        return {}
    facts = [*known, *(r.greatest - r.least for r in ranges.values())]
    facts = [fact for fact in facts if not any(isinstance(a, IndexAtom) for a in fact.atoms())]  # no division by 0

    def is_some(dimension: Symbol) -> bool:
        here = (fact.substitute({dimension: ZERO}).bounds()[1] for fact in facts if dimension in fact.symbols())
        return any(most is not None and most < 0 for most in here)

    return {a: of(of_some(a)) for a in may_be if is_some(a)}


_Question = tuple[Int, Mapping[Symbol, Range], Sequence[Int]]


def _question(value: Int, ranges: Mapping[Symbol, Range], names: Mapping[Atom, Int], known: Sequence[Int]) -> _Question:
    """The value, the ranges and the facts, without names."""
    # Every loop that encloses the position runs at least once.
    facts = [_without_names(k, names) for k in known] + [r.greatest - r.least for r in ranges.values()]
    value = _without_names(value, names)
    value, facts, ranges = _named_positions(value, facts, ranges)
    return value, ranges, facts


def _apart(ranges: Mapping[Symbol, Range], names: Mapping[Atom, Int]) -> tuple[dict[Symbol, Range], dict[Atom, Int]]:
    """Ranges in which names of parts of a fused loop's variable are variables of their own, and the other names.

    The quotient and the remainder of a variable go their own ways from end to end; as expressions of the variable they
    would have to cancel.
    """
    found: dict[Symbol, Range] = {}
    rest: dict[Atom, Int] = {}
    for s, r in ranges.items():
        if s not in names:
            found[s] = Range(_without_names(r.least, rest), _without_names(r.greatest, rest))
            continue
        value = names[s].substitute(rest)
        ends = _ends(value, found) if any(v in found for v in value.symbols()) else None
        if ends is None:
            rest[s] = value
        else:
            found[s] = ends
    return found, rest


def _ends(value: Int, ranges: Mapping[Symbol, Range]) -> Range | None:
    """The ends of a quotient or a remainder."""
    ((monomial, coefficient), *more) = value.terms.items()
    if more or value.const or coefficient != 1 or len(monomial) != 1:
        return None
    (atom,) = monomial
    if isinstance(atom, Mod):
        return Range(ZERO, as_int(atom.divisor - 1))
    if not isinstance(atom, FloorDiv):
        return None
    least, negative = (_at_ends(without_remainders(v), ranges) for v in (value, -value))
    return None if least is None or negative is None else Range(least, -negative)


def _named_positions(
    value: Int, facts: Sequence[Int], ranges: Mapping[Symbol, Range]
) -> tuple[Int, list[Int], dict[Symbol, Range]]:
    """Computed positions as variables with ranges: as such they have ends that depend on dimensions."""
    atoms = dict.fromkeys(a for n in (value, *facts) for a in n.atoms() if isinstance(a, IndexAtom))
    names = {a: Symbol("position", a.lo, a.hi) for a in atoms}
    values: dict[Atom, Int] = {a: of(s) for a, s in names.items()}
    found = {s: Range(ZERO, without_remainders(a.greatest)) for a, s in names.items()}
    # What is known of a quotient says something of the quotients that are made of it.
    ends, all_facts = [*facts, *(r.greatest - of(s) for s, r in ranges.items())], [*facts]
    for a in reversed(names):
        new = list(_of_quotient(a, ends)) if isinstance(a, Quotient) else []
        ends, all_facts = [*ends, *new], [*all_facts, *new]
    fresh, quotients = [*facts], [a for a in names if isinstance(a, Quotient)]
    while fresh:
        fresh = [more for a in quotients for fact in fresh for more in _of_dividend(a, fact)]
        all_facts += fresh
    return value.substitute(values), [f.substitute(values) for f in all_facts], {**ranges, **found}


def _of_quotient(atom: Quotient, facts: Sequence[Int]) -> Iterator[Int]:
    """What is known of the quotient by a size: what it leaves; and below n times the size, it is below n."""
    rest = atom.dividend - of(atom) * atom.divisor
    yield from (rest, atom.divisor - 1 - rest)
    for fact in facts:
        if (most := divide_exactly(fact + atom.dividend + 1, atom.divisor)) is not None:
            yield most - 1 - of(atom)


def _of_dividend(atom: Quotient, fact: Int) -> Iterator[Int]:
    """What is known of a quotient by a size says it of what was divided: below n, that is below n times the size."""
    most = fact + of(atom)
    if fact.coefficient(atom) == -1 and not any(isinstance(a, IndexAtom) for a in most.atoms()):
        yield (most + 1) * atom.divisor - 1 - atom.dividend


def _without_names(value: Int, names: Mapping[Atom, Int]) -> Int:
    """The integer with every name replaced by what it stands for, and remainders written as divisions."""
    used = dict(names)
    while used:
        used = {s: names[s] for s in value.symbols() if s in names}
        value = value.substitute(used)
    return without_remainders(value)


def _open(ranges: Mapping[Symbol, Range], names: Mapping[Atom, Int]) -> dict[Symbol, Range]:
    return {
        s: Range(_without_names(r.least, names), _without_names(r.greatest, names))
        for s, r in ranges.items()
        if s not in names
    }


def without_remainders(value: Int) -> Int:
    """The integer with x - d (x // d) in the place of x % d, so that equal quotients cancel."""
    values: dict[Atom, Int] = {}
    for monomial in value.terms:
        for atom in monomial:
            if parts := atom.parts():
                new = tuple(without_remainders(p) for p in parts)
                if isinstance(atom, Mod):
                    values[atom] = new[0] - new[0] // atom.divisor * atom.divisor
                elif new != parts:
                    values[atom] = atom.rebuild(new)
    return value.substitute(values) if values else value


def _relaxed(facts: Sequence[Int], value: Int) -> list[Int]:
    """The facts, and what follows from them in terms of the dimensions and of the quotients that the value has."""
    quotients = [a for a in value.atoms() if isinstance(a, FloorDiv)]
    found = dict.fromkeys(f for f in facts if f.terms)
    fresh = list(found)
    while fresh and len(found) < _MOST_FACTS:
        new = [r for f in fresh for r in _without_division(f, quotients) if r.terms and r not in found]
        found.update(dict.fromkeys(new))
        fresh = new
    return list(found)


def _without_division(value: Int, quotients: Sequence[FloorDiv]) -> list[Int]:
    """Multiples of the value, or a little more, in which x / d, or a finer quotient of x, stands for x // d."""
    division = next((m[0] for m in value.terms if len(m) == 1 and isinstance(m[0], FloorDiv)), None)
    if not isinstance(division, FloorDiv):
        return []
    coefficient = value.terms[(division,)]
    rest = value - of(division) * coefficient
    results = []
    for divided, divisor in (*_finer(division, quotients), _whole(division)):
        # Whatever the remainders are, the most that the term can be.
        spread = divided * coefficient
        ends: dict[Atom, Int] = {}
        for a in spread.symbols():
            end = a.hi if spread.terms.get((a,), 0) > 0 else a.lo
            if isinstance(a, _Remainder) and end is not None:
                ends[a] = as_int(end)
        results.append(rest * divisor + spread.substitute(ends))
    return results


def _by_cases(value: Int, ranges: Mapping[Symbol, Range], known: Sequence[Int], cases: int, combined: bool) -> bool:
    """Whether value >= 0, whichever operand every minimum and maximum is; `combined`: by the dear method too."""
    extremum = next((a for a in value.atoms() if isinstance(a, Extremum)), None)
    if extremum is None:
        if _plainly(value, tuple(ranges.items()), tuple(known)) or (combined and _combined(value, ranges, known)):
            return True
        # In the order of terms: that of a set is another in every process.
        varying = (ranges[s] for s in value.atoms() if isinstance(s, Symbol) and s in ranges)
        ends = (end for r in varying for end in (r.least, r.greatest))
        extremum = next((a for end in ends for a in end.atoms() if isinstance(a, Extremum)), None)
    if extremum is None or cases == 0:
        return False
    a, b = extremum.operands
    factor = _factor(value, extremum)
    # A minimum that is taken away, or a maximum that is added: either operand gives a lower bound.
    if factor is not None and _sign(factor) == (extremum.kind == "max"):
        either = (value.substitute({extremum: case}) for case in (a, b))
        if any(_by_cases(without_remainders(v), ranges, known, cases - 1, combined) for v in either):
            return True
    difference = b - a if extremum.kind == "min" else a - b
    for case, order in ((a, difference), (b, -difference)):

        def settled(n: Int, chosen: Mapping[Atom, Int] = MappingProxyType({extremum: case})) -> Int:
            return n.substitute(chosen)

        within = {s: Range(settled(r.least), settled(r.greatest)) for s, r in ranges.items()}
        facts = [*map(settled, known), order]
        if not _by_cases(without_remainders(settled(value)), within, facts, cases - 1, combined):
            return False
    return True


@lru_cache(maxsize=1 << 10)
def _plainly(value: Int, ranges: tuple[tuple[Symbol, Range], ...], known: tuple[Int, ...]) -> bool:
    """Whether value >= 0 without the dear method. Remembered: that one is tried when all questions have failed here."""
    within = dict(ranges)
    box = Box([value, *known, *(end for r in within.values() for end in (r.least, r.greatest))])
    return _by_ends(value, within, known, box) or any(
        _by_ends(less, within, known, box) for less in _less(value, known)
    )


def _less(value: Int, known: Sequence[Int], box: Box | None = None) -> Iterator[Int]:
    """Multiples of the value less multiples of known integers, so that an atom cancels: where one of them is not
    negative, the value is not.

    Args:
        box: what is negative there is left out.
    """
    factors: dict[Atom, Int | None] = {}
    for k in known:
        found: set[Int] = set()
        if box is None or not box.refutes(value, 1, k, ONE):
            found.add(less := value - k)
            yield less
        for monomial, coefficient in k.terms.items():
            if len(monomial) != 1:
                continue
            (atom,) = monomial
            if atom not in factors:
                factors[atom] = _factor(value, atom)
            factor = factors[atom]
            if factor is None or factor == 0:
                continue
            weight, times = factor if coefficient > 0 else -factor, abs(coefficient)
            if (box is None or not box.refutes(value, times, k, weight)) and _least_of_dimensions(weight):
                less = value * times - k * weight
                if less not in found:
                    found.add(less)
                    yield less


def _combined(value: Int, ranges: Mapping[Symbol, Range], known: Sequence[Int]) -> bool:
    """Whether the integer is a combination of what is known about its variables."""
    facts = list(known)
    for s, r in ranges.items():
        facts += [of(s) - r.least, r.greatest - of(s)]
    # A quotient is monotonous, so it has the ends of what is divided, rounded: more than its rest tells.
    ends = [end for r in ranges.values() for end in (r.least, r.greatest)]
    quotients = list(
        dict.fromkeys(a for part in (value, *known, *ends) for a in part.atoms() if isinstance(a, FloorDiv))
    )
    for quotient in quotients:
        for greatest in (False, True):
            end = quotient.value
            for s in reversed(list(ranges)):
                if (step := end.coefficient(s)) is None:
                    break
                if step:
                    end = end.substitute({s: ranges[s].greatest if (step > 0) == greatest else ranges[s].least})
            end = without_remainders(end // quotient.divisor)
            facts.append(end - of(quotient) if greatest else of(quotient) - end)
    for fine in quotients:
        for coarse in quotients:
            facts += _between(fine, coarse)
    facts = [f for f in facts if f.terms]
    if is_combination(value, facts):
        return True
    # What is known of a quotient says something of the quotients that are made of it.
    more = list(known)
    for quotient in sorted(quotients, key=lambda q: divisions(q.value)):
        more += _of_division(quotient, more)
    return len(more) > len(known) and is_combination(value, [*facts, *more[len(known) :]])


def _of_division(quotient: FloorDiv, known: Sequence[Int]) -> list[Int]:
    """What x + f >= x >= x - f says of x // d, where f >= 0 is known and nothing of it is left to divide."""
    found = []
    for fact in known:
        if not quotient.value.symbols().isdisjoint(fact.symbols()):
            most, least = ((quotient.value + f) // quotient.divisor for f in (fact, -fact))
            if not divisions(most):
                found.append(most - of(quotient))
            if not divisions(least):
                found.append(of(quotient) - least)
    return [fact for fact in found if fact.terms]


def divisions(value: Int) -> int:
    """How many there are, those within others included."""
    return sum(isinstance(atom, FloorDiv) for atom in value.atoms())


def _between(fine: FloorDiv, coarse: FloorDiv) -> list[Int]:
    """What x // d says of (x + c) // (d e), by (x + c) // (d e) = ((x + c) // d) // e."""
    apart = coarse.value - fine.value
    times, rest = divmod(coarse.divisor, fine.divisor)
    if fine is coarse or rest or not apart.is_const:
        return []
    least, most = of(fine) + int(apart) // fine.divisor, of(fine) - (-int(apart)) // fine.divisor
    return [most - of(coarse) * times, of(coarse) * times + (times - 1) - least]


def _by_ends(value: Int, ranges: Mapping[Symbol, Range], known: Sequence[Int], box: Box) -> bool:
    """Whether value >= 0 where every variable is at the end of its range that makes it least."""
    least = _at_ends(value, ranges)
    return least is not None and (
        _least_of_dimensions(least) or any(map(_least_of_dimensions, _less(least, known, box)))
    )


def _at_ends(value: Int, ranges: Mapping[Symbol, Range]) -> Int | None:
    """The value where every variable is at the end of its range that makes it least; None if that cannot be told."""
    present = value.symbols()
    for symbol in reversed(list(ranges)):
        if symbol not in present:
            continue
        for quotient in [a for m in value.terms for a in m if isinstance(a, FloorDiv) and symbol in a.value.symbols()]:
            factor, step = _factor(value, quotient), quotient.value.coefficient(symbol)
            upward = None if factor is None else _sign(factor)
            if upward is None or not step:
                return None
            end = ranges[symbol].least if upward == (step > 0) else ranges[symbol].greatest
            value = value.substitute({quotient: quotient.value.substitute({symbol: end}) // quotient.divisor})
            present |= end.symbols()
        factor = _factor(value, symbol)
        if factor is None:
            return None
        if factor == 0:
            continue
        upward = _sign(factor)
        if upward is None:
            return None
        end = ranges[symbol].least if upward else ranges[symbol].greatest
        value = value.substitute({symbol: end})
        present |= end.symbols()
    return value


def _sign(factor: Int) -> bool | None:
    """Whether a factor is never negative (True), or never positive (False); None if that cannot be told."""
    if _least_of_dimensions(factor):
        return True
    return False if _least_of_dimensions(-factor) else None


@lru_cache(maxsize=1 << 14)
def _least_of_dimensions(value: Int) -> bool:
    """Whether a polynomial over dimensions and floor divisions of them is never negative.

    Remembered: cases of minima and maxima ask the same of their parts hundreds of thousands of times.
    """
    if value.terms:
        common = math.gcd(*value.terms.values())
        value = Int({m: c // common for m, c in value.terms.items()}, value.const // common)
    if is_refuted(value):
        return False
    scale = 1  # what is asked is whether an integer is not negative; `value` is this multiple of it
    for _ in range(8):
        if _shifted(value + (scale - 1)):
            return True
        divisions = list(dict.fromkeys(a for m in value.terms for a in m if isinstance(a, FloorDiv)))
        if not divisions:
            return False
        # Outer and coarse divisions first: what is inside them, or finer, may then cancel.
        division = max(divisions, key=lambda d: (sum(isinstance(a, FloorDiv) for a in d.value.atoms()), d.divisor))
        divided, divisor = next(_finer(division, divisions), _whole(division))
        # The sign of the value is that of a multiple of it.
        total = as_int(value.const * divisor)
        for monomial, coefficient in value.terms.items():
            term = as_int(coefficient)
            for atom in monomial:
                term = term * (divided if atom == division else Int({(atom,): 1}, 0))
            power = monomial.count(division)
            if power > 1:
                return False
            total = total + (term if power else term * divisor)
        value, scale = total, scale * divisor
    return False


def _finer(division: FloorDiv, others: Sequence[FloorDiv]) -> Iterator[tuple[Int, int]]:
    """(y, e) with e * division = y, by finer quotients of what is divided: (x + c) // (d e) = ((x + c) // d) // e,
    where (x + c) // d is x // d and a little more."""
    for fine in others:
        apart = division.value - fine.value
        times, uneven = divmod(division.divisor, fine.divisor)
        if fine != division and not uneven and times > 1 and apart.is_const:
            more = of(_Remainder("more", int(apart) // fine.divisor, -(-int(apart) // fine.divisor)))
            yield of(fine) + more - of(_Remainder("rest", 0, times - 1)), times


def _whole(division: FloorDiv) -> tuple[Int, int]:
    """(x - r, d) with d (x // d) = x - r, 0 <= r < d."""
    return division.value - of(_Remainder("rest", 0, division.divisor - 1)), division.divisor


def _shifted(value: Int) -> bool:
    """Interval arithmetic after every factor is measured from its least value, so that products of what is left over
    are not negative."""
    shifts: dict[Atom, Int] = {}
    for monomial in value.terms:
        for atom in monomial:
            if atom.lo:
                shifts[atom] = of(Symbol("s", 0, None if atom.hi is None else atom.hi - atom.lo)) + atom.lo
    lo = (value.substitute(shifts) if shifts else value).bounds()[0]
    return lo is not None and lo >= 0


def _factor(value: Int, atom: Atom) -> Int | None:
    """q with value = q atom + rest; None if the value is not linear in the atom."""
    terms: dict[Monomial, int] = {}
    constant = 0
    for monomial, coefficient in value.terms.items():
        if any(atom in part.atoms() for other in monomial for part in other.parts()):
            return None
        count = monomial.count(atom)
        if count > 1:
            return None
        if count:
            left = list(monomial)
            left.remove(atom)
            if left:
                terms[tuple(left)] = coefficient
            else:
                constant += coefficient
    return Int(terms, constant)
