"""The engines of the benchmark of GPUs, as `peers.py` describes them; `step()` returns when the device is done.

Where `Task.device` is "" they compute on the CPU, so that the benchmark itself can be tried without a GPU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from peers import NETWORKS, Array, Task, engine

#: Files of a bundle that are there for people.
_FOR_PEOPLE = (".h", ".c", ".txt", ".md")


def _refuse_tf32(task: Task) -> None:
    if task.precision == "tf32" and task.device != "cuda":
        raise RuntimeError("TF32 is of NVIDIA's GPUs")


# ---------------------------------------------------------------- Sterna
def _identity(task: Task) -> Any:
    """A model whose outputs are its inputs: it brings arrays to the device's memory."""
    from onnx import helper

    fed, made, nodes = [], [], []
    for number, (_, array) in enumerate(task.inputs):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        fed.append(helper.make_tensor_value_info(f"x{number}", kind, array.shape))
        made.append(helper.make_tensor_value_info(f"y{number}", kind, array.shape))
        nodes.append(helper.make_node("Identity", [f"x{number}"], [f"y{number}"]))
    graph = helper.make_graph(nodes, "identity", fed, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _sterna(task: Task, on_device: bool, opened: bool = False) -> Iterator[Any]:
    import sterna
    from sterna.errors import SternaError
    from sterna_runtime import library

    library.load()  # as the peers' imports do
    bundle, mover = task.folder / "bundle", task.folder / "mover"
    # As long as a model is loaded, its driver keeps the device open.
    kept = [sterna.load(mover)] if opened and task.stage == "load" else []
    yield
    if task.stage == "compile":
        _refuse_tf32(task)
        shapes = {name: array.shape for name, array in task.inputs}
        math = f"fast={task.bound}" if task.precision == "tf32" else "exact"
        sterna.compile_to(bundle, str(task.onnx), task.target, shapes, math=math)
        if on_device or opened:
            sterna.compile_to(mover, _identity(task), task.target)
        yield sorted(file for file in bundle.iterdir() if file.is_file() and file.suffix not in _FOR_PEOPLE)
        return
    loaded = sterna.load(bundle)
    state: dict[str, Any] = {"kept": kept}

    def bind(arrays: Sequence[Array]) -> None:
        names = [spec.name for spec in loaded.inputs]
        state["in"] = dict(zip(names, arrays, strict=True))
        there: dict[str, Any] = {}
        if on_device:
            with sterna.load(mover) as moving:
                moved = moving.run_on_device(list(arrays))
                there = {name: moved[f"y{number}"] for number, name in enumerate(names)}
        for name, array in state["in"].items():
            try:
                loaded.set_input(name, there.get(name, array))
                state["in"][name] = there.get(name, array)
            except SternaError as problem:
                if problem.codes != ("E0606",):
                    raise
                loaded.set_input(name, array)  # a node on the CPU reads it: nobody can spare that copy

    def step() -> Any:
        if task.kernel:
            return sum(node.nanoseconds for node in loaded.profile() if node.kernel != "copy") / 1e3
        if on_device:
            state["out"] = loaded.run_on_device(state["in"])
            return None
        return loaded.run()

    def fetch() -> list[Array]:
        if "out" not in state:
            return [np.asarray(loaded.get_output(spec.name)) for spec in loaded.outputs]
        found = [state["out"][spec.name] for spec in loaded.outputs]
        return [array if isinstance(array, np.ndarray) else array.numpy() for array in found]

    yield bind, step, fetch


@engine("sterna-device")
def sterna_device(task: Task) -> Iterator[Any]:
    """Inputs and outputs stay in the device's memory."""
    yield from _sterna(task, on_device=True)


@engine("sterna-copies")
def sterna_copies(task: Task) -> Iterator[Any]:
    """Inputs come from the CPU's memory, and outputs go there."""
    yield from _sterna(task, on_device=False)


@engine("sterna-opened")
def sterna_opened(task: Task) -> Iterator[Any]:
    """As sterna-copies, in a process that has the device open already: what loading a second model takes."""
    yield from _sterna(task, on_device=False, opened=True)


# ---------------------------------------------------------------- ONNX Runtime
def _onnxruntime(task: Task, graph: bool) -> Iterator[Any]:
    import onnxruntime as ort

    yield
    if task.stage == "compile":
        yield [task.onnx]
        return
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()  # CUDA's libraries, as pip installs them
    options = ort.SessionOptions()
    options.log_severity_level = 3
    settings = {"device_id": "0", "use_tf32": str(int(task.precision == "tf32")), "enable_cuda_graph": str(int(graph))}
    session = ort.InferenceSession(str(task.onnx), options, providers=[("CUDAExecutionProvider", settings)])
    if "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("this ONNX Runtime has no CUDA provider, or it finds no GPU")
    binding, kept = session.io_binding(), list[Any]()

    def bind(arrays: Sequence[Array]) -> None:
        for given, array in zip(session.get_inputs(), arrays, strict=True):
            kept.append(ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0))
            binding.bind_ortvalue_input(given.name, kept[-1])
        for output in session.get_outputs():
            if not all(isinstance(size, int) for size in output.shape):
                binding.bind_output(output.name, "cuda", 0)
                continue
            name = output.type.removeprefix("tensor(").removesuffix(")")
            kind = np.dtype(_TYPES.get(name, name))
            kept.append(ort.OrtValue.ortvalue_from_shape_and_type(output.shape, kind, "cuda", 0))
            binding.bind_ortvalue_output(output.name, kept[-1])

    def step() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    yield bind, step, binding.copy_outputs_to_cpu


