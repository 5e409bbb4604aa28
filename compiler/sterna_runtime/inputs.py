"""What a caller gives for the model's inputs, checked: all problems of all inputs in one error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from sterna_runtime.advice import Advice, Fix, shapes
from sterna_runtime.axes import axes_fix
from sterna_runtime.dims import Bounds, Dimension, GivenShape, bounds_text, infer
from sterna_runtime.errors import Diagnostic, SternaError, error

if TYPE_CHECKING:
    from sterna_runtime.dlpack import Borrowed

Array = npt.NDArray[Any]
#: DLPack's numbers of devices: those whose memory the CPU reads in place, and names of others.
_NEAR = (1, 3, 11, 13)
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a signature.

    bfloat16, float8, float4 and integers of less than 8 bits are dtypes of `ml_dtypes`; without that package they
    are shown as uint16 and uint8, with the same bits.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]
    """A size that is open until the model runs is a string: the dimension's name, or an expression over names."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a tensor without open sizes. Raises E0501 if there are open ones: see `at`."""
        sizes = tuple(size for size in self.shape if not isinstance(size, str))
        if len(sizes) < len(self.shape):
            names = dict.fromkeys(name for size in self.shape if isinstance(size, Dimension) for name in size.uses)
            raise error("E0501", f"the shape of {self} is open", fix=f"say the size of {', '.join(names)}")
        return sizes

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor, which has no open sizes."""
        return math.prod(self.sizes) * self.dtype.itemsize

    def at(self, dims: Mapping[str, int]) -> TensorSpec:
        """The tensor when the model's dimensions have these sizes."""
        if not dims:
            return self
        shape = tuple(size.at(dims) if isinstance(size, Dimension) else size for size in self.shape)
        return TensorSpec(self.name, self.dtype, shape)

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(str(size) for size in self.shape)}]"


def dtype_from_name(name: str) -> np.dtype[Any]:
    """The NumPy type for a dtype of graph.json."""
    if name in np.sctypeDict:
        plain: np.dtype[Any] = np.dtype(name)
        return plain
    try:
        import ml_dtypes  # noqa: PLC0415 (optional, and slow to import)
    except ImportError:
        return np.dtype(np.uint16 if name == "bfloat16" else np.uint8)
    narrow: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return narrow


#: Takes an object that lies in the memory of a device, or says what is wrong with it.
Borrow = Callable[[TensorSpec, Any], "Borrowed | list[Diagnostic]"]


def _admits(wanted: tuple[int | str, ...], found: tuple[int, ...]) -> bool:
    """Whether the rank and the fixed sizes are equal."""
    return len(wanted) == len(found) and all(w == f or isinstance(w, str) for w, f in zip(wanted, found, strict=True))


def as_array(spec: TensorSpec, given: Any, borrow: Borrow | None = None) -> Array | Borrowed | list[Diagnostic]:
    """`given` as an array of the right dtype and shape, or what is wrong with it. Open sizes may be any.

    An array, or an object with `__dlpack__`, is taken as it is, without a copy; numbers and nested lists are converted.

    Args:
        borrow: takes memory of a device; None: there is no device.
    """
    if (
        isinstance(given, np.ndarray)
        and given.dtype == spec.dtype
        and (given.shape == spec.shape or _admits(spec.shape, given.shape))
    ):
        return given
    where = f"the model expects {spec}"
    array: Array | Borrowed
    try:
        if isinstance(given, np.ndarray):
            array = given
        elif hasattr(given, "__dlpack__"):
            if (device := _far_device(given)) is None:
                array = np.from_dlpack(given)
            elif borrow is not None:
                borrowed = borrow(spec, given)
                if isinstance(borrowed, list):
                    return borrowed
                array = borrowed
            else:
                title = f'input "{spec.name}" lies in the memory of a device ({device}), which inputs are not read from'
                return [Diagnostic("E0606", title, (where,), "a copy in the CPU's memory, such as tensor.cpu()")]
        elif hasattr(given, "__array__"):
            array = np.asarray(given)
        else:
            array = np.asarray(given, dtype=spec.dtype)
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError) as reason:
        title = f'input "{spec.name}" cannot be made an array: {type(given).__name__}: {reason}'
        return [Diagnostic("E0606", title, (where,))]
    problems = []
    if array.dtype != spec.dtype:
        title = f'input "{spec.name}" has dtype {array.dtype}'
        problems.append(Diagnostic("E0603", title, (where,), _other_dtype(spec, given)))
    if not _admits(spec.shape, array.shape):
        way: Fix | None = axes_fix(spec.shape, array.shape) or _other_sizes(spec, array.shape)
        title = f'input "{spec.name}" has shape {list(array.shape)}'
        problems.append(Diagnostic("E0604", title, (where,), way))
    return problems or array


