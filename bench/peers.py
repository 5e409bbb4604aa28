"""The engines of the benchmark, one function each.

A peer is a generator over a `Task`. It imports what it needs and yields once. In the stage "compile" it then yields the
list of files to ship. In the stage "load" it loads them and yields three callables: `bind(arrays)` sets the inputs,
`step()` runs the model with nothing converted or copied that the engine does not ask for, `fetch()` returns the
outputs. Models of floats run in fp32; reduced precision that an engine would choose by itself is switched off.

Of a peer that runs in Node, the generator has the stage "compile" alone; bench/node_worker.mjs does the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = Any
Run = tuple[Callable[[Sequence[Array]], Any], Callable[[], Any], Callable[[], list[Array]]]
Peer = Callable[["Task"], Iterator[Any]]


@dataclass(frozen=True)
class Task:
    """A model, for one peer.

    Args:
        onnx: its file, ONNX or TensorFlow Lite; of networks, `.pt` and `.pt2` lie beside it.
        inputs: name and array of every input.
        folder: the peer's own, for what it compiles.
        stage: "compile" or "load".
        target: of a benchmark of devices, what Sterna compiles for; "": here, on the CPU.
        device: "cuda", or "" for the CPU: where peers compute.
        precision: "fp32", "tf32" or "fp16"; `bound`: the error that Sterna may make for the sake of "tf32".
        kernel: of one operator on its own, its name in gpu/kernels.py; `step()` then returns the microseconds that the
            device took.
        program: the network as torch exported it, if there is one.
    """

    onnx: Path
    inputs: list[tuple[str, Array]]
    folder: Path
    threads: int
    stage: str
    target: str = ""
    device: str = ""
    precision: str = "fp32"
    bound: float = 0.0
    kernel: str = ""
    program: Path | None = None


@dataclass(frozen=True)
class Engine:
    """A peer, the packages of its virtual environment, and those of the one that converts models for it, if any.

    Args:
        node: it runs in Node, and its packages are npm's.
        shares: the peer whose virtual environment it has, instead of one of its own.
    """

    run: Peer
    packages: tuple[str, ...]
    converter: tuple[str, ...] = ()
    node: bool = False
    shares: str = ""


ENGINES: dict[str, Engine] = {}
#: Packages that write the benchmark's networks.
NETWORKS = ("torch", "onnx", "numpy")


def engine(
    name: str, *packages: str, converter: tuple[str, ...] = (), node: bool = False, shares: str = ""
) -> Callable[[Peer], Peer]:
    def register(run: Peer) -> Peer:
        ENGINES[name] = Engine(run, packages if node else ("numpy", *packages), converter, node, shares)
        return run

    return register


def _quietly(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def _sterna(task: Task, generator: str, **options: Any) -> Iterator[Any]:
    import sterna
    from sterna_runtime import library

    # As the other peers' imports do. A checkout first looks whether its sources have changed; a wheel does not.
    library.load()
    yield
    bundle = task.folder / "bundle"
    if task.stage == "compile":
        shapes = {name: array.shape for name, array in task.inputs}
        sterna.compile(str(task.onnx), shapes=shapes, generator=generator, threads=2, output=str(bundle), **options)
        # The generated sources are kept for people to read; nothing at run time opens them.
        yield [bundle / name for name in ("graph.json", "params.bin", "model.so")]
        return
    loaded = sterna.load(bundle, threads=task.threads)

    def bind(arrays: Sequence[Array]) -> None:
        for spec, array in zip(loaded.inputs, arrays, strict=True):
            loaded.set_input(spec.name, array)

    yield bind, loaded.run, lambda: [np.asarray(loaded.get_output(spec.name)) for spec in loaded.outputs]


@engine("sterna")
def sterna_c(task: Task) -> Iterator[Any]:
    yield from _sterna(task, "c")


@engine("sterna-llvm")
def sterna_llvm(task: Task) -> Iterator[Any]:
    yield from _sterna(task, "llvm")


@engine("sterna-avx2")
def sterna_avx2(task: Task) -> Iterator[Any]:
    yield from _sterna(task, "c", target="x86-64-v3")


@engine("sterna-fp16")
def sterna_fp16(task: Task) -> Iterator[Any]:
    yield from _sterna(task, "c", weights="fp16")


@engine("sterna-fast")
def sterna_fast(task: Task) -> Iterator[Any]:
    yield from _sterna(task, "c", math="fast")


@engine("sterna-web", node=True)
def sterna_web(task: Task) -> Iterator[Any]:
    import sterna

    yield
    bundle, shapes = task.folder / "bundle", {name: array.shape for name, array in task.inputs}
    sterna.compile_to(bundle, str(task.onnx), "browser-relaxed", shapes)
    yield [bundle / name for name in ("graph.json", "params.bin", "model.wasm")]


@engine("onnxruntime-web", "onnxruntime-web@1.30.0", node=True)
def onnxruntime_web(task: Task) -> Iterator[Any]:
    yield
    if task.onnx.suffix == ".tflite":
        raise RuntimeError("reads ONNX only")
    yield [task.onnx]


@engine("onnxruntime", "onnxruntime")
def onnxruntime(task: Task) -> Iterator[Any]:
    import onnxruntime as ort

    yield
    if task.onnx.suffix == ".tflite":
        raise RuntimeError("reads ONNX only")
    if task.stage == "compile":
        yield [task.onnx]
        return
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = task.threads, 1, 3
    session = ort.InferenceSession(str(task.onnx), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = []

    def bind(arrays: Sequence[Array]) -> None:
        for given, array in zip(session.get_inputs(), arrays, strict=True):
            kept.append(ort.OrtValue.ortvalue_from_numpy(array))
            binding.bind_ortvalue_input(given.name, kept[-1])
        for output in session.get_outputs():
            binding.bind_output(output.name)

    yield bind, lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


@engine("openvino", "openvino")
def openvino(task: Task) -> Iterator[Any]:
    import openvino as ov

    yield
    if task.stage == "compile":
        yield [task.onnx]
        return
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": str(task.threads),
        "NUM_STREAMS": "1",
        "INFERENCE_PRECISION_HINT": "f32",  # its own default computes in bfloat16 where the processor can
    }
    model = ov.Core().read_model(str(task.onnx))
    if model.is_dynamic():
        model.reshape({number: list(array.shape) for number, (_, array) in enumerate(task.inputs)})
    compiled = ov.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def bind(arrays: Sequence[Array]) -> None:
        for number, array in enumerate(arrays):
            request.set_input_tensor(number, ov.Tensor(np.array(array)))

    def step() -> None:
        request.start_async()
        request.wait()

    yield bind, step, lambda: [np.array(request.get_output_tensor(n).data) for n in range(len(compiled.outputs))]


@engine("openvino-avx2", "openvino")
def openvino_avx2(task: Task) -> Iterator[Any]:
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"  # read when the library is loaded
    yield from openvino(task)


@engine("litert", "ai-edge-litert", converter=(*NETWORKS, "litert-torch"))
def litert(task: Task) -> Iterator[Any]:
    given = task.onnx.suffix == ".tflite"
    file = task.onnx if given else task.folder / "model.tflite"
    if task.stage == "compile":
        yield
        if given:
            yield [file]
            return
        if not task.onnx.with_suffix(".pt2").exists():
            raise RuntimeError("reads TensorFlow Lite only, and there is no torch program to convert")
        program = (
            "import sys, torch, litert_torch\n"
            "exported = torch.export.load(sys.argv[1])\n"
            "arguments, _ = exported.example_inputs\n"
            "litert_torch.convert(exported.module(), arguments).export(sys.argv[2])"
        )
        _quietly(os.environ["BENCH_CONVERTER"], "-c", program, task.onnx.with_suffix(".pt2"), file)
        yield [file]
        return
    from ai_edge_litert.interpreter import Interpreter

    yield
    interpreter = Interpreter(model_path=str(file), num_threads=task.threads)  # with the XNNPACK delegate
    places = sorted(interpreter.get_input_details(), key=lambda detail: detail["name"])
    for place, (_, array) in zip(places, task.inputs, strict=True):
        if tuple(place["shape"]) != array.shape:
            interpreter.resize_tensor_input(place["index"], array.shape)
    interpreter.allocate_tensors()

    def bind(arrays: Sequence[Array]) -> None:
        for place, array in zip(places, arrays, strict=True):
            interpreter.set_tensor(place["index"], array.astype(place["dtype"]))

    def fetch() -> list[Array]:
        return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]

    yield bind, interpreter.invoke, fetch


@engine("ncnn", "ncnn", "pnnx")
def ncnn(task: Task) -> Iterator[Any]:
    files = [task.folder / "model.ncnn.param", task.folder / "model.ncnn.bin"]
    if task.stage == "compile":
        yield
        traced = task.folder / "model.pt"
        shutil.copy(task.onnx.with_suffix(".pt"), traced)
        kinds = {"f": "f32", "i": "i64"}
        shapes = ",".join(f"[{','.join(map(str, a.shape))}]{kinds[a.dtype.kind]}" for _, a in task.inputs)
        pnnx = Path(sys.executable).with_name("pnnx")
        outputs = f"ncnnparam={files[0]}", f"ncnnbin={files[1]}"
        subprocess.run(
            [str(pnnx), str(traced), f"inputshape={shapes}", "fp16=0", "optlevel=2", *outputs],
            check=True,
            cwd=task.folder,
            stdout=subprocess.DEVNULL,
        )
        traced.unlink()
        yield files
        return
    import ncnn as n

    yield
    net = n.Net()
    net.opt.num_threads, net.opt.use_vulkan_compute = task.threads, False
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_bf16_storage = False
    if net.load_param(str(files[0])) or net.load_model(str(files[1])):
        raise RuntimeError("the converted model cannot be loaded")
    state: dict[str, Any] = {}

    def bind(arrays: Sequence[Array]) -> None:
        integers = [a.astype(np.int32) if a.dtype.kind == "i" else a for a in arrays]
        state["in"] = [n.Mat(np.ascontiguousarray(a)[0]).clone() for a in integers]

    def step() -> None:
        extractor = net.create_extractor()
        for number, mat in enumerate(state["in"]):
            extractor.input(f"in{number}", mat)
        status, state["out"] = extractor.extract("out0")
        if status:
            raise RuntimeError(f"status {status}")

    yield bind, step, lambda: [np.array(state["out"])[None]]


@engine("mnn", "MNN")
def mnn(task: Task) -> Iterator[Any]:
    file = task.folder / "model.mnn"
    if task.stage == "compile":
        yield
        # Not the script mnnconvert, which would install a package that reports what is converted.
        convert = "import sys, _tools; _tools.mnnconvert(sys.argv)"
        flags = ("-f", "ONNX", "--modelFile", task.onnx, "--MNNModel", file, "--bizCode", "b")
        _quietly(sys.executable, "-c", convert, *flags)
        if not file.exists():
            raise RuntimeError("the converter wrote nothing")
        yield [file]
        return
    import MNN

    yield
    interpreter = MNN.Interpreter(str(file))
    session = interpreter.createSession({"numThread": task.threads, "precision": "high", "backend": "CPU"})
    kept: list[Any] = []

    def host(array: Array) -> Any:
        kind = MNN.Halide_Type_Int if array.dtype.kind == "i" else MNN.Halide_Type_Float
        kept.append(array)
        return MNN.Tensor(array.shape, kind, array, MNN.Tensor_DimensionType_Caffe)

    def bind(arrays: Sequence[Array]) -> None:
        tensors = interpreter.getSessionInputAll(session)
        for (name, _), array in zip(task.inputs, arrays, strict=True):
            given = array.astype(np.int32) if array.dtype.kind == "i" else array
            tensors[name].copyFrom(host(np.ascontiguousarray(given)))

    def fetch() -> list[Array]:
        found = []
        for tensor in interpreter.getSessionOutputAll(session).values():
            copy = host(np.zeros(tensor.getShape(), np.float32))
            tensor.copyToHostTensor(copy)
            found.append(np.array(copy.getNumpyData()).reshape(tensor.getShape()).copy())
        return found

    yield bind, lambda: interpreter.runSession(session), fetch


@engine("executorch", "executorch", "torch")
def executorch(task: Task) -> Iterator[Any]:
    file = task.folder / "model.pte"
    import torch

    if task.stage == "compile":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        yield
        exported = torch.export.load(task.onnx.with_suffix(".pt2"))
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
        file.write_bytes(lowered.buffer)
        yield [file]
        return
    from executorch.extension.pybindings import portable_lib

    yield
    portable_lib._unsafe_reset_threadpool(task.threads)
    module = portable_lib._load_for_executorch(str(file))
    state: dict[str, Any] = {}

    def bind(arrays: Sequence[Array]) -> None:
        state["in"] = tuple(torch.from_numpy(np.array(a)) for a in arrays)

    def step() -> None:
        state["out"] = module.run_method("forward", state["in"])

    yield bind, step, lambda: [tensor.numpy().copy() for tensor in state["out"]]


@engine("iree", "iree-base-compiler[onnx]", "iree-base-runtime")
def iree(task: Task) -> Iterator[Any]:
    file = task.folder / "model.vmfb"
    if task.stage == "compile":
        yield
        tools, text = Path(sys.executable).parent, task.folder / "model.mlir"
        _quietly(tools / "iree-import-onnx", task.onnx, "--opset-version", "17", "-o", text)
        flags = (
            *("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"),
            *("--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"),
            "--iree-llvmcpu-stack-allocation-limit=131072",  # the default refuses the encoder
        )
        _quietly(tools / "iree-compile", text, "-o", file, *flags)
        text.unlink()
        yield [file]
        return
    import iree.runtime as rt

    yield
    if task.threads > 1:
        rt.flags.parse_flags(f"--task_topology_group_count={task.threads}")
    config = rt.Config("local-sync" if task.threads == 1 else "local-task")
    context = rt.SystemContext(config=config)
    module = rt.VmModule.mmap(context.instance, str(file))
    context.add_vm_module(module)
    names = [name for name in module.function_names if not name.startswith("__") and not name.endswith("$async")]
    function = module.lookup_function(names[0])
    state: dict[str, Any] = {}

    def bind(arrays: Sequence[Array]) -> None:
        state["in"] = [rt.asdevicearray(config.device, np.ascontiguousarray(a)) for a in arrays]

    def step() -> None:
        given, state["out"] = rt.VmVariantList(len(state["in"])), rt.VmVariantList(1)
        for array in state["in"]:
            given.push_ref(array._buffer_view)
        context.vm_context.invoke(function, given, state["out"])

    def fetch() -> list[Array]:
        views = [state["out"].get_as_object(n, rt.HalBufferView) for n in range(len(state["out"]))]
        return [np.array(rt.DeviceArray(config.device, v, implicit_host_transfer=True)) for v in views]

    yield bind, step, fetch


def _tvm(task: Task, trials: int) -> Iterator[Any]:
    library = task.folder / "model.so"
    import tvm
    from tvm import relax

    yield
    device = tvm.cuda() if task.device == "cuda" else tvm.cpu()
    if not device.exist:
        raise RuntimeError(f"this TVM {tvm.__version__} was built without CUDA")
    if task.stage == "compile":
        import onnx
        from tvm.relax.frontend.onnx import from_onnx

        cpu = {"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": task.threads}
        target = tvm.target.Target.from_device(device) if task.device == "cuda" else tvm.target.Target(cpu)
        shapes = {name: list(array.shape) for name, array in task.inputs}
        module = from_onnx(onnx.load(task.onnx), shape_dict=shapes, keep_params_in_input=False)
        if trials:
            with target:
                tune = relax.get_pipeline(
                    *("static_shape_tuning",),
                    target=target,
                    total_trials=trials,
                    max_trials_per_task=16,  # without a limit the first task takes all of them
                    work_dir=str(task.folder / "tuning"),
                )
                module = tune(module)
        tvm.compile(module, target=target).export_library(str(library))
        yield [library]
        return
    function = relax.VirtualMachine(tvm.runtime.load_module(str(library)), device)["main"]
    state: dict[str, Any] = {}

    def bind(arrays: Sequence[Array]) -> None:
        state["in"] = [tvm.runtime.tensor(np.ascontiguousarray(a), device) for a in arrays]

    def step() -> None:
        state["out"] = function(*state["in"])
        device.sync()

    def fetch() -> list[Array]:
        out = state["out"]
        return [tensor.numpy() for tensor in ([out] if hasattr(out, "numpy") else out)]

    yield bind, step, fetch


@engine("tvm", "apache-tvm", "onnx")
def tvm(task: Task) -> Iterator[Any]:
    yield from _tvm(task, 0)


@engine("tvm-tuned", "apache-tvm", "onnx", "xgboost", "psutil")
def tvm_tuned(task: Task) -> Iterator[Any]:
    yield from _tvm(task, int(os.environ.get("TVM_TRIALS", "128")))