#: NumPy's types of ONNX Runtime's names, where they differ.
_TYPES = {"float": "float32", "double": "float64"}


@engine("onnxruntime-gpu", "onnxruntime-gpu[cuda,cudnn]")
def onnxruntime_gpu(task: Task) -> Iterator[Any]:
    yield from _onnxruntime(task, graph=False)


@engine("onnxruntime-graph", shares="onnxruntime-gpu")
def onnxruntime_graph(task: Task) -> Iterator[Any]:
    """A run is one CUDA graph."""
    yield from _onnxruntime(task, graph=True)


# ---------------------------------------------------------------- TensorRT
def _tensorrt(task: Task, graph: bool) -> Iterator[Any]:
    import tensorrt as trt
    import torch

    logger = trt.Logger(trt.Logger.ERROR)
    torch.cuda.init()
    yield
    plan = task.folder / "model.plan"
    if task.stage == "compile":
        builder = trt.Builder(logger)
        # Every tensor has the type that the file says; from TensorRT 11 on that is always so, and the flag may go.
        flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        network = builder.create_network(0 if flag is None else 1 << int(flag))
        parser = trt.OnnxParser(network, logger)
        if not parser.parse_from_file(str(task.onnx)):
            raise RuntimeError("; ".join(str(parser.get_error(n)) for n in range(parser.num_errors)))
        config = builder.create_builder_config()
        if task.precision == "tf32":
            config.set_flag(trt.BuilderFlag.TF32)
        else:
            config.clear_flag(trt.BuilderFlag.TF32)
        built = builder.build_serialized_network(network, config)
        if built is None:
            raise RuntimeError("the network cannot be built")
        plan.write_bytes(bytes(built))
        yield [plan]
        return
    loaded = trt.Runtime(logger).deserialize_cuda_engine(plan.read_bytes())
    context, stream = loaded.create_execution_context(), torch.cuda.Stream()
    names = [loaded.get_tensor_name(number) for number in range(loaded.num_io_tensors)]
    outputs = [name for name in names if loaded.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT]
    tensors: dict[str, Any] = {}
    state: dict[str, Any] = {}

    def launch() -> None:
        if not context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError("TensorRT could not run the network")

    def bind(arrays: Sequence[Array]) -> None:
        for (name, _), array in zip(task.inputs, arrays, strict=True):
            tensors[name] = torch.from_numpy(np.array(array)).cuda()
            context.set_input_shape(name, array.shape)
        for name in outputs:
            kind = torch.from_numpy(np.empty(0, trt.nptype(loaded.get_tensor_dtype(name)))).dtype
            tensors[name] = torch.empty(tuple(context.get_tensor_shape(name)), dtype=kind, device="cuda")
        for name, tensor in tensors.items():
            context.set_tensor_address(name, tensor.data_ptr())
        torch.cuda.synchronize()
        launch()  # what it does once is no part of the graph
        stream.synchronize()
        if graph:
            state["graph"] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(state["graph"], stream=stream):
                launch()

    def step() -> None:
        if graph:
            with torch.cuda.stream(stream):
                state["graph"].replay()
        else:
            launch()
        stream.synchronize()

    yield bind, step, lambda: [tensors[name].cpu().numpy() for name in outputs]


