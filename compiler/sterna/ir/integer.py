"""Symbolic integers: dimensions of tensors, index expressions, offsets, loop bounds.

An `Int` is a polynomial with integer coefficients over *atoms*: symbols with known bounds, floor divisions and
remainders by a constant, minima and maxima (`ir.extremum`) and opaque values (an index that is itself loaded from
memory). It is kept in canonical form from construction on, so equal expressions compare equal, `//` and `%` disappear
wherever the bounds of the symbols allow, and there is no separate simplifier to call:

    >>> f = symbol("f", 0, 111)
    >>> (f // 14) * 14 + f % 14 == f
    True
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

from sterna.escape import terminal
from sterna.ir.open_size import OpenSizeError

Bound = int | None  # None: unbounded on that side
Values = Callable[["Atom"], Any]
# Generated code computes sizes in 32 bits: what a merged quotient adds to one leaves it within them.
_MOST_ADDED = 1 << 16


class Atom:
    """A factor of a term. `lo` and `hi` are inclusive bounds; None where nothing is known."""

    __slots__ = ("_hash", "_key", "hi", "lo")

    def __init__(self, lo: Bound, hi: Bound, key: tuple[Any, ...] | None = None):
        self.lo, self.hi = lo, hi
        self._key = key
        self._hash = id(self) if key is None else hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Atom) and self._key is not None and self._key == other._key

    def parts(self) -> tuple[Int, ...]:
        """The integers this atom is made of."""
        return ()

    def expressions(self) -> tuple[Any, ...]:
        """The value expressions (`te.expr.Expr`) this atom is made of; their positions are among `parts`."""
        return ()

    def rebuild(self, parts: tuple[Int, ...]) -> Int:
        """The same operation on other operands."""
        return Int({(self,): 1}, 0)

    def evaluate(self, values: Values) -> Any:
        """The value for given symbols, as of `Int.evaluate`."""
        return values(self)


class Symbol(Atom):
    """A named unknown: a dimension of the model, the variable of a loop. A symbol equals only itself."""

    __slots__ = ("name", "number")
    _numbers = itertools.count()
    # Those of `Atom` give the same, and take longer.
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __init__(self, name: str, lo: Bound = 0, hi: Bound = None):
        super().__init__(lo, hi)
        self.name = name
        self.number = next(self._numbers)

    def __str__(self) -> str:
        return self.name if self.name.isprintable() else terminal(self.name)

    def __repr__(self) -> str:
        return f"Symbol({self.name}, {self.lo}, {self.hi})"


class ComputedSymbol(Symbol):
    """The size of a dimension that a model computes while it runs. Tensors that have it lie in memory for `hi`."""

    __slots__ = ()


class FloorDiv(Atom):
    """Floor division by a positive constant."""

    __slots__ = ("divisor", "value")

    def __init__(self, value: Int, divisor: int):
        lo, hi = value.bounds()
        super().__init__(
            None if lo is None else lo // divisor, None if hi is None else hi // divisor, ("//", value, divisor)
        )
        self.value, self.divisor = value, divisor

    def parts(self) -> tuple[Int, ...]:
        return (self.value,)

    def rebuild(self, parts: tuple[Int, ...]) -> Int:
        return parts[0] // self.divisor

    def evaluate(self, values: Values) -> Any:
        return self.value.evaluate(values) // self.divisor

    def __str__(self) -> str:
        return f"({self.value}) // {self.divisor}"


class Mod(Atom):
    """Remainder of the floor division by a positive constant."""

    __slots__ = ("divisor", "value")

    def __init__(self, value: Int, divisor: int):
        lo, hi = value.bounds()
        if lo is not None and hi is not None and lo // divisor == hi // divisor:
            lo, hi = lo % divisor, hi % divisor
        else:
            lo, hi = 0, divisor - 1
        super().__init__(lo, hi, ("%", value, divisor))
        self.value, self.divisor = value, divisor

    def parts(self) -> tuple[Int, ...]:
        return (self.value,)

    def rebuild(self, parts: tuple[Int, ...]) -> Int:
        return parts[0] % self.divisor

    def evaluate(self, values: Values) -> Any:
        return self.value.evaluate(values) % self.divisor

    def __str__(self) -> str:
        return f"({self.value}) % {self.divisor}"


Monomial = tuple[Atom, ...]
IntLike = Union["Int", int]


class Int:
    """A symbolic integer; immutable. See the module's docstring."""

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, terms: dict[Monomial, int], const: int):
        self.terms, self.const = terms, const
        self._hash: int | None = None

    # -- identity
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms.items()), self.const)) if self.terms else hash(self.const)
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return not self.terms and self.const == other
        return isinstance(other, Int) and self.const == other.const and self.terms == other.terms

    @property
    def is_const(self) -> bool:
        return not self.terms

    def __int__(self) -> int:
        if self.terms:
            raise OpenSizeError(self)
        return self.const

    __index__ = __int__

    # -- arithmetic
    def __add__(self, other: IntLike) -> Int:
        if isinstance(other, int):
            return self if other == 0 else Int(self.terms, self.const + other)
        if not other.terms:
            return self if other.const == 0 else Int(self.terms, self.const + other.const)
        if not self.terms:
            return other if self.const == 0 else Int(other.terms, self.const + other.const)
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return _recombine(terms, self.const + other.const)

    def __mul__(self, other: IntLike) -> Int:
        if isinstance(other, Int):
            if other.terms and self.terms:
                return self._times(other)
            if not other.terms:
                other = other.const
            else:
                return other * self.const
        if other == 1:
            return self
        if other == 0:
            return ZERO
        return Int({m: c * other for m, c in self.terms.items()}, self.const * other)

    def _times(self, other: Int) -> Int:
        total = self * other.const
        for monomial, coefficient in other.terms.items():
            product: dict[Monomial, int] = {}
            for mine, factor in [*self.terms.items(), ((), self.const)]:
                if factor:
                    key = tuple(sorted((*mine, *monomial), key=_order))
                    product[key] = product.get(key, 0) + factor * coefficient
            total = total + Int(product, 0)
        return total

    def __floordiv__(self, divisor: IntLike) -> Int:
        d = int(divisor)
        if d <= 0:
            raise ValueError(f"division of {self} by {d}")
        if d == 1:
            return self
        quotient, rest = self._divide(d)
        lo, hi = rest.bounds()
        if lo is not None and hi is not None and lo // d == hi // d:
            return quotient + lo // d
        # floor((g a + b) / (g e)) = floor((a + floor(b / g)) / e)
        g = math.gcd(d, *rest.terms.values())
        if g > 1:
            rest = Int({m: c // g for m, c in rest.terms.items()}, rest.const // g)
            return quotient + rest // (d // g)
        if (blocks := _blocks(rest, d)) is not None:
            g, whole, _ = blocks
            return quotient + whole // (d // g)
        if len(rest.terms) == 1:
            ((monomial, coefficient),) = rest.terms.items()
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], FloorDiv):
                # floor((floor(a / e) + b) / d) = floor((a + b e) / (e d))
                inner = monomial[0]
                added, divisor = rest.const * inner.divisor, inner.divisor * d
                if divisor < 1 << 31 and abs(added) < _MOST_ADDED:
                    return quotient + (inner.value + added) // divisor
        return quotient + Int({(FloorDiv(rest, d),): 1}, 0)

    def __mod__(self, divisor: IntLike) -> Int:
        d = int(divisor)
        if d <= 0:
            raise ValueError(f"remainder of {self} by {d}")
        if d == 1:
            return ZERO
        _, rest = self._divide(d)
        lo, hi = rest.bounds()
        if lo is not None and hi is not None and lo // d == hi // d:
            return rest + -(lo // d) * d
        g = math.gcd(d, rest.const, *rest.terms.values())
        if g > 1:
            return (Int({m: c // g for m, c in rest.terms.items()}, rest.const // g) % (d // g)) * g
        if (blocks := _blocks(rest, d)) is not None:
            g, whole, within = blocks
            return (whole % (d // g)) * g + within
        whole = _without_multiples(rest, d)
        return Int({(Mod(rest, d),): 1}, 0) if whole is rest else whole % d

    def _divide(self, d: int) -> tuple[Int, Int]:
        """Splits off the part divisible by `d`: self = quotient * d + rest."""
        quotient, rest = {}, {}
        for monomial, coefficient in self.terms.items():
            # A remainder of small magnitude is kept with its sign, so that x - y stays x - y.
            q = coefficient // d if coefficient % d == 0 or abs(coefficient) > d else 0
            if q:
                quotient[monomial] = q
            if coefficient - q * d:
                rest[monomial] = coefficient - q * d
        q, r = divmod(self.const, d)
        if rest:
            return Int(quotient, q), Int(rest, r)
        return Int(quotient, q), Int({}, r)

    def __neg__(self) -> Int:
        return self * -1

    def __sub__(self, other: IntLike) -> Int:
        return self + (other * -1)

    def __rsub__(self, other: IntLike) -> Int:
        return (self * -1) + other

    __radd__ = __add__
    __rmul__ = __mul__

    # -- questions
    def bounds(self) -> tuple[Bound, Bound]:
        """Inclusive bounds by interval arithmetic; None where unbounded."""
        lo: Bound = self.const
        hi: Bound = self.const
        for monomial, coefficient in self.terms.items():
            if len(monomial) == 1:
                mlo, mhi = monomial[0].lo, monomial[0].hi
            else:
                mlo, mhi = _product_bounds(monomial)
            if coefficient < 0:
                mlo, mhi = mhi, mlo
            lo = None if lo is None or mlo is None else lo + coefficient * mlo
            hi = None if hi is None or mhi is None else hi + coefficient * mhi
        return lo, hi

    def atoms(self) -> Iterator[Atom]:
        """Every atom, those inside divisions and extrema included."""
        for monomial in self.terms:
            for atom in monomial:
                yield atom
                for part in atom.parts():
                    yield from part.atoms()

    def expressions(self) -> list[Any]:
        """The value expressions that its atoms are made of, those inside divisions and extrema included."""
        found: list[Any] = []
        for monomial in self.terms:
            for atom in monomial:
                if not isinstance(atom, Symbol):
                    found += atom.expressions()
                    for part in atom.parts():
                        found += part.expressions()
        return found

    def symbols(self) -> set[Symbol]:
        return {found for monomial in self.terms for atom in monomial for found in _symbols(atom)}

    def coefficient(self, atom: Atom) -> int | None:
        """The factor of `atom` if the integer is linear in it (0 if it does not occur), else None."""
        found = 0
        for monomial, coefficient in self.terms.items():
            if len(monomial) == 1:
                if monomial[0] is atom or monomial[0] == atom:
                    found = coefficient
                    continue
                if any(atom == inner for part in monomial[0].parts() for inner in part.atoms()):
                    return None
            elif any(atom == a or any(atom == i for p in a.parts() for i in p.atoms()) for a in monomial):
                return None
        return found

    def substitute(self, values: Mapping[Atom, Int]) -> Int:
        """The integer with atoms replaced, in canonical form again."""
        if not self.terms:
            return self
        total = Int({}, self.const)
        kept: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms.items():
            if len(monomial) == 1:
                (only,) = monomial
                if (value := values.get(only)) is not None:
                    total = total + (value * coefficient if value.terms else value.const * coefficient)
                    continue
                if isinstance(only, Symbol):
                    kept[monomial] = coefficient
                    continue
            product: Int | None = None
            for atom in monomial:
                value = values.get(atom)
                if value is None and (parts := atom.parts()):
                    new = tuple(p.substitute(values) for p in parts)
                    value = atom.rebuild(new) if new != parts else None
                factor = value if value is not None else Int({(atom,): 1}, 0)
                product = factor if product is None else product * factor
            assert product is not None
            if product.terms == {monomial: 1} and product.const == 0:
                kept[monomial] = coefficient
            else:
                total = total + product * coefficient
        if len(kept) == len(self.terms):
            return self
        return total + Int(kept, 0) if kept else total

    def evaluate(self, values: Values) -> Any:
        """The value for given symbols; works on whole arrays of them too."""
        total: Any = self.const
        for monomial, coefficient in self.terms.items():
            product: Any = coefficient
            for atom in monomial:
                product = product * atom.evaluate(values)
            total = total + product
        return total

    def __str__(self) -> str:
        if not self.terms:
            return str(self.const)
        text = ""
        for monomial, coefficient in self.terms.items():
            factors = "*".join(
                f"({a})" if isinstance(a, (FloorDiv, Mod)) and len(monomial) > 1 else str(a) for a in monomial
            )
            if abs(coefficient) != 1:
                factors = (
                    f"({factors})*{abs(coefficient)}"
                    if isinstance(monomial[0], (FloorDiv, Mod)) and len(monomial) == 1
                    else f"{factors}*{abs(coefficient)}"
                )
            text += (" - " if coefficient < 0 else " + ") + factors
        text = text[3:] if text.startswith(" + ") else "-" + text[3:]
        if self.const:
            text += f" {'-' if self.const < 0 else '+'} {abs(self.const)}"
        return text

    def __repr__(self) -> str:
        return f"Int({self})"


ZERO = Int({}, 0)
ONE = Int({}, 1)


def as_int(value: IntLike) -> Int:
    return value if isinstance(value, Int) else Int({}, int(value))


def symbol(name: str, lo: Bound = 0, hi: Bound = None) -> Int:
    """A new symbol, as an integer."""
    return Int({(Symbol(name, lo, hi),): 1}, 0)


def of(atom: Atom) -> Int:
    """The integer that is just this atom."""
    if atom.lo is not None and atom.lo == atom.hi:
        return Int({}, atom.lo)
    return Int({(atom,): 1}, 0)


def _without_multiples(value: Int, divisor: int) -> Int:
    """The integer with x in the place of x % n where n is a multiple of the divisor: its remainder is the same."""
    for monomial, coefficient in value.terms.items():
        (atom, *others) = monomial
        if not others and isinstance(atom, Mod) and atom.divisor % divisor == 0:
            value = value + (atom.value - Int({monomial: 1}, 0)) * coefficient
    return value


def _blocks(value: Int, divisor: int) -> tuple[int, Int, Int] | None:
    """(g, a, r) with value = g a + r, 0 <= r < g and g a divisor of `divisor`, if there is such a g > 1: then
    floor(value / (g e)) = floor(a / e)."""
    for g in sorted({math.gcd(c, divisor) for c in value.terms.values()}, reverse=True):
        if g == 1:
            return None
        whole = Int({m: c // g for m, c in value.terms.items() if c % g == 0}, value.const // g)
        within = Int({m: c for m, c in value.terms.items() if c % g}, value.const % g)
        lo, hi = within.bounds()
        if whole.terms and lo is not None and hi is not None and lo >= 0 and hi < g:
            return g, whole, within
    return None


def _symbols(atom: Atom) -> set[Symbol]:
    return {atom} if isinstance(atom, Symbol) else {each for part in atom.parts() for each in part.symbols()}


def _order(atom: Atom) -> tuple[str, list[int]]:
    """Where an atom stands in a product: by its text, atoms of the same text by which symbols were made first."""
    return str(atom), sorted(each.number for each in _symbols(atom))


def _product_bounds(monomial: Monomial) -> tuple[Bound, Bound]:
    lo: Bound = 1
    hi: Bound = 1
    for atom in monomial:
        if atom.lo is None or atom.lo < 0 or lo is None:
            return None, None  # products of negative factors are not needed anywhere
        lo = lo * atom.lo
        hi = None if hi is None or atom.hi is None else hi * atom.hi
    return lo, hi


def _recombine(terms: dict[Monomial, int], const: int) -> Int:
    """Merges k*d*(x // d) + k*(x % d) into k*x, where the quotient may be written as a sum."""
    for monomial, k in terms.items():
        if len(monomial) != 1 or not isinstance(monomial[0], Mod):
            continue
        mod = monomial[0]
        for quotient in _quotients(mod):
            factor = k * mod.divisor
            divided = {m: c for m, c in quotient.terms.items() if any(isinstance(a, FloorDiv) for a in m)}
            if divided and all(terms.get(m) == factor * c for m, c in divided.items()):
                rest = {m: c for m, c in terms.items() if m != monomial}
                return Int(rest, const) + (mod.value - quotient * mod.divisor) * k
    return Int(terms, const)


def _quotients(mod: Mod) -> Iterator[Int]:
    """What is left out of a remainder, as it may be written."""
    x, d = mod.value, mod.divisor
    yield Int({(FloorDiv(x, d),): 1}, 0)
    for monomial, coefficient in x.terms.items():
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], FloorDiv):
            # floor((a + floor(b / e)) / d) = floor((a e + b) / (e d))
            inner = monomial[0]
            others = Int({m: c for m, c in x.terms.items() if m != monomial}, x.const)
            yield (others * inner.divisor + inner.value) // (inner.divisor * d)
