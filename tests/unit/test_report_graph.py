"""Reports: who reads what whom wrote, where boxes stand, what is alive when, and steps in words."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.report.layout import lay_out
from sterna.report.links import links
from sterna.report.memory import alive, buffers_of, lives, other_order
from sterna.report.sections import code_bytes
from sterna.report.source import kernels_in
from sterna.report.words import WORDS, in_words
from sterna.schedule.decisions import Step
from sterna.schedule.saved import PRIMITIVES


def value(name: str, dims: list[int], offset: int, size: int, origin: int = 0, kind: str = "arena") -> dict[str, Any]:
    strides, step = [], 1
    for n in reversed(dims):
        strides.insert(0, step)
        step *= n
    storage = {"class": kind, "offset": offset, "bytes": size, "origin": origin, "strides": strides}
    return {"name": name, "dtype": "float32", "dims": dims, "storage": storage}


def graph(values: list[dict[str, Any]], nodes: list[tuple[list[int], list[int]]], **more: Any) -> dict[str, Any]:
    rows = [{"name": f"n{n}", "kernel": 0, "in": a, "out": b, "tasks": 1} for n, (a, b) in enumerate(nodes)]
    return {"values": values, "nodes": rows, "arena": {"bytes": 0}, **more}


def pairs(made: dict[str, Any]) -> set[tuple[int, int]]:
    return {(link.source, link.target) for link in links(made) if not link.back}


def test_a_chain_in_two_buffers_of_one_size() -> None:
    """Each is written again and again: what was there before is not read."""
    values = [value("x", [8], 0, 32, kind="input"), *(value(f"t{n}", [8], 32 * (n % 2), 32) for n in range(6))]
    made = graph(values, [([n], [n + 1]) for n in range(6)])
    assert pairs(made) == {(n, n + 1) for n in range(5)}


def test_a_padded_buffer_has_two_writers() -> None:
    """The border is written under the buffer's name, the middle under another."""
    values = [value("x", [4], 0, 16, kind="input"), value("inside", [4], 0, 24, 1), value("padded", [6], 0, 24),
              value("y", [4], 64, 16)]  # fmt: skip
    made = graph(values, [([0], [1]), ([], [2, 2]), ([2], [3])])
    assert pairs(made) == {(0, 2), (1, 2)}
    (block,) = [b for b in buffers_of(made, links(made)) if b["offset"] == 0]
    assert (block["first"], block["last"], block["tensors"]) == (0, 2, [1, 2])


def test_padded_buffers_that_take_turns() -> None:
    """Two of one size, again and again: what was in one before is another tensor."""
    values = [value("x", [4], 0, 16, kind="input")]
    nodes = []
    for n in range(6):
        at = 32 * (n % 2)
        values += [value(f"inside{n}", [4], at, 24, 1), value(f"padded{n}", [6], at, 24)]
        nodes += [([0 if n == 0 else 2 * n], [2 * n + 1]), ([], [2 * n + 2, 2 * n + 2])]
    made = graph(values, nodes)
    wanted = {(2 * n - 2 + border, 2 * n) for n in range(1, 6) for border in (0, 1)}
    assert pairs(made) == wanted


def test_parts_of_a_whole_and_a_reader_of_one_part() -> None:
    values = [value("x", [4], 0, 16, kind="input"), value("a", [4], 0, 32), value("b", [4], 0, 32, 4),
              value("whole", [8], 0, 32), value("y", [4], 64, 16), value("z", [8], 128, 32)]  # fmt: skip
    made = graph(values, [([0], [1]), ([1], [4]), ([0], [2]), ([3], [5])])
    assert pairs(made) >= {(0, 1), (0, 3), (2, 3)}
    assert (1, 3) not in pairs(made)


def test_a_view_and_a_result_in_place() -> None:
    values = [value("x", [2, 4], 0, 32, kind="input"), value("t", [2, 4], 0, 32), value("flat", [8], 0, 32),
              value("same", [8], 0, 32), value("y", [8], 64, 32)]  # fmt: skip
    made = graph(values, [([0], [1]), ([2], [3]), ([3], [4])])
    assert pairs(made) == {(0, 1), (1, 2)}


