"""Writes symbols of MXNet's NumPy interface, of pictures and of contrib, and what MXNet makes of them.

    python bench/mxnet_numpy_cases.py FOLDER

`mxnet_compare.py` compiles them. MXNet 1.9.1 has most of the operators, 2.0.0b1 some more: what a version refuses is
passed over. Symbols are written as text, so that no function of Python stands between a case and its operator.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

np.bool = bool  # MXNet asks for it under this name

import mxnet as mx  # noqa: E402
from mxnet._ctypes.ndarray import _imperative_invoke  # noqa: E402
from mxnet.base import _LIB, OpHandle, c_str, check_call  # noqa: E402

RANDOM = np.random.RandomState(1)
_DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def normal(*sizes: int) -> Any:
    return RANDOM.normal(size=sizes).astype(np.float32)


def integers(low: int, high: int, *sizes: int, dtype: str = "int32") -> Any:
    return RANDOM.randint(low, high, sizes).astype(dtype)


class Writer:
    """Puts each case into a folder of its own, which is called by the operator and a number."""

    def __init__(self, folder: Path):
        self.folder, self.refused = folder, set[str]()
        self.counts: dict[str, int] = {}

    def __call__(
        self, op: str, *operands: Any, outputs: int = 1, held: tuple[int, ...] = (), numpy: bool = True, **said: Any
    ) -> None:
        """One operator; operands at `held` are weights of the model."""
        nodes: list[dict[str, Any]] = [
            {"op": "null", "name": f"x{n}", "attrs": {"__dtype__": str(_DTYPES.index(x.dtype.name)),
             "__shape__": str(x.shape)}, "inputs": []}
            for n, x in enumerate(operands)
        ]  # fmt: skip
        inputs = [[n, 0, 0] for n in range(len(operands))]
        attrs = {key: str(value) for key, value in said.items()}
        nodes.append({"op": op, "name": "y", "attrs": attrs, "inputs": inputs})
        heads = [[len(operands), n, 0] for n in range(outputs)]
        symbol = {
            "nodes": nodes, "arg_nodes": [*range(len(operands))], "heads": heads,
            "attrs": {"mxnet_version": ["int", 10901], **({"is_np_shape": ["int", 1]} if numpy else {})},
        }  # fmt: skip
        number = self.counts[op] = self.counts.get(op, 0) + 1
        getattr(mx.util, "reset_np", lambda: None)()
        mx.util.set_np_shape(numpy)
        try:
            # Without a symbol, since a bound one gives no results of sizes that the data decide.
            given = [mx.nd.array(x, dtype=x.dtype) for x in operands]
            made = invoked(op, given, attrs)
            results = [result.asnumpy() for result in made[:outputs]]
        except (mx.MXNetError, IndexError, TypeError, ValueError) as problem:
            self.refused.add(f"{op}: {str(problem).strip().splitlines()[-1][:160]}")
            return
        place = self.folder / f"{op.strip('_')}-{number}"
        place.mkdir(parents=True)
        (place / "model-symbol.json").write_text(json.dumps(symbol))
        mx.util.set_np_shape(False)
        weights = {f"arg:x{n}": mx.nd.array(operands[n], dtype=operands[n].dtype) for n in held}
        mx.nd.save(str(place / "model-0000.params"), weights or {"arg:unused": mx.nd.zeros((1,))})
        arrays = {f"in_x{n}": x for n, x in enumerate(operands) if n not in held}
        np.savez(place / "ref.npz", **arrays, **{f"out{n}": result for n, result in enumerate(results)})


def invoked(op: str, operands: list[Any], attrs: dict[str, str]) -> list[Any]:
    """The results of an operator by its name."""
    handle = OpHandle()
    check_call(_LIB.NNGetOpHandle(c_str(op), ctypes.byref(handle)))
    keys, values = [*attrs], [*attrs.values()]
    made = _imperative_invoke(handle.value, operands, keys, values, None, mx.util.is_np_shape(), False)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def elements(case: Writer) -> None:
    a, b = normal(3, 4), normal(3, 4)
    i, j = integers(-9, 9, 3, 4), integers(1, 9, 3, 4)
    for name in ("arctan2", "copysign", "ldexp", "fmax", "fmin", "fmod", "logaddexp", "floor_divide"):
        case(f"_npi_{name}", a, b)
        case(f"_npi_{name}_scalar", a, scalar=1.5)
        case(f"_npi_r{name}_scalar", a, scalar=1.5)
    case("_npi_copysign", a, np.array([[0.0, -0.0, 1, -1]] * 3, np.float32))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm", "gcd", "fmod", "floor_divide", "fmax"):
        case(f"_npi_{name}", i, j)
        case(f"_npi_{name}_scalar", j, scalar=3, is_int=True)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        case(f"_npi_{name}", i, integers(0, 5, 3, 4))
        case(f"_npi_{name}_scalar", i, scalar=2, is_int=True)
    case("_npi_bitwise_not", i)
    strange = np.array([np.nan, np.inf, -np.inf, 1.5, -0.0], np.float32)
    for name in ("isposinf", "isneginf"):
        case(f"_npi_{name}", strange)
    case("_npi_nan_to_num", strange, nan=2.0, posinf=9.0)
    case("_npi_nan_to_num", strange)
    case("_contrib_allclose", a, a + np.float32(1e-9))
    case("_contrib_allclose", a, b, rtol=0.1)
    case("_npi_around", a, decimals=2)
    case("_contrib_round_ste", a * 3)
    case("_contrib_sign_ste", a)
    for name in ("gamma", "gammaln", "erfinv", "softsign", "digamma"):
        case(f"_npx_{name}", np.abs(a) * 0.3 + 0.05)
    for name in ("floor", "ceil", "rint", "round", "trunc", "fix", "arctan", "sinh", "cbrt"):
        case(f"_sparse_{name}", a * 3, numpy=False)


def reductions(case: Writer) -> None:
    x = normal(3, 4, 5)
    for prefix in ("_np_", "_npi_"):
        for name in ("sum", "max", "min", "prod", "amax", "amin"):
            case(f"{prefix}{name}", x, axis=(0, 2), keepdims=True)
            case(f"{prefix}{name}", x, axis="None", initial=0.5)
        for name in ("any", "all"):
            case(f"{prefix}{name}", integers(0, 2, 3, 4), axis=1)
    for name in ("std", "var"):
        case(f"_npi_{name}", x, axis=1, ddof=1, dtype="None")
    case("_npi_average", x, normal(4) + 3, axis=1, outputs=2, returned=True)
    case("_npi_average", x, axis="None", weighted=False)
    case("_npi_average", x, np.abs(x) + 1, axis=(0, 2))
    for method in ("linear", "lower", "higher", "midpoint", "nearest"):
        case("_npi_percentile", x, np.array([0, 30, 77.5, 100], np.float32), axis=1, interpolation=method, held=(1,))
    case("_npi_percentile", x, q_scalar=40.0, keepdims=True)
    case("_npi_diff", x, n=2, axis=1)
    case("_npi_ediff1d", x)
    case("_npi_ediff1d", x, normal(2), to_begin_arr_given=True, to_end_scalar=7.0)
    case("_npi_bincount", integers(0, 7, 12, dtype="int64"), minlength=9, held=(0,))
    case("_npi_bincount", integers(0, 7, 12, dtype="int64"), normal(12), has_weights=True, held=(0,))
    case("_npi_histogram", normal(40), bin_cnt=6, range=(-2.0, 2.0), outputs=2)
    case("_npi_histogram", normal(40), np.array([-1.5, -1, 0, 2], np.float32), outputs=2)
    case("_npi_interp", np.sort(normal(6)), normal(6), normal(3, 4) * 2)
    case("_npi_interp", np.sort(normal(6)), normal(6), normal(3, 4) * 2, left=-5.0, right=5.0)
    case("_npi_polyval", normal(4), normal(3, 2))
    case("_npi_norm", x, flag=-2, ord=2)
    for said in ({}, {"axis": (1,)}, {"axis": (2, 0)}):
        case("_npi_norm", x, flag=1, ord=2, **said)
    for order in (0, 1, -1, 2, -2, 3, -3, 0.5):
        for said in ({}, {"axis": (1,)}, {"axis": (1, 2)}):
            case("_npi_norm", x, flag=-1, ord=order, **said)
    for order in (2, -2):
        case("_npi_norm", x, flag=0, ord=order, axis=(0, 2))
    case("_npi_norm", x, flag=2, ord=2, axis=(1, 2), keepdims=True)
    case("_npx_norm", x, ord=1, axis=1)


def movement(case: Writer) -> None:
    x, y = normal(3, 4, 5), normal(3, 4, 5)
    for prefix in ("_np_", "_npi_"):
        for n in (1, 2, 3):
            case(f"{prefix}atleast_{n}d", normal(4), normal(2, 3), num_args=2, outputs=2)
        case(f"{prefix}moveaxis", x, source=(0, -1), destination=(2, 0))
        case(f"{prefix}roll", x, shift=(2, -1), axis=(0, 2))
        case(f"{prefix}roll", x, shift=7)
        case(f"{prefix}trace", x, offset=1, axis1=0, axis2=2)
        case(f"{prefix}diagflat", normal(2, 2), k=-1)
        case(f"{prefix}diagonal", x, offset=-1, axis1=2, axis2=0)
        case(f"{prefix}transpose", x, axes=(2, 0, 1))
        case(f"{prefix}squeeze", normal(1, 3, 1), axis=2)
        case(f"{prefix}repeat", x, repeats=2, axis=1)
        case(f"{prefix}cumsum", x, axis=1)
        case(f"{prefix}diag", normal(3), k=1)
    case("_npi_rollaxis", x, axis=2, start=0)
    case("_npi_rollaxis", x, axis=0, start=3)
    for k in range(4):
        case("_npi_rot90", x, k=k, axes=(0, 2))
    case("_npi_hstack", x, y, num_args=2)
    case("_npi_hstack", normal(3), normal(2), num_args=2)
    case("_npi_vstack", normal(3), normal(3), num_args=2)
    case("_npi_dstack", normal(2, 3), normal(2, 3), num_args=2)
    case("_npi_column_stack", normal(3), normal(3, 2), num_args=2)
    case("_npi_hsplit", x, indices=(0, 1), axis=1, outputs=2)
    case("_npi_hsplit", x, indices=(0,), axis=1, sections=2, outputs=2)
    case("_npi_dsplit", x, indices=(0, 2), axis=2, outputs=2)
    for mode in ("constant", "edge", "reflect", "symmetric", "maximum", "minimum"):
        case("_npi_pad", x, pad_width=((1, 2), (0, 3), (2, 0)), mode=mode)
    case("_npi_pad", x, pad_width=((1, 1), (1, 1), (0, 0)), mode="constant", constant_value=2.5)
    for name in ("tril", "triu"):
        case(f"_npi_{name}", x, k=1)
        case(f"_npi_{name}", normal(4), k=-1)
    case("_npi_tri", N=3, M=4, k=1)
    case("_npi_tril_indices", n=3, k=0, m=4, outputs=2)
    case("_npi_diag_indices_from", normal(3, 3))
    case("_npi_identity", shape=(3, 3))
    case("_npi_indices", dimensions=(2, 3))
    case("_contrib_index_array", x)
    case("_contrib_index_array", x, axes=(2, 0))
    case("_npi_logspace", start=0.0, stop=2.0, num=5)
    for name in ("blackman", "hamming", "hanning"):
        case(f"_npi_{name}", M=7)
    case("_npi_repeats", x, repeats=(1, 0, 2), axis=0)


def found(case: Writer) -> None:
    x = normal(3, 4, 5)
    flags = np.array([1, 0, 1], np.float32)
    for name in ("_contrib_boolean_mask", "_npi_boolean_mask"):
        case(name, x, flags, axis=0)
    case("_npx_nonzero", integers(0, 2, 3, 4))
    case("_npi_unique", integers(0, 5, 3, 4), return_index=True, return_inverse=True, return_counts=True, outputs=4)
    case("_npi_unique", integers(0, 2, 6, 2), axis=0)
    case("_npi_advanced_indexing", x, np.array([2, 0, -1], np.int64))
    case("_npi_advanced_indexing", x, np.array([True, False, True]))
    mask = RANDOM.rand(3, 4) < 0.5
    case("_npi_boolean_mask_assign_scalar", x, mask, value=7.0, start_axis=0)
    case("_npi_boolean_mask_assign_tensor", x, mask, normal(int(mask.sum()), 5), start_axis=0)
    case("_npi_boolean_mask_assign_tensor", x, mask, normal(1, 5), start_axis=0)
    for name in ("_slice_assign", "_npi_slice_assign", "_crop_assign"):
        case(name, x, normal(2, 2, 5), begin=(0, 3, None), end=(2, 1, None), step=(1, -1, 1), numpy=name[1] == "n")
    case("_slice_assign_scalar", x, scalar=2.0, begin=(1, 0), end=(3, 4), step=(1, 2), numpy=False)
    places = np.array([[0, 2], [1, 3]], np.int64)
    case("_scatter_set_nd", x, normal(2, 5), places, shape=(3, 4, 5), numpy=False)
    case("_npx_index_update", x, places, normal(2, 5))
    case("_npx_index_add", x, places, normal(1, 5))
    case("_contrib_index_copy", x, np.array([2, 0], np.int64), normal(2, 4, 5), numpy=False)
    for axis in (0, 1, "None"):
        case("_npi_delete", x, int_ind=1, axis=axis)
        case("_npi_insert_scalar", x, val=3.0, int_ind=2, axis=axis)
    case("_npi_delete", x, start=0, stop=4, step=2, axis=1)
    case("_npi_delete", x, np.array([0, 3], np.int64), axis=2, held=(1,))
    case("_npi_insert_scalar", x, normal(3, 1, 5), int_ind=-1, axis=1)
    case("_npi_insert_slice", x, normal(2, 4, 5), start=0, stop=2, step=1, axis=0)
    case("_npi_insert_slice", x, val=1.5, start=0, stop=4, step=2, axis=1)
    case("_npi_insert_tensor", x, normal(3, 2, 5), np.array([3, 1], np.int64), axis=1, held=(2,))
    case("_npx_constraint_check", np.array([True, True]))


def matrices(case: Writer) -> None:
    a, b = normal(2, 4, 4), normal(2, 4, 3)
    both = a @ a.transpose(0, 2, 1) + np.eye(4, dtype=np.float32)
    case("_npi_einsum", a, b, subscripts="bij,bjk->bik", num_args=2)
    case("_npi_einsum", a, subscripts="...ii->...i", num_args=1)
    case("_npi_tensordot", a, b, a_axes_summed=(0, 2), b_axes_summed=(0, 1))
    case("_npi_tensordot_int_axes", normal(3, 2, 4), a, axes=2)
    case("_npi_kron", normal(2, 3), normal(3, 2))
    case("_npi_cross", normal(4, 3), normal(4, 3))
    case("_npi_cross", normal(3, 4), normal(4, 2), axisa=0)
    for prefix in ("_np_", "_npi_"):
        case(f"{prefix}dot", normal(2, 3, 4), normal(5, 4, 2))
        case(f"{prefix}dot", normal(3, 4), normal(4))
    case("_npi_solve", both, b)
    case("_npi_eigvalsh", both)
    case("_npi_eigvalsh", a, UPLO="U")
    case("_npi_pinv_scalar_rcond", normal(3, 5), rcond=1e-6)
    case("_npi_pinv", normal(2, 5, 3), np.array([1e-6, 0.3], np.float32))
    case("_npi_matrix_rank_none_tol", both, finfoEps32=1.19e-7, finfoEps64=2.2e-16)
    case("_npi_tensorinv", normal(4, 6, 8, 3), ind=2)
    case("_npi_tensorsolve", normal(2, 3, 6), normal(2, 3))
    case("_npi_lstsq", normal(6, 3), normal(6, 2), rcond=-1, outputs=4, finfoEps32=1.19e-7, finfoEps64=2.2e-16)
    case("_npi_qr", normal(5, 3), outputs=2)
    case("_npi_norm", normal(3, 4), flag=2, axis=(0, 1), ord=2)
    case("khatri_rao", normal(2, 3), normal(4, 3), normal(2, 3), numpy=False)
    for offset, lower in ((0, True), (0, False), (1, False), (-2, True)):
        case("_linalg_extracttrian", a, offset=offset, lower=lower, numpy=False)
    case("_linalg_maketrian", normal(2, 6), numpy=False)
    case("_linalg_maketrian", normal(2, 6), offset=1, numpy=False)
    case("_linalg_gelqf", normal(2, 3, 5), outputs=2, numpy=False)


def pictures(case: Writer) -> None:
    photo, photos = integers(0, 256, 6, 8, 3, dtype="uint8"), integers(0, 256, 2, 6, 8, 3, dtype="uint8")
    for x in (photo, photos):
        case("_image_to_tensor", x, numpy=False)
        case("_image_flip_left_right", x, numpy=False)
        case("_image_flip_top_bottom", x, numpy=False)
        case("_image_crop", x, x=1, y=2, width=5, height=4, numpy=False)
        case("_image_resize", x.astype(np.float32), size=(14, 11), numpy=False)  # of bytes OpenCV rounds otherwise
        case("_npx__image_resize", x.astype(np.float32), size=(5, 4))
        case("_image_resize", x, size=6, keep_ratio=True, interp=0, numpy=False)
    case("_image_normalize", normal(3, 5, 6), mean=(0.1, 0.2, 0.3), std=(1.5, 2.0, 3.0), numpy=False)
    case("_image_normalize", normal(2, 3, 5, 6), mean=(0.1,), std=(1.5,), numpy=False)
    case("_image_adjust_lighting", photo.astype(np.float32), alpha=(0.1, -0.2, 0.3), numpy=False)


def contrib(case: Writer) -> None:
    for said in ({}, {"stride": (2, 1), "pad": (1, 0), "dilate": (1, 2)}):
        case("im2col", normal(2, 3, 7, 8), kernel=(3, 2), numpy=False, **said)
    case("col2im", normal(2, 18, 20), output_size=(6, 6), kernel=(3, 2), numpy=False, pad=(0, 0))
    case("_contrib_dynamic_reshape", normal(3, 4), np.array([2, 6], np.int64), held=(1,), numpy=False)
    query, key, steps = normal(2, 6, 3, 4), normal(2, 6, 3, 4), np.array([1, 2, 1], np.int32)
    for symmetric in (True, False):
        said = {"w": 2, "symmetric": symmetric, "held": (2,)}
        case("_contrib_sldwin_atten_score", query, key, steps, **said)
        taps = 5 if symmetric else 3
        case("_contrib_sldwin_atten_context", normal(2, 6, 3, taps), key, steps, **said)
        case(
            "_contrib_sldwin_atten_mask_like", normal(2, 6, 3, taps), steps, np.array([6, 4], np.int32),
            w=2, symmetric=symmetric, held=(1,),
        )  # fmt: skip
    case("masked_log_softmax", normal(3, 4), np.array([[True, False, True, True]] * 3), numpy=False)
    x = np.abs(normal(3, 5)) * 0.2 + 0.1
    one, two = np.abs(normal(3)) + 0.5, np.abs(normal(3)) + 2
    for log in (True, False):
        for name in ("normal", "gamma", "generalized_negative_binomial"):
            case(f"_random_pdf_{name}", x, one, two, is_log=log, numpy=False)
        case("_random_pdf_uniform", x, one - 0.5, two, is_log=log, numpy=False)
        case("_random_pdf_negative_binomial", np.ceil(x), two, one / 5, is_log=log, numpy=False)
        case("_random_pdf_exponential", x, one, is_log=log, numpy=False)
        case("_random_pdf_poisson", np.ceil(x), one, is_log=log, numpy=False)
    shares = np.abs(normal(2, 3, 4)) + 0.1
    case("_random_pdf_dirichlet", shares / shares.sum(-1, keepdims=True), np.abs(normal(2, 4)) + 1, numpy=False)
    byte = np.array([0.0], np.float32), np.array([255.0], np.float32)
    case("_contrib_quantized_reshape", integers(0, 255, 2, 6, dtype="uint8"), *byte, shape=(3, 4), outputs=3)
    case("_contrib_quantized_transpose", integers(0, 255, 2, 6, dtype="uint8"), *byte, axes=(1, 0), outputs=3)


def main() -> int:
    case = Writer(Path(sys.argv[1]))
    for write in (elements, reductions, movement, found, matrices, pictures, contrib):
        write(case)
    print(f"{sum(1 for _ in case.folder.iterdir())} cases")
    if "--refused" in sys.argv:
        print(*sorted(case.refused), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