@engine("tensorrt", "tensorrt", "torch")
def tensorrt(task: Task) -> Iterator[Any]:
    yield from _tensorrt(task, graph=False)


@engine("tensorrt-graph", shares="tensorrt")
def tensorrt_graph(task: Task) -> Iterator[Any]:
    """A run is one CUDA graph."""
    yield from _tensorrt(task, graph=True)


# ---------------------------------------------------------------- torch
def _exported(torch: Any, task: Task) -> Any:
    """The network as a module on its device, in float16 where that is asked for."""
    from torch.export.passes import move_to_device_pass

    if task.program is None or not task.program.exists():
        raise RuntimeError("there is no torch program of the model")
    module = move_to_device_pass(torch.export.load(task.program), task.device or "cpu").module()
    if task.precision == "fp16":

        def halved(value: Any) -> Any:
            return torch.float16 if value is torch.float32 else value

        for node in module.graph.nodes:  # conversions that the network's own code asks for
            node.args = tuple(map(halved, node.args))
            node.kwargs = {name: halved(value) for name, value in node.kwargs.items()}
        module.recompile()
        module = module.half()
    return module


@engine("torch-compile", *(package for package in NETWORKS if package != "numpy"))
def torch_compile(task: Task) -> Iterator[Any]:
    """max-autotune, which makes CUDA graphs, too; on the CPU, where it takes minutes, the default. What was compiled is
    kept, and loaded again."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(task.folder / "inductor")  # read when torch is imported
    import torch

    yield
    _refuse_tf32(task)
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("high" if task.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = task.precision == "tf32"
    module = torch.compile(_exported(torch, task), mode="max-autotune" if task.device else "default")
    state: dict[str, Any] = {}

    def bind(arrays: Sequence[Array]) -> None:
        state["in"] = [torch.from_numpy(np.array(array)).to(task.device or "cpu") for array in arrays]

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        state["out"] = module(*state["in"])
        if task.device:
            torch.cuda.synchronize()

    if task.stage == "compile":
        bind([array for _, array in task.inputs])
        step()
        yield []
        return

    def fetch() -> list[Array]:
        out = state["out"]
        return [tensor.cpu().numpy() for tensor in (out if isinstance(out, (tuple, list)) else (out,))]

    yield bind, step, fetch


#: What the kernels of gpu/kernels.py are in torch; a product is cuBLAS's.
_KERNELS: dict[str, Callable[[Any, Sequence[Any]], Any]] = {
    "product": lambda torch, given: torch.matmul(*given),
    "copy": lambda torch, given: given[0].clone(),
    "add": lambda torch, given: torch.add(*given),
    "relu": lambda torch, given: torch.relu(*given),
    "softmax": lambda torch, given: torch.softmax(given[0], -1),
    "layer_norm": lambda torch, given: torch.nn.functional.layer_norm(given[0], given[1].shape, given[1], given[2]),
}


@engine("torch-eager", shares="torch-compile")
def torch_eager(task: Task) -> Iterator[Any]:
    """One operator, timed by the device's events."""
    import torch

    yield
    if task.stage == "compile":
        yield []
        return
    torch.set_grad_enabled(False)
    state: dict[str, Any] = {}

    def bind(arrays: Sequence[Array]) -> None:
        state["in"] = [torch.from_numpy(np.array(array)).to(task.device or "cpu") for array in arrays]

    def step() -> float:
        if not task.device:
            start = time.perf_counter()
            state["out"] = _KERNELS[task.kernel](torch, state["in"])
            return (time.perf_counter() - start) * 1e6
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        state["out"] = _KERNELS[task.kernel](torch, state["in"])
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3

    yield bind, step, lambda: [state["out"].cpu().numpy()]