def test_memory_that_another_tensor_has_taken_is_not_read() -> None:
    values = [value("x", [4], 0, 16, kind="input"), value("a", [4], 0, 16), value("b", [4], 64, 16),
              value("wide", [8], 0, 32), value("y", [4], 96, 16)]  # fmt: skip
    made = graph(values, [([0], [1]), ([1], [2]), ([2], [3]), ([3], [4])])
    assert pairs(made) == {(0, 1), (1, 2), (2, 3)}


def test_a_loop_reads_what_it_wrote_last() -> None:
    values = [value("x", [4], 0, 16, kind="input"), value("carried", [4], 0, 16), value("next", [4], 16, 16)]
    loop = {"op": "loop", "name": "l", "nodes": [0, 2], "count": 3, "limit": 3}
    made = graph(values, [([1], [2]), ([2], [1])], control=[loop])
    found = {(link.source, link.target, link.back) for link in links(made)}
    assert found == {(0, 1, False), (1, 0, True)}


def test_what_a_loop_carries_comes_from_before_it_and_from_its_last_iteration() -> None:
    """A node that writes before another reads in an iteration leaves nothing to that of the next."""
    values = [value("x", [4], 0, 16, kind="input"), value("carried", [4], 0, 16), value("in", [4], 16, 16)]
    loop = {"op": "loop", "name": "l", "nodes": [1, 4], "count": 3, "limit": 3}
    made = graph(values, [([0], [1]), ([1], [2]), ([2, 1], [2]), ([2], [1])], control=[loop])
    found = {(link.source, link.target) for link in links(made) if link.back}
    assert found == {(3, 1), (3, 2)}
    assert pairs(made) == {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)}


def test_lives_in_loops_last_as_long_as_these() -> None:
    """What a loop reads from before it must be there in every iteration."""
    values = [value("x", [4], 0, 16, kind="input"), value("before", [4], 0, 16), value("in", [4], 16, 16),
              value("more", [4], 32, 16), value("after", [4], 48, 16)]  # fmt: skip
    nodes = [([0], [1]), ([1], [2]), ([2], [3]), ([3], [4])]
    made = graph(values, nodes, control=[{"op": "loop", "name": "l", "nodes": [1, 3], "count": 2, "limit": 2}])
    found = lives(made)
    assert found[1] == (0, 2), "read in the loop, so kept to its end"
    assert found[2] == (1, 2), "of one iteration"
    assert found[3] == (1, 3), "read behind the loop, so there from its start"


def test_alive_counts_each_byte_once() -> None:
    blocks = [
        {"pool": 0, "offset": 0, "bytes": 64, "first": 0, "last": 2},
        {"pool": 0, "offset": 32, "bytes": 64, "first": 1, "last": 1},
        {"pool": 1, "offset": 0, "bytes": 10, "first": 2, "last": 9},
    ]
    assert alive(blocks, 4) == [64, 96, 74, 10]


def test_another_order_is_found_where_one_branch_should_be_ended_first() -> None:
    """Two branches of large tensors that become small: one after the other they need half of what both at once do."""
    values = [value("x", [1], 0, 4, kind="input"), value("a", [256], 0, 1024), value("b", [256], 1024, 1024),
              value("a2", [1], 2048, 4), value("b2", [1], 2052, 4), value("y", [1], 0, 4, kind="output")]  # fmt: skip
    made = graph(values, [([0], [1]), ([0], [2]), ([1], [3]), ([2], [4]), ([3, 4], [5])])
    found = links(made)
    choice = other_order(made, buffers_of(made, found), found)
    assert choice is not None
    assert choice["bytes"] == 1024 + 2 * 4
    assert max(alive(buffers_of(made, found), 5)) == 2052
    assert other_order({**made, "control": [{}]}, [], []) is None