def _far_device(given: Any) -> str | None:
    """The device in whose memory an object with `__dlpack__` lies; None for the CPU's, which devices may share."""
    if not hasattr(given, "__dlpack_device__"):
        return None
    kind, number = given.__dlpack_device__()
    return None if kind in _NEAR else f"{_DEVICES.get(int(kind), f'type {int(kind)} of DLPack')}, number {int(number)}"


def _other_dtype(spec: TensorSpec, given: Any) -> str:
    """What to do with an object of another dtype, by the methods that it has."""
    if hasattr(given, "astype"):
        return f'array.astype("{spec.dtype}")'
    return f"tensor.to(torch.{spec.dtype})" if hasattr(given, "to") else f"an array of {spec.dtype}"


def _other_sizes(spec: TensorSpec, shape: tuple[int, ...]) -> Advice | None:
    """What to do with an array that has other sizes in as many dimensions."""
    if len(shape) != len(spec.shape):
        return None
    return Advice("compile the model for these sizes: ", shapes({spec.name: shape}))


def _list(specs: Sequence[TensorSpec]) -> str:
    return "its inputs: " + (", ".join(str(spec) for spec in specs) or "none")


@overload
def match_inputs(specs: Sequence[TensorSpec], given: Mapping[str, Any] | Sequence[Any]) -> list[Array]: ...
@overload
def match_inputs(
    specs: Sequence[TensorSpec], given: Mapping[str, Any] | Sequence[Any], borrow: Borrow | None
) -> list[Array | Borrowed]: ...
def match_inputs(
    specs: Sequence[TensorSpec], given: Mapping[str, Any] | Sequence[Any], borrow: Borrow | None = None
) -> Sequence[Array | Borrowed]:
    """The arrays in the model's order. Raises a SternaError with everything that is wrong."""
    arrays, problems = _match(specs, given, borrow)
    if problems:
        raise SternaError(problems)
    return list(arrays.values())


def match_open_inputs(
    specs: Sequence[TensorSpec],
    given: Mapping[str, Any] | Sequence[Any],
    bounds: Mapping[str, Bounds],
    present: dict[str, int],
    at_present: Sequence[TensorSpec],
    borrow: Borrow | None = None,
) -> tuple[list[Array | Borrowed], dict[str, int]]:
    """The same for a model with open sizes, and the size of every dimension: `present` where no array says it.

    Args:
        at_present: `specs` at the present sizes, which are most often those of the next run too.
    """
    arrays, problems = _match(specs, given, borrow)
    if not problems and all(map(_has_shape, arrays.values(), at_present)):
        return list(arrays.values()), present
    shapes = [GivenShape(spec.name, spec.shape, arrays[spec.name].shape) for spec in specs if spec.name in arrays]
    sizes, wrong = infer(shapes, bounds, present)
    if wrong:
        signature = f"{_list(specs)}, with {bounds_text(bounds, bounds)}"
        problems += [replace(problem, where=(*problem.where, signature)) for problem in wrong]
    if problems:
        raise SternaError(problems)
    return list(arrays.values()), sizes


def _has_shape(array: Array | Borrowed, spec: TensorSpec) -> bool:
    return array.shape == spec.shape


