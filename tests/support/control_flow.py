"""Models with choices and loops, as text of ONNX."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper, parser


def model(graph: str) -> str:
    return f'<ir_version: 8, opset_import: ["" : 17]>\n{graph}'


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


CHOICE = """
    agraph (bool hot, float[3, 4] x, float[4, 4] y) => (float[3, 4] z, float[3, 4] w)
    <float[4, 4] weight = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}>
    {
      before = Tanh(x)
      z, w = If (hot) <
        then_branch = one () => (float[3, 4] a, float[3, 4] b) { a = MatMul(before, weight)  b = Identity(x) },
        else_branch = two () => (float[3, 4] c, float[3, 4] d) { p = MatMul(x, y)  c = Sub(p, before)  d = Relu(c) }>
    }"""
TRIPS = """
    agraph (int64 trips, float[4, 4] first, float[4, 4] x) => (float[4, 4] last)
    <bool on = {1}, float[4, 4] weight = {1, 2, 3, 4, -5, -6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}>
    {
      scaled = Mul(x, weight)
      last = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[4, 4] s) => (bool going, float[4, 4] t)
        { f = Cast <to = 1> (i)  p = MatMul(s, scaled)  q = Add(p, f)  t = Tanh(q) }>
    }"""
WHILE = """
    agraph (bool start, float[4] first, float bound) => (float[4] last, int64 made)
    <int64 none = {9223372036854775807}, int64 zero = {0}, int64 one = {1}>
    {
      last, made = Loop (none, start, first, zero) <body = step
        (int64 i, bool going, float[4] s, int64 n) => (bool more, float[4] t, int64 m)
        { t = Add(s, s)  m = Add(n, one)  sum = ReduceSum <keepdims = 0> (t)  more = Less(sum, bound) }>
    }"""
ROWS = """
    agraph ({inputs}float[2] first, float[2] x) => (float[2] last, float[{rows}, 2] rows)
    <bool on = {{1}}{trips}>
    {{
      last, rows = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[2] s) => (bool more, float[2] t, float[2] row)
        {{ f = Cast <to = 1> (i)  p = Mul(s, x)  t = Add(p, f)  row = Sub(t, s)  more = {more} }}>
    }}"""
GROWING = """
    agraph (int64 trips, float[9, 4] x, float[4] first) => (float[4] last)
    <bool on = {1}, int64[1] zero = {0}, int64[1] one = {1}, float[4, 1] turn = {1, -1, 0.5, 2}>
    {
      last = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[4] s) => (bool going, float[4] t)
        {
          j = Unsqueeze(i, zero)
          end = Add(j, one)
          past = Slice(x, zero, end, zero)
          scored = Mul(past, s)
          scores = MatMul(scored, turn)
          share = Softmax <axis = 0> (scores)
          weighted = Mul(past, share)
          sum = ReduceSum <keepdims = 0> (weighted, zero)
          t = Tanh(sum)
        }>
    }"""
DATA_SIZED = """
    agraph (bool hot, int64 trips, float[3, 4] x) => (float z, float[3, 4] last)
    <bool on = {1}>
    {
      z = If (hot) <
        then_branch = one () => (float a) {
          p = NonZero(x)  q = Transpose(p)  r = GatherND(x, q)  a = ReduceSum <keepdims = 0> (r) },
        else_branch = two () => (float b) {
          u = NonZero(x)  w = Transpose(u)  v = GatherND(x, w)  e = Exp(v)  b = ReduceSum <keepdims = 0> (e) }>
      last = Loop (trips, on, x) <body = step
        (int64 i, bool going, float[3, 4] s) => (bool going, float[3, 4] t)
        { c = NonZero(s)  d = Transpose(c)  f = GatherND(s, d)  g = ReduceSum <keepdims = 0> (f)  h = Sub(s, g)
          t = Relu(h) }>
    }"""
DETECTOR = """
    agraph (float[1, 3, 16, 16] image, float least) => (int64 found, float[64] left)
    <float[8, 3, 3, 3] first, float[1, 8, 1, 1] score, float[4, 8, 1, 1] place, int64 most = {64},
     int64 zero = {0}, int64 one = {1}, int64[1] flat = {-1}, int64[2] rows = {4, -1}, float nothing = {0},
     float near = {1.5}, float certain = {0.6}, float half = {0.5}>
    {
      features = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (image, first)
      active = Relu(features)
      logits = Conv(active, score)
      shares = Sigmoid(logits)
      scores = Reshape(shares, flat)
      offsets = Conv(active, place)
      columns = Reshape(offsets, rows)
      boxes = Transpose <perm = [1, 0]> (columns)
      highest = ReduceMax <keepdims = 0> (scores)
      any = Less(least, highest)
      left, found = Loop (most, any, scores, zero) <body = take
        (int64 i, bool going, float[64] s, int64 n) => (bool more, float[64] t, int64 m)
        {
          best = ReduceMax <keepdims = 0> (s)
          top = ArgMax <axis = 0, keepdims = 0> (s)
          box = Gather(boxes, top)
          apart = Sub(boxes, box)
          away = Abs(apart)
          axis = Constant <value_ints = [1]> ()
          distance = ReduceSum <keepdims = 0> (away, axis)
          close = Less(distance, near)
          sure = Less(certain, best)
          t = If (sure) <
            then_branch = drop () => (float[64] a) { a = Where(close, nothing, s) },
            else_branch = fade () => (float[64] b) { weaker = Mul(s, half)  b = Where(close, weaker, s) }>
          m = Add(n, one)
          rest = ReduceMax <keepdims = 0> (t)
          more = Less(least, rest)
        }>
    }"""


def detector() -> onnx.ModelProto:
    """Takes boxes one by one while one is likely enough: a loop whose end, and in it a choice, the data decide."""
    proto = parser.parse_model(model(DETECTOR))
    weights = {"first": numbers(8, 3, 3, 3), "score": numbers(1, 8, 1, 1), "place": numbers(4, 8, 1, 1)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto
