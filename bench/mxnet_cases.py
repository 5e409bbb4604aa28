"""Writes MXNet symbols of one operator each, and what MXNet makes of them; `mxnet_compare.py` compiles them.

    python bench/mxnet_cases.py FOLDER

MXNet 1.9.1 is the last release, and needs a NumPy before 1.24. What it refuses itself is passed over.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

np.bool = bool  # MXNet asks for it under this name

import mxnet as mx  # noqa: E402

S = mx.sym
RANDOM = np.random.RandomState(0)


def normal(*sizes: int) -> Any:
    return RANDOM.normal(size=sizes).astype(np.float32)


class Writer:
    """Puts each case into a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, name: str, symbol: Any, **inputs: Any) -> None:
        shapes = {key: value.shape for key, value in inputs.items()}
        try:
            if set(symbol.list_arguments()) == set(inputs):  # `simple_bind` infers no shapes of some control flow
                given = {key: mx.nd.array(value) for key, value in inputs.items()}
                bound = symbol.bind(mx.cpu(), args=given, grad_req="null")
            else:
                bound = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)
            held = {f"arg:{n}": drawn(n, a) for n, a in bound.arg_dict.items() if n not in inputs}
            held |= {f"aux:{n}": drawn(n, a) for n, a in bound.aux_dict.items()}
            for key, value in inputs.items():
                bound.arg_dict[key][:] = value
            results = [result.asnumpy() for result in bound.forward(is_train=False)]
        except mx.MXNetError:
            return
        place = self.folder / name
        place.mkdir(parents=True)
        symbol.save(str(place / "model-symbol.json"))
        mx.nd.save(str(place / "model-0000.params"), held or {"arg:unused": mx.nd.zeros((1,))})
        arrays = {f"in_{key}": value for key, value in inputs.items()}
        np.savez(place / "ref.npz", **arrays, **{f"out{n}": result for n, result in enumerate(results)})


def drawn(name: str, array: Any) -> Any:
    """Values for a weight, which it then has."""
    value = RANDOM.normal(size=array.shape).astype(np.float32) * 0.4
    array[:] = np.abs(value) + 0.3 if "gamma" in name or "var" in name else value
    return mx.nd.array(array)


