"""Products of what lies in memory while they are in flight: who may touch what they read, and when (`loops.races`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sterna.loops import program as P
from sterna.loops.touched import Access
from sterna.te import expr as E


@dataclass
class Products:
    """Those that have begun and are not waited for, the oldest first: their sums, and what they read."""

    begun: list[tuple[P.Variable, list[Access]]] = field(default_factory=list)

    def settle(self, in_flight: int) -> None:
        self.begun = self.begun[-in_flight:] if in_flight else []

    def statement(self, s: P.Stmt, reads: list[Access]) -> Iterator[str]:
        """What is wrong with a statement that reads this: sums of products that go on nothing but products may name."""
        product = s.variable if isinstance(s, P.Assign) and P.is_product_in_memory(s.value) else None
        value = s.computes()
        used = {node.variable for node in E.walk(value) if isinstance(node, P.Read)} if value is not None else set()
        if isinstance(s, P.Assign):
            used.add(s.variable)
        for sums in {sums for sums, _ in self.begun if sums in used and sums is not product}:
            yield f"{sums.name} is used before its product is waited for"
        if product is not None:
            self.begun.append((product, reads))

    def access(self, access: Access, meet: Callable[[Access, Access], bool]) -> Iterator[str]:
        """What is wrong with an access: what products of any thread may read yet nobody may write, so that no interval
        between barriers has to have those reads once more."""
        for sums, reads in self.begun if access.writes else ():
            if any(r.buffer is access.buffer and meet(r, access) for r in reads):
                yield f"{access.buffer.name} is written before the product that {sums.name} has ended"

    def never_waited_for(self) -> Iterator[str]:
        for sums, _ in self.begun:
            yield f"the product that {sums.name} has is never waited for"

    def accesses(self) -> list[Access]:
        return [a for _, reads in self.begun for a in reads]