@settings(deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 60))
def test_boxes_do_not_overlap_and_edges_lead_down(seed: int, count: int) -> None:
    draw = random.Random(seed)
    sizes = [(draw.uniform(40, 220), draw.uniform(20, 90)) for _ in range(count)]
    every = [(a, b) for a in range(count) for b in range(a + 1, min(count, a + 9))]
    edges = draw.sample(every, min(len(every), draw.randrange(2 * count + 1)))
    made = lay_out(sizes, edges)
    for (a, (ax, ay)), (b, (bx, by)) in combinations(enumerate(made.nodes), 2):
        apart = abs(ax - bx) >= (sizes[a][0] + sizes[b][0]) / 2 or abs(ay - by) >= (sizes[a][1] + sizes[b][1]) / 2
        assert apart, (a, b)
    for (a, b), points in zip(edges, made.edges, strict=True):
        assert points[0] == made.nodes[a]
        assert points[-1] == made.nodes[b]
        assert [y for _, y in points] == sorted({y for _, y in points})
    for (x, y), (width, height) in zip(made.nodes, sizes, strict=True):
        assert x - width / 2 >= -0.2
        assert x + width / 2 <= made.width + 0.2
        assert y - height / 2 >= -0.2
        assert y + height / 2 <= made.height + 0.2


@settings(deadline=None)
@given(st.integers(0, 10**9), st.integers(4, 40))
def test_a_range_that_is_apart_has_layers_of_its_own(seed: int, count: int) -> None:
    draw = random.Random(seed)
    sizes = [(100.0, draw.uniform(20, 90)) for _ in range(count)]
    every = [(a, b) for a in range(count) for b in range(a + 1, min(count, a + 9))]
    edges = draw.sample(every, min(len(every), draw.randrange(2 * count + 1)))
    first, inner, end, last = sorted(draw.sample(range(count + 1), 4))
    apart = [(first, last), (inner, end)]
    places = lay_out(sizes, edges, apart).nodes
    for begin, stop in apart:
        edge = [places[n][1] + side * sizes[n][1] / 2 for n in range(begin, stop) for side in (-1, 1)]
        for n in {*range(begin), *range(stop, count)}:
            bottom, top = places[n][1] + sizes[n][1] / 2, places[n][1] - sizes[n][1] / 2
            assert bottom < min(edge) if n < begin else top > max(edge)


def test_nothing_has_a_picture() -> None:
    assert lay_out([], []).nodes == ()


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_every_step_has_words(primitive: str) -> None:
    assert primitive in WORDS
    arguments = {"compute_at": ("y", "w.o", "register"), "tensorize": ("a", "b", "dot"), "bind": ("a", "thread.x")}
    usual = arguments.get(primitive, ("a", 4) if primitive == "split" else ("a", "b", "c", "d"))
    for few in (usual, usual[:3], usual[:2], usual[:1], ()):
        try:
            words = in_words(Step(primitive, "s0", tuple(few)))
        except TypeError:
            continue  # it takes more or fewer
        assert "s0" in words
        assert not words.endswith(".")
        return
    pytest.fail("no number of arguments is right")


def test_no_other_word() -> None:
    assert set(WORDS) == set(PRIMITIVES)


def test_kernels_are_found_by_name_in_either_form() -> None:
    text = (
        "static int32_t k0_copy(const sterna_call *call, uint32_t first_task, uint32_t last_task) {\n  if (1) {\n  }\n"
        "  return 0;\n}\n\n/* b */\n"
        "STERNA_HIDDEN int32_t sterna_m_k1_add(const sterna_call *call, uint32_t a, uint32_t b);\n"
        "int32_t sterna_m_k1_add(const sterna_call *call, uint32_t a, uint32_t b) {\n  return 0;\n}\n"
    )
    found = kernels_in(text, ["k0_copy", "k1_add", "k2_none"])
    assert set(found) == {"k0_copy", "k1_add"}
    assert found["k0_copy"].endswith("return 0;\n}")
    assert found["k1_add"].startswith("int32_t sterna_m_k1_add")
    assert kernels_in(text[:-3], ["k1_add"]) == {}


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01", b"!<arch>\n", b"\0asm", b"\x7fELF\x02\x01" + bytes(80)])
def test_what_says_no_sizes_has_none(data: bytes) -> None:
    assert code_bytes(data, ["k0"]) == {}