def write(case: Writer) -> None:
    x = S.var("x")
    y = S.var("y")
    plane = normal(2, 4, 7, 6)
    for k, stride, p, conv in [(2, 2, 0, "valid"), (3, 2, 1, "valid"), (3, 2, 0, "full"), (3, 2, 1, "full")]:
        for t in ("max", "avg", "sum", "lp"):
            settings = {
                "kernel": (k, k),
                "stride": (stride, stride),
                "pad": (p, p),
                "pool_type": t,
                "pooling_convention": conv,
            }
            if t == "lp":
                settings["p_value"] = 2
            case(f"pool-{t}-{k}{stride}{p}{conv}", S.Pooling(x, **settings), x=plane)
    case(
        "pool-noinclude",
        S.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", count_include_pad=False),
        x=plane,
    )
    case("pool-global", S.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg"), x=plane)
    case("pool-1d", S.Pooling(x, kernel=(3,), stride=(2,), pool_type="max"), x=normal(2, 3, 9))
    case(
        "conv",
        S.Convolution(x, kernel=(3, 3), num_filter=6, stride=(2, 1), pad=(1, 1), dilate=(1, 2), num_group=2),
        x=plane,
    )
    case("conv1d", S.Convolution(x, kernel=(3,), num_filter=6, no_bias=True), x=normal(2, 3, 9))
    case("conv3d", S.Convolution(x, kernel=(2, 2, 2), num_filter=3), x=normal(1, 2, 4, 5, 4))
    case(
        "deconv",
        S.Deconvolution(x, kernel=(3, 3), num_filter=6, stride=(2, 2), pad=(1, 1), adj=(1, 1), num_group=2),
        x=plane,
    )
    case("deconv-bias", S.Deconvolution(x, kernel=(2, 2), num_filter=2, stride=(3, 3), no_bias=False), x=plane)
    case("fc", S.FullyConnected(x, num_hidden=5), x=plane)
    case("fc-noflat", S.FullyConnected(x, num_hidden=5, flatten=False, no_bias=True), x=plane)
    case("bn", S.BatchNorm(x), x=plane)
    case("bn-gamma", S.BatchNorm(x, fix_gamma=False, eps=1e-5), x=plane)
    case("bn-axis", S.BatchNorm(x, fix_gamma=False, axis=-1), x=plane)
    case("ln", S.LayerNorm(x), x=plane)
    case("ln-ax", S.LayerNorm(x, axis=1), x=plane)
    case("in", S.InstanceNorm(x), x=plane)
    case("gn", S.GroupNorm(x, num_groups=2), x=plane)
    for m in ("instance", "channel", "spatial"):
        case("l2-" + m, S.L2Normalization(x, mode=m), x=plane)
    case("lrn", S.LRN(x, nsize=3, alpha=0.3), x=plane)
    for a in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
        case("act-" + a, S.Activation(x, act_type=a), x=plane)
    for a in ("leaky", "elu", "prelu", "selu", "gelu", "rrelu"):
        case("lrelu-" + a, S.LeakyReLU(x, act_type=a, slope=0.3), x=plane)
    case("softmax", S.softmax(x, axis=1, temperature=2.0), x=plane)
    case("logsoftmax", S.log_softmax(x, axis=-1), x=plane)
    case("softmin", S.softmin(x, axis=1), x=plane)
    case("softact", S.SoftmaxActivation(x, mode="channel"), x=plane)
    case("softout", S.SoftmaxOutput(x, name="s"), x=normal(3, 5))
    case("softout-multi", S.SoftmaxOutput(x, name="s", multi_output=True), x=plane)
    for i, s in enumerate([(0, -1), (-2,), (0, -3, -2), (-4, 1, 2, -2), (0, 0, -4, -1, 7, 0), (2, 0, -3)]):
        case(f"reshape{i}", S.Reshape(x, shape=s), x=plane)
    case("reshape-rev", S.Reshape(x, shape=(-1, 0, 0), reverse=True), x=plane)
    case("flatten", S.Flatten(x), x=plane)
    case("transpose", S.transpose(x, axes=(0, 2, 3, 1)), x=plane)
    case("transpose0", S.transpose(x), x=plane)
    case("swap", S.SwapAxis(x, dim1=1, dim2=3), x=plane)
    case("slice", S.slice(x, begin=(0, 1, None), end=(None, 3, 5), step=(1, 1, 2)), x=plane)
    case("slice-neg", S.slice(x, begin=(None, None, 5), end=(None, None, 0), step=(1, 1, -2)), x=plane)
    case("slice_axis", S.slice_axis(x, axis=2, begin=1, end=-2), x=plane)
    case("slice_like", S.slice_like(x, y, axes=(2, 3)), x=plane, y=normal(2, 4, 5, 3))
    case("concat", S.Concat(x, y, dim=1), x=plane, y=normal(2, 3, 7, 6))
    case("stack", S.stack(x, y, axis=1), x=plane, y=plane + 1)
    case("split", S.Group(list(S.split(x, num_outputs=2, axis=1))), x=plane)
    case("split-sq", S.Group(list(S.split(x, num_outputs=4, axis=1, squeeze_axis=True))), x=plane)
    case("tile", S.tile(x, reps=(2, 1, 1, 2)), x=plane)
    case("repeat", S.repeat(x, repeats=2, axis=1), x=plane)
    for m in ("constant", "edge", "reflect"):
        case("pad-" + m, S.Pad(x, mode=m, pad_width=(0, 0, 0, 0, 1, 2, 2, 1), constant_value=0.5), x=plane)
    case("crop", S.Crop(x, y, offset=(1, 2), num_args=2), x=plane, y=normal(2, 1, 4, 3))
    case("crop-c", S.Crop(x, h_w=(4, 3), center_crop=True, num_args=1), x=plane)
    case("ups", S.UpSampling(x, scale=2, sample_type="nearest", num_args=1), x=plane)
    case("ups-bil", S.UpSampling(x, scale=2, sample_type="bilinear", num_filter=4, num_args=2), x=plane)
    case("bil", S.contrib.BilinearResize2D(x, height=10, width=9), x=plane)
    case("bil-s", S.contrib.BilinearResize2D(x, scale_height=2, scale_width=1.5), x=plane)
    case("adapt", S.contrib.AdaptiveAvgPooling2D(x, output_size=(3, 2)), x=plane)
    case("embed", S.Embedding(x, input_dim=9, output_dim=4), x=RANDOM.randint(0, 9, (2, 5)).astype("f4"))
    indices = RANDOM.randint(-3, 12, (2, 3)).astype("f4")
    case("take", S.take(y, x, axis=0), x=indices, y=normal(6, 4))
    case("take-wrap", S.take(y, x, axis=1, mode="wrap"), x=indices, y=normal(3, 6))
    case("pick", S.pick(x, y, axis=1), x=normal(3, 5), y=np.array([0, 4, 2], "f4"))
    case("pick-keep", S.pick(x, y, axis=-1, keepdims=True), x=normal(3, 5), y=np.array([0, 4, 2], "f4"))
    case("onehot", S.one_hot(x, depth=6, on_value=2.0, off_value=-1.0), x=np.array([[0, 5], [2, 7]], "f4"))
    case("gather_nd", S.gather_nd(x, y), x=normal(3, 5, 2), y=np.array([[0, 2, 1], [4, 0, 3]], "f4"))
    case("where", S.where(x, y, S.negative(y)), x=(normal(3, 4) > 0).astype("f4"), y=normal(3, 4))
    for rt in ("indices", "value", "both", "mask"):
        case("topk-" + rt, S.topk(x, k=2, ret_typ=rt, axis=1), x=normal(3, 6))
    case("topk-asc", S.topk(x, k=2, is_ascend=True, axis=-1), x=normal(3, 6))
    case("sort", S.sort(x, axis=1, is_ascend=False), x=normal(3, 6))
    case("argsort", S.argsort(x, axis=1), x=normal(3, 6))
    case("argmax", S.argmax(x, axis=1), x=plane)
    case("argmax-k", S.argmax(x, axis=1, keepdims=True), x=plane)
    case("argmaxch", S.argmax_channel(x), x=normal(3, 5))
    case("argmin", S.argmin(x, axis=0), x=plane)
    for o in (
        "broadcast_add",
        "broadcast_sub",
        "broadcast_mul",
        "broadcast_div",
        "broadcast_maximum",
        "broadcast_minimum",
        "broadcast_mod",
        "broadcast_hypot",
        "broadcast_equal",
        "broadcast_greater",
        "broadcast_lesser_equal",
        "broadcast_logical_xor",
    ):
        case(o, getattr(S, o)(x, y), x=normal(3, 1, 4), y=normal(1, 5, 4))
    case("bpow", S.broadcast_power(x, y), x=abs(normal(3, 1)) + 0.1, y=normal(1, 5))
    case("scalars", (2 - x) * 3 / (x * x + 1) + x % 0.7 + (1.5**x), x=normal(3, 4))
    case("cmp", (x > 0.1) + (x <= 0.3) + (x == 0), x=normal(3, 4))
    case("rpow", S.maximum(x, 0.2) + S.minimum(0.1, x), x=normal(3, 4))
    for o in (
        "abs",
        "sign",
        "round",
        "rint",
        "ceil",
        "floor",
        "trunc",
        "fix",
        "square",
        "sqrt",
        "rsqrt",
        "cbrt",
        "rcbrt",
        "exp",
        "log",
        "log10",
        "log2",
        "log1p",
        "expm1",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "degrees",
        "radians",
        "sinh",
        "cosh",
        "tanh",
        "arcsinh",
        "arctanh",
        "reciprocal",
        "relu",
        "sigmoid",
        "softsign",
        "erf",
        "erfinv",
        "gammaln",
        "gamma",
        "logical_not",
        "hard_sigmoid",
    ):
        case(
            "u-" + o,
            getattr(S, o)(x),
            x=(
                RANDOM.uniform(0.1, 0.9, (3, 4)).astype("f4")
                if o
                in (
                    "sqrt",
                    "rsqrt",
                    "cbrt",
                    "rcbrt",
                    "log",
                    "log10",
                    "log2",
                    "log1p",
                    "arcsin",
                    "arccos",
                    "arctanh",
                    "erfinv",
                    "gammaln",
                    "gamma",
                    "reciprocal",
                )
                else normal(3, 4) * 2
            ),
        )
    case("arccosh", S.arccosh(x), x=abs(normal(3, 4)) + 1.1)
    for o in ("sum", "mean", "max", "min", "prod", "nansum", "norm"):
        case("r-" + o, getattr(S, o)(x, axis=(1, 3)) if o != "norm" else S.norm(x, axis=(1, 3)), x=plane)
    case("r-sumex", S.sum(x, axis=1, exclude=True), x=plane)
    case("r-keep", S.mean(x, axis=(2, 3), keepdims=True), x=plane)
    case("r-all", S.sum(x), x=plane)
    case("norm1", S.norm(x, ord=1, axis=1), x=plane)
    case("dot", S.dot(x, y), x=normal(3, 4), y=normal(4, 5))
    case("dot-t", S.dot(x, y, transpose_a=True, transpose_b=True), x=normal(4, 3), y=normal(5, 4))
    case("dot3", S.dot(x, y), x=normal(2, 3, 4), y=normal(4, 5))
    case("bdot", S.batch_dot(x, y, transpose_b=True), x=normal(2, 3, 4), y=normal(2, 5, 4))
    case("gemm2", S.linalg_gemm2(x, y, alpha=0.5, transpose_a=True), x=normal(2, 4, 3), y=normal(2, 4, 5))
    case("syrk", S.linalg_syrk(x, alpha=2.0), x=normal(2, 3, 4))
    for m in ("lstm", "gru", "rnn_relu", "rnn_tanh"):
        for both in (False, True):
            for layers in (1, 2):
                directions = 2 if both else 1
                case(
                    f"rnn-{m}-{both}-{layers}",
                    S.RNN(
                        x,
                        S.var("p"),
                        S.zeros(shape=(layers * directions, 2, 3)),
                        *([S.zeros(shape=(layers * directions, 2, 3))] if m == "lstm" else []),
                        state_size=3,
                        num_layers=layers,
                        mode=m,
                        bidirectional=both,
                        name="rnn",
                    ),
                    x=normal(5, 2, 4),
                )
    case(
        "rnn-state",
        S.RNN(x, S.var("p"), y, S.var("z"), state_size=3, num_layers=1, mode="lstm", state_outputs=True, name="rnn"),
        x=normal(5, 2, 4),
        y=normal(1, 2, 3),
        z=normal(1, 2, 3),
    )
    case(
        "seqmask",
        S.SequenceMask(x, y, use_sequence_length=True, value=-1.0),
        x=normal(5, 3, 2),
        y=np.array([2, 5, 1], "f4"),
    )
    case("seqlast", S.SequenceLast(x, y, use_sequence_length=True), x=normal(5, 3, 2), y=np.array([2, 5, 1], "f4"))
    case("seqlast0", S.SequenceLast(x), x=normal(5, 3, 2))
    case("seqrev", S.SequenceReverse(x, y, use_sequence_length=True), x=normal(5, 3, 2), y=np.array([2, 5, 1], "f4"))
    case(
        "seqmask1",
        S.SequenceMask(x, y, use_sequence_length=True, axis=1),
        x=normal(3, 5, 2),
        y=np.array([2, 5, 1], "f4"),
    )
    regions = np.array([[0, 0, 0, 20, 20], [1, 4, 2, 18, 22]], "f4")
    case("roipool", S.ROIPooling(x, y, pooled_size=(2, 3), spatial_scale=0.25), x=normal(2, 3, 8, 8), y=regions)
    case(
        "roialign",
        S.contrib.ROIAlign(x, y, pooled_size=(2, 3), spatial_scale=0.25, sample_ratio=2),
        x=normal(2, 3, 8, 8),
        y=regions,
    )
    case("prior", S.contrib.MultiBoxPrior(x, sizes=(0.3, 0.5), ratios=(1, 2, 0.5), clip=True), x=plane)
    case(
        "prior-s",
        S.contrib.MultiBoxPrior(x, sizes=(0.3,), ratios=(1, 2), steps=(0.1, 0.2), offsets=(0.3, 0.5)),
        x=plane,
    )
    anchors = RANDOM.uniform(0, 0.5, (1, 6, 2))
    anchors = np.concatenate([anchors, anchors + 0.3], -1).astype("f4")
    scores = abs(normal(1, 3, 6))
    scores /= scores.sum(1, keepdims=True)
    case(
        "mbdet",
        S.contrib.MultiBoxDetection(x, y, S.var("z"), nms_threshold=0.4, threshold=0.1),
        x=scores,
        y=normal(1, 24) * 0.2,
        z=anchors,
    )
    boxes = np.concatenate([RANDOM.randint(0, 2, (1, 6, 1)), RANDOM.uniform(0, 1, (1, 6, 1)), anchors * 10], -1).astype(
        "f4"
    )
    case(
        "boxnms",
        S.contrib.box_nms(x, overlap_thresh=0.3, valid_thresh=0.1, coord_start=2, score_index=1, id_index=0),
        x=boxes,
    )
    case(
        "boxnms-f",
        S.contrib.box_nms(x, overlap_thresh=0.3, coord_start=2, score_index=1, force_suppress=True, topk=4),
        x=boxes,
    )
    case("boxiou", S.contrib.box_iou(x, y), x=anchors[0] * 4, y=anchors[0, :3] * 4 + 0.2)
    case("il-qk", S.contrib.interleaved_matmul_selfatt_qk(x, heads=2), x=normal(5, 2, 24))
    case("il-valatt", S.contrib.interleaved_matmul_selfatt_valatt(x, y, heads=2), x=normal(5, 2, 24), y=normal(4, 5, 5))
    case("il-eqk", S.contrib.interleaved_matmul_encdec_qk(x, y, heads=2), x=normal(5, 2, 8), y=normal(6, 2, 16))
    case("il-eval", S.contrib.interleaved_matmul_encdec_valatt(x, y, heads=2), x=normal(6, 2, 16), y=normal(4, 5, 6))
    case("divsqrt", S.contrib.div_sqrt_dim(x), x=normal(2, 5))
    case("grid", S.BilinearSampler(x, y), x=plane, y=RANDOM.uniform(-1.1, 1.1, (2, 2, 5, 4)).astype("f4"))
    case(
        "st",
        S.SpatialTransformer(x, y, target_shape=(5, 6), transform_type="affine", sampler_type="bilinear"),
        x=plane,
        y=np.tile(np.array([[0.8, 0.1, 0.1, -0.1, 0.9, 0]], "f4"), (2, 1)),
    )
    case("depth2space", S.depth_to_space(x, block_size=2), x=plane)
    case("space2depth", S.space_to_depth(x, block_size=2), x=normal(1, 2, 4, 6))
    case("expand", S.expand_dims(x, axis=1), x=plane)
    case("squeeze", S.squeeze(x, axis=1), x=normal(2, 1, 3))
    case("bcast", S.broadcast_to(x, shape=(2, 3, 4)), x=normal(2, 1, 4))
    case("bcastax", S.broadcast_axis(x, axis=(1,), size=(3,)), x=normal(2, 1, 4))
    case("bclike", S.broadcast_like(x, y), x=normal(2, 1, 4), y=normal(2, 3, 4))
    case("flip", S.flip(x, axis=2), x=plane)
    case("clip", S.clip(x, -0.3, 0.5), x=plane)
    case("cast", S.Cast(S.Cast(x * 3, dtype="int32"), dtype="float32"), x=plane)
    case("cumsum", S.cumsum(x, axis=1) if hasattr(S, "cumsum") else x, x=normal(3, 4))
    case("diag", S.diag(x), x=normal(4, 4))
    case("zeros", S.zeros_like(x) + S.ones_like(x), x=normal(2, 3))
    case("addn", S.add_n(x, y, x), x=normal(2, 3), y=normal(2, 3))
    case("smooth", S.smooth_l1(x, scalar=2.0), x=normal(3, 4))
    flow = {"x": normal(2, 3, 9, 11), "y": normal(2, 3, 9, 11)}
    for kernel, most, first, second, pad in [(1, 4, 1, 1, 4), (3, 4, 2, 2, 5), (1, 5, 2, 2, 4), (3, 1, 1, 1, 0)]:
        for multiply in (True, False):
            said = {
                "kernel_size": kernel,
                "max_displacement": most,
                "stride1": first,
                "stride2": second,
                "pad_size": pad,
            }
            name = f"correlation-{kernel}{most}{first}{second}{pad}-{multiply}"
            case(name, S.Correlation(x, y, is_multiply=multiply, **said), **flow)
    maps = normal(2, 18, 8, 9)
    bins = {"output_dim": 2, "pooled_size": 3, "group_size": 3, "spatial_scale": 0.5}
    edges = np.array([[0, 0, 0, 12, 9], [1, 3.5, 1.5, 17, 14], [1, -4, -3, 30, 30]], "f4")
    case("psroi", S.contrib.PSROIPooling(x, y, **bins), x=maps, y=edges)
    case("psroi-group", S.contrib.PSROIPooling(x, y, **{**bins, "pooled_size": 6}), x=maps, y=edges)
    deformed = {**bins, "part_size": 3, "sample_per_part": 4, "trans_std": 0.1}
    case(
        "deformable-psroi", S.contrib.DeformablePSROIPooling(x, y, S.var("z"), **deformed),
        x=maps, y=edges, z=normal(3, 2, 3, 3),
    )  # fmt: skip
    case("deformable-psroi-still", S.contrib.DeformablePSROIPooling(x, y, no_trans=True, **deformed), x=maps, y=edges)
    aligned = {"pooled_size": (3, 3), "spatial_scale": 0.5, "sample_ratio": 2, "position_sensitive": True}
    case("roialign-positions", S.contrib.ROIAlign(x, y, **aligned), x=maps, y=edges)
    shifts = {"scales": (2, 4), "ratios": (0.5, 1, 2), "rpn_min_size": 4, "output_score": True}
    for post in (5, 60):
        said = {**shifts, "rpn_pre_nms_top_n": 100, "rpn_post_nms_top_n": post, "feature_stride": 8}
        one = {"x": abs(normal(1, 12, 6, 7)), "y": normal(1, 24, 6, 7) * 0.3, "z": np.array([[44, 50, 1.5]], "f4")}
        case(f"proposal-{post}", S.Group(list(S.contrib.Proposal(x, y, S.var("z"), **said))), **one)
        said["iou_loss"] = True
        case(f"proposal-corners-{post}", S.Group(list(S.contrib.Proposal(x, y, S.var("z"), **said))), **one)
        two = {"x": abs(normal(2, 12, 6, 7)), "y": normal(2, 24, 6, 7) * 0.3}
        two["z"] = np.array([[48, 56, 1.5], [30, 40, 1]], "f4")
        said["iou_loss"] = False
        case(f"multiproposal-{post}", S.Group(list(S.contrib.MultiProposal(x, y, S.var("z"), **said))), **two)
    steps = {"x": normal(5, 2, 3), "y": normal(2, 3)}
    weight = S.var("w_weight", shape=(3, 3))

    def recurrence(row: Any, state: Any) -> Any:
        new = S.tanh(S.FullyConnected(row, weight, num_hidden=3, no_bias=True) + state)
        return new * 2, new

    rows, last = S.contrib.foreach(recurrence, x, y)
    case("foreach", S.Group([rows, last]), **steps)
    rows, last = S.contrib.foreach(
        lambda row, s: ([row[0] + s[0], row[1] * s[1]], [s[0] + 1, s[1] - row[0]]), [x, x * 2], [y, y + 1]
    )
    case("foreach-lists", S.Group([*rows, *last]), **steps)
    for limit in (20.0, -1.0):
        rows, last = S.contrib.while_loop(
            lambda n, total, limit=limit: S.sum(n, axis=(0, 1)) < limit,
            lambda n, total: ([total * 2], [n + 1, total + n]),
            [x, y],
            max_iterations=7,
        )
        case(f"while-{limit}", S.Group(list(last)), x=np.ones((2, 3), "f4"), y=normal(2, 3))
        if limit > 0:  # what comes after the last iteration is not defined
            made = S.slice_axis(rows[0], axis=0, begin=0, end=3)
            case("while-rows", made, x=np.ones((2, 3), "f4"), y=normal(2, 3))
    for sign in (1, -1):
        chosen = S.contrib.cond(S.sum(x) * sign > 0, lambda: x + y, lambda: x * y - 1)
        case(f"cond{sign}", chosen + 1, x=abs(normal(2, 3)), y=normal(2, 3))
    case("linreg", S.LinearRegressionOutput(x, name="o"), x=normal(3, 4))
    case("logreg", S.LogisticRegressionOutput(x, name="o"), x=normal(3, 4))
    case("moments", S.Group(list(S.moments(x, axes=(1,)))), x=normal(3, 4))
    case("ravel", S.ravel_multi_index(x, shape=(5, 6)), x=np.array([[1, 2], [3, 4]], "f4"))
    case("unravel", S.unravel_index(x, shape=(3, 4, 5)), x=np.array([7, 59, 0, 33], "f4"))
    square = normal(2, 4, 4)
    positive = square @ square.transpose(0, 2, 1) + np.eye(4, dtype="f4")
    linear = S.linalg
    case("linalg-det", linear.det(x), x=square)
    case("linalg-det-one", linear.det(x), x=square[0])
    case("linalg-slogdet", S.Group(list(linear.slogdet(x))), x=square)
    case("linalg-inverse", linear.inverse(x), x=positive)
    case("linalg-potrf", linear.potrf(x), x=positive)
    case("linalg-potri", linear.potri(x), x=np.linalg.cholesky(positive))
    case("linalg-sumlogdiag", linear.sumlogdiag(x), x=positive)
    for offset in (0, 1, -2):
        case(f"linalg-extractdiag{offset}", linear.extractdiag(x, offset=offset), x=square)
        case(f"linalg-makediag{offset}", linear.makediag(x, offset=offset), x=normal(2, 3))
    for transpose in (False, True):
        for rightside in (False, True):
            for lower in (False, True):
                said = {"transpose": transpose, "rightside": rightside, "lower": lower, "alpha": 1.5}
                right = normal(2, 3, 4) if rightside else normal(2, 4, 3)
                name = f"{transpose:d}{rightside:d}{lower:d}"
                case(f"linalg-trsm{name}", linear.trsm(x, y, **said), x=positive, y=right)
                case(f"linalg-trmm{name}", linear.trmm(x, y, **said), x=square, y=right)


if __name__ == "__main__":
    write(Writer(Path(sys.argv[1])))