def _match(
    specs: Sequence[TensorSpec], given: Mapping[str, Any] | Sequence[Any], borrow: Borrow | None
) -> tuple[dict[str, Array | Borrowed], list[Diagnostic]]:
    """Arrays of the right dtype, rank and fixed sizes by name, and what is wrong with the others."""
    problems: list[Diagnostic] = []
    if isinstance(given, Mapping):
        by_name = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        by_name = dict(zip((spec.name for spec in specs), given, strict=False))
        if len(given) > len(specs):
            title = f"{len(given)} inputs were given; the model has {len(specs)}"
            problems.append(Diagnostic("E0602", title, (_list(specs),)))
    else:
        title = f"the inputs are a {type(given).__name__}; a mapping by name or a sequence is needed"
        raise SternaError(Diagnostic("E0606", title, (_list(specs),)))
    known = {spec.name for spec in specs}
    problems += [
        Diagnostic("E0602", f'the model has no input "{name}"', (_list(specs),))
        for name in by_name
        if name not in known
    ]
    arrays: dict[str, Array | Borrowed] = {}
    for spec in specs:
        if spec.name not in by_name:
            problems.append(Diagnostic("E0601", f'input "{spec.name}" is missing', (f"the model expects {spec}",)))
            continue
        array = as_array(spec, by_name[spec.name], borrow)
        if isinstance(array, list):
            problems += array
        else:
            arrays[spec.name] = array
    return arrays, problems


def address_of(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]  # a third of the time of array.ctypes.data
    return address


def in_place(array: Array | Borrowed) -> Array | Borrowed:
    """The array, or a copy if the kernels cannot read it where it is."""
    if not isinstance(array, np.ndarray) or (array.flags.c_contiguous and array.flags.aligned):
        return array
    return np.require(array, requirements=["C", "A"])


def array_to_keep(spec: TensorSpec, given: Any, borrow: Borrow | None, dims: str | None) -> Array | Borrowed:
    """`given` as an array that runs read where it is. Raises a SternaError with what is wrong.

    Args:
        dims: the present sizes of open dimensions that the input has.
    """
    array = as_array(spec, given, borrow)
    if isinstance(array, list):
        if dims is not None:
            fix = f"set_dims before set_input; now {dims}"
            array = [replace(problem, fix=fix) if problem.code == "E0604" else problem for problem in array]
        raise SternaError(array)
    if isinstance(array, np.ndarray) and not (array.flags.c_contiguous and array.flags.aligned):
        raise error(
            "E0605",
            f'input "{spec.name}" cannot be read in place: the array is not C-contiguous and aligned',
            f"shape {array.shape}, strides {array.strides} bytes",
            fix=f'set_input("{spec.name}", numpy.require(array, requirements="CA"))',
        )
    return array


def only_input(archive: dict[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """The arrays of an archive; the one array of an archive is the one input of a model, whatever it is called."""
    if len(archive) == len(names) == 1:
        return {names[0]: next(iter(archive.values()))}
    return archive


def read_archive(path: Path) -> dict[str, Array]:
    """The arrays of an .npz archive by name.

    Raises:
        SternaError: E0003, it cannot be read or is no such archive.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError
            return {name: archive[name] for name in archive.files}
    except OSError as problem:
        raise error("E0003", f"{path} cannot be read: {problem.strerror or problem}") from None
    except Exception:  # zipfile, numpy and zlib each have their own
        raise error("E0003", f"{path} is not an .npz archive of arrays", fix="numpy.savez(file, name=array)") from None


def stale_inputs(specs: Sequence[TensorSpec], arrays: Mapping[int, Array | Borrowed], dims: str) -> SternaError:
    """Why inputs that were set before the sizes changed are not read; `dims` says the present sizes."""
    problems = []
    for number, array in arrays.items():
        spec = specs[number]
        if array.shape != spec.shape:
            title = f'input "{spec.name}" was set with shape {list(array.shape)}, before the sizes changed'
            where = f"with {dims} the model expects {spec}"
            problems.append(Diagnostic("E0604", title, (where,), fix=f'set_input("{spec.name}", array)'))
    return SternaError(problems)


def names_of(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f'"{spec.name}"' for spec in specs) or "none"
