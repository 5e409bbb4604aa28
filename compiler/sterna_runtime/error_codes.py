"""Every error code: what it means, what usually causes it, and what to do about it.

This is the one declaration of the codes. `sterna_runtime.errors` refuses a code that is not here; `sterna explain CODE`
prints an entry; `docs/errors.py` writes docs/errors.md from all of them, with a real message for each.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """`meaning` is one line without a full stop; `cause` and `fix` are whole sentences in Markdown."""

    meaning: str
    cause: str
    fix: str


GROUPS: dict[str, str] = {
    "E00": "Command line",
    "E01": "Models and front ends",
    "E02": "Compiler options and targets",
    "E03": "Schedules",
    "E04": "Toolchain",
    "E05": "Bundles and runtimes",
    "E06": "Inputs of a run",
    "E07": "Quantization and ONNX as an output",
    "E08": "Remote devices",
    "E09": "Internal errors",
}
"""First three characters of a code -> the heading it stands under."""


CODES: dict[str, Code] = {
    # E00xx command line; E0001 and E0002 end with status 2
    "E0001": Code(
        "the command line is not understood",
        "A command or an option does not exist, an option lacks its value, or an argument is missing.",
        "The message names the closest command or option that exists. `sterna COMMAND --help` lists them all.",
    ),
    "E0002": Code(
        "the value of an option is not of the form it needs",
        "Options such as `--dim`, `--shape`, `--input` and `--scale` have a certain form, for example `NAME=SIZE`.",
        "Write the value in the form that the message shows. Quote values that contain spaces or brackets.",
    ),
    "E0003": Code(
        "a file with inputs cannot be read",
        "The file does not exist, may not be read, is damaged, or its ending is not one that Sterna knows.",
        "Check the path. Known endings are `.npy`, `.npz`, `.bin`, `.raw` and images; `numpy.save` writes `.npy`.",
    ),
    "E0004": Code(
        "a package that this needs is not installed",
        "Images need pillow, `sterna verify` compares with the runtime of the model's format, and some formats are "
        "read with packages of their own. All of these are optional.",
        "Install the package with the command in the message, or use what needs no package: arrays in `.npy` files, "
        "`--against interpreter`.",
    ),
    "E0005": Code(
        "a file does not fit the input it is given for",
        "The file has more or fewer bytes than the input, or an archive has no array of the input's name, or an image "
        "does not fit an input of these dimensions.",
        "`sterna inspect BUNDLE` shows the name, type and sizes of every input. Write an array of just these.",
    ),
    "E0006": Code(
        "what is named is not a bundle or a model",
        "The command needs the folder that `sterna compile` wrote, or a model file, and was given something else.",
        "Compile the model first, and give the output folder.",
    ),
    "E0007": Code(
        "the results cannot be written",
        "The folder does not exist or is not writable, the disk is full, or the ending of the file is not known.",
        "Name a file in a folder that exists. `.npz` holds any number of outputs, `.npy` one.",
    ),
    "E0008": Code(
        "a compiled model and its reference disagree",
        "`sterna verify` found an output that differs by more than the tolerance and more than rounding explains. The "
        "message names the first tensor that differs and the stage of the compiler where the difference begins.",
        "With a tolerance below the rounding of float32 (`--tolerance 0`), this is expected. Where the import of an "
        "operator differs from the runtime by design, the message says how: give a larger `--tolerance`. Otherwise it "
        "is a bug in Sterna: please report it with the model and the message.",
    ),
    "E0009": Code(
        "the reference cannot run the model",
        "`sterna verify` compares with the runtime of the model's format, and that runtime refused this model.",
        "`--against interpreter` compares with Sterna's own interpreter.",
    ),
    "E0010": Code(
        "the operating system refused something",
        "A disk is full, a permission is missing, or a port is in use by another program.",
        "The message has the reason that the system gave. Free the resource or name another one, and run the command "
        "again: files that were there are unchanged.",
    ),
    "E0011": Code(
        "the second of two bundles or models exceeds a limit",
        "`sterna report A B --fail-if-slower 5%` or `--fail-if-larger 2%` found B slower or larger than A by more than "
        "that.",
        "The message has both numbers; the page shows what changed, layer by layer. On a busy machine allow a larger "
        "difference in time, or time more runs (`--repeat`).",
    ),
    # E01xx model and front end
    "E0101": Code(
        "the model file cannot be read, or is not a model",
        "The path is wrong, the download is incomplete, or the file is of a format that Sterna does not read. The "
        "content decides, and where it fits several formats the ending of the name.",
        "Sterna reads ONNX (`.onnx`), TensorFlow Lite (`.tflite`), XGBoost (`.json`, `.ubj`), LightGBM (`.txt`), "
        "Keras (`.keras`, `.h5`, `.hdf5`), DarkNet (`.cfg`, `.weights`), Caffe (`.prototxt`, `.caffemodel`), PyTorch "
        "(`.pt2`, `.pt`), TensorFlow (`.pb`), Core ML (`.mlmodel`, `.mlpackage`) and MXNet (`.json`, `.params`). "
        "Export the model to one of these.",
    ),
    "E0102": Code(
        "the model needs an operator set that this version does not know",
        "The model was exported for an operator set that is newer than the installed `onnx` package, or from a domain "
        "that Sterna does not know.",
        "`pip install --upgrade onnx`, or export the model with an older `opset_version`.",
    ),
    "E0103": Code(
        "the model's graph is malformed",
        "The graph contradicts itself: a node reads a tensor that nothing computes, a name is used twice, a graph "
        "contains itself, or a field has an impossible value.",
        "The tool that wrote the file made a mistake, or the file was edited or damaged. Export it again. For ONNX, "
        "`onnx.checker.check_model` often names the same place.",
    ),
    "E0104": Code(
        "the model uses operators that are not supported",
        "The model has operators that Sterna does not implement. All of them are listed, with the nodes that use them.",
        "See [operators.md](operators.md) for what is supported. Often an exporter has an option that writes other "
        "operators; custom operators can be moved out of the model, before or behind it, or be given a translation "
        "([frontends.md](frontends.md)).",
    ),
    "E0105": Code(
        "an input has a dimension of unknown size",
        "Sterna plans all memory when it compiles, so that every size must be known or have bounds. The model leaves "
        "one open, most often the batch.",
        "Give a size with `--dim batch=1` or `--shape image=1,3,224,224`, or a range with `--dim batch=1..8`. In "
        'Python: `dims={"batch": 1}`, `shapes={"image": (1, 3, 224, 224)}` or `dims={"batch": (1, 8)}`.',
    ),
    "E0106": Code(
        "a given shape or dimension does not fit the model",
        "A `--shape`, `--dim` or `--value` names an input or a dimension that the model does not have, or a size that "
        "the model rules out.",
        "`sterna inspect MODEL` shows the inputs and which of their sizes are open.",
    ),
    "E0107": Code(
        "an operand must be known when the model is compiled",
        "Some operators need an operand as a constant, for example the axes of a reduction or the sizes of a reshape, "
        "and in this model it is computed from an input.",
        "Give the sizes of the inputs with `--shape` or `--dim`: what depends on sizes alone becomes constant then. "
        "`--value` makes an input of an ONNX or TensorFlow model a constant. Otherwise export the model with this "
        "operand as a constant.",
    ),
    "E0108": Code(
        "the operands of an operator do not fit together",
        "The shapes or types that a node is given do not go together. Either the model is wrong, or a size that you "
        "gave does not fit the rest of the model.",
        "If you gave `--shape` or `--dim`, check these first. Otherwise export the model again. Images that are halved "
        "and doubled again fit what they were if their sizes are multiples: `--dim height=64..640:32`, in Python "
        '`dims={"height": (64, 640, 32)}`. A dimension that is made of another, as the length of a mask of that of a '
        'cache, is `--dim total=past+1`, `dims={"total": "past+1"}`.',
    ),
    "E0109": Code(
        "an attribute of an operator is missing, unknown or of the wrong kind",
        "The node does not follow the definition of its operator in the operator set that the model declares.",
        "Export the model again with a current exporter; for ONNX, `onnx.checker.check_model` shows whether the file "
        "itself is wrong.",
    ),
    "E0110": Code(
        "external data of the model is missing, damaged or outside its folder",
        "Large ONNX models keep their weights in files beside the model. One is missing, is too short, or its name "
        "leads out of the model's folder, which is refused for safety.",
        "Copy the data files together with the model, into the same folder and under the same names.",
    ),
    "E0111": Code(
        "an element type is not supported",
        "A tensor has a type that Sterna does not compute with, such as a complex number as an input of the model.",
        "Export the model with another type. The README lists what is supported.",
    ),
    "E0112": Code(
        "a tensor of the model is too large",
        "A tensor has more elements than the compiler or the machine can handle. Often a size was given by mistake, or "
        "the model is built to use up memory.",
        "Check the sizes that you gave. If the model is really that large, use smaller inputs.",
    ),
    "E0113": Code(
        "this use of a supported operator is not supported",
        "The operator is supported, but not with this attribute, type or number of dimensions. The message says which.",
        "Export the model with another setting, or replace the operator by others with the same result.",
    ),
    "E0114": Code(
        "the quantization of a tensor is invalid",
        "A scale is zero, negative, infinite or NaN, or a zero point is outside of its type's range. Such a model has "
        "no defined result.",
        "Quantize the model again; the message names the tensor.",
    ),
    "E0115": Code(
        "a weight does not fit the type that weights are to be stored in",
        "`--weights fp16` was asked for, and a weight is larger than 65,504, which is the largest number in fp16.",
        "`--weights bf16` has the range of float32. Or leave the weights in float32.",
    ),
    "E0116": Code(
        "constants take more memory than they may",
        "The model asks the compiler to compute constants, or to lay out weights for kernels, of more than 1 GiB. "
        "A file of a hundred bytes can do that by mistake or on purpose: a range, an identity matrix, a shape filled "
        "with a number.",
        "Check the sizes in the model. If it really needs that much, `--max-constant-bytes` (in Python "
        "`max_constant_bytes`) allows more.",
    ),
    "E0117": Code(
        "there is not enough memory to compile the model",
        "The operating system has refused the compiler memory that it asked for.",
        "Compile on a machine with more memory, or with smaller sizes. `ulimit -v` may limit what a process gets.",
    ),
    # E02xx compiler options and targets
    "E0201": Code(
        "there is no such target",
        "The name after `--target` is neither one of the targets of Sterna, nor one in a folder of `STERNA_TARGETS`, "
        "nor the path of a `.toml` file.",
        "`sterna targets` lists all names.",
    ),
    "E0202": Code(
        "a target description is malformed",
        "A `.toml` file of a target has an unknown key, a value of the wrong type, or contradicting values.",
        "The message names each key. `sterna targets NAME` shows a complete description to compare with.",
    ),
    "E0203": Code(
        "a compiler option has an impossible value",
        "An option exists, but not with this value, or not together with this target or model.",
        "The message says which values are possible.",
    ),
    "E0204": Code(
        "the output directory cannot be written",
        "The output's place is a file, is not writable, or has files of yours with our names; or the disk is full.",
        "Move the files that the message names, give another folder with `-o`, or free space. Nothing was changed.",
    ),
    "E0205": Code(
        "a generator cannot write what a kernel needs of the hardware",
        "A schedule uses threads of a task, or a memory in an address space of its own, and the code generator has no "
        "words for them.",
        "Name another generator or target, or schedule the kernel without.",
    ),
    "E0206": Code(
        "what lies between kernels does not fit into the target's memories",
        "The target's description declares memories that tensors may live in, and the plan finds no way to lay the "
        "model's intermediate tensors out in them. For firmware, the leading layers are tried in patches before that.",
        "The message says how much is missing, and what the model takes in patches. Use a smaller model, smaller "
        "inputs or narrower types, or a board with more memory.",
    ),
    "E0207": Code(
        "firmware takes more than it may",
        "`--max-flash`, `--max-ram` or `--max-stack` allows less than the compiled model takes. Flash is code, tables "
        "and weights, memory is arena and stack; what the program around it takes comes on top. Smaller code, and the "
        "leading layers in patches, were tried.",
        "The message says what it would take, of what that is made, and of all that was tried what takes the least "
        "flash and the least memory: where no way meets both budgets, that is what to give of one for the other. Use a "
        "smaller model, smaller inputs or narrower types, or allow more.",
    ),
    "E0209": Code(
        "there is no such board",
        "`sterna fit --board` takes the name of a board that it has data of, or the path of a file that describes one.",
        "`sterna fit MODEL --board all` shows every board. For another one, write a `.toml` file with its flash, RAM, "
        "clock and target, and give its path.",
    ),
    # E03xx schedules
    "E0301": Code(
        "a saved schedule names a primitive that does not exist",
        "A schedule was written by another version of Sterna, or by hand with a wrong name.",
        "Make the schedule again with this version.",
    ),
    "E0302": Code(
        "a schedule step is not legal for the stage it is applied to",
        "A step names an axis or stage that the kernel does not have, or would change the result.",
        "Only schedules written by hand or by other programs cause this. The message names the step and the reason.",
    ),
    "E0303": Code(
        "a schedule does not lead to loops",
        "Each step was legal by itself, but together they ask for something that cannot be written as loops.",
        "Change the step that the message names. If you wrote no schedule, please report it as a bug.",
    ),
    "E0304": Code(
        "register storage is used in a way that registers cannot serve",
        "A buffer in registers has an index that is not a constant after unrolling.",
        "Unroll the loops over the buffer, or keep it in memory. If you wrote no schedule, please report it as a bug.",
    ),
    "E0305": Code(
        "a loop program may reach outside of a buffer",
        "Before code is generated, Sterna proves that every access is within its buffer. For this program it cannot.",
        "For a loop program of your own, clamp the index. For a model, please report it as a bug.",
    ),
    "E0306": Code(
        "the threads of a loop program may disturb one another",
        "Before code is generated, Sterna proves that no two threads touch one element at a time if one of them writes "
        "it, that all threads reach every barrier, and that every asynchronous copy is waited for. Here it cannot.",
        "Put a barrier between the write and the use, take barriers out of conditions, and wait for copies. For a "
        "model, please report it as a bug.",
    ),
    "E0307": Code(
        "what a schedule places in a memory does not fit there",
        "A schedule stages operands or results of a kernel through a memory that the target declares, and all that has "
        "to be there at one time takes more bytes than the memory has.",
        "Split the axes into smaller tiles, place the stage at a more inner axis, or leave it in another memory.",
    ),
    "E0308": Code(
        "a loop program reaches into a memory that only copies and instructions reach",
        'The target says `access = "copy"` of the memory: elements move by `Copy` statements, and instructions that '
        "name the memory work on them. An expression loads from it here, or a store writes to it.",
        "In a schedule, `transfer` what is copied into the memory and out of it, and `tensorize` what computes there. "
        "For a model, please report it as a bug.",
    ),
    "E0309": Code(
        "an operand of an instruction is not in the memory that the instruction takes",
        "The target declares an intrinsic over memory, and says in which memory each operand lies. Of the loop program "
        "that a schedule makes, a buffer that stands for an operand lies elsewhere.",
        "In the schedule, let `cache_read` or `cache_write` make a copy of the tensor and `compute_at` place it there. "
        "For a model, please report it as a bug.",
    ),
    # E04xx toolchain
    "E0401": Code(
        "the compiler that builds the C runtime is missing or failed",
        "Sterna is used from a checkout, so that the C runtime is compiled at first use, and no compiler did it.",
        "`pip install ziglang` brings a compiler. A wheel contains the runtime ready-made.",
    ),
    "E0402": Code(
        "a compiler or linker is missing",
        "The program after `--cc` is not installed or cannot be started, or the package `ziglang` is missing.",
        "`pip install ziglang`, or name an installed compiler with `--cc`. `sterna doctor` shows what is there.",
    ),
    "E0403": Code(
        "a compiler or linker rejected generated code",
        "The compiler after `--cc` does not know a flag or an extension that the target needs, or is too old.",
        "Leave out `--cc` to use the compiler that pip installed. If that one fails, please report it as a bug.",
    ),
    "E0404": Code(
        "an object file contains something that a bundle must not",
        "Kernels call nothing outside of themselves. The compiler added a call, for example to `memcpy` or to a "
        "profiler.",
        "Remove compiler options of your own (instrumentation, stack protectors), or leave out `--cc`.",
    ),
    "E0405": Code(
        "a program does not fit the board",
        "The model's weights and code need more flash than the board has, or its arena, inputs, outputs and stack more "
        "RAM. The message says which memory lacks how much.",
        "Quantize the model to 8 bits, take a smaller one or a larger board: `sterna fit MODEL --board all` compares.",
    ),
    # E05xx bundle and runtime; E0501 to E0512 are the status codes of runtime_c/include/sterna.h
    "E0501": Code(
        "a call of the runtime was given an impossible argument",
        "An index, a size, a pointer or a number of threads is out of its range.",
        "The message names the argument and its range.",
    ),
    "E0502": Code(
        "the runtime could not get the memory or threads it asked for",
        "The model needs more memory than the process may have, or than the device that it runs on has or gives to one "
        "buffer; or the system refused to start a thread.",
        "`sterna inspect BUNDLE` shows how much memory the model needs. Compile it for a smaller size (`--dim`), use "
        "fewer threads, or raise the limit of the process. Where a device's memory is full, `--target host` computes "
        "on the CPU.",
    ),
    "E0503": Code(
        "a file of the bundle cannot be opened or read",
        "The path is wrong, a file is missing, or may not be read. In a browser: the server does not have the file "
        "under this address.",
        "Check the path; `sterna compile MODEL -o DIRECTORY` makes a bundle.",
    ),
    "E0504": Code(
        "a file of the bundle is malformed or contradicts itself",
        "`graph.json` was edited or damaged, or was not written by Sterna.",
        "Compile the model again. Do not edit the files of a bundle.",
    ),
    "E0505": Code(
        "a file of the bundle is damaged: its size or hash is not the one written when it was compiled",
        "A copy or a download was cut off, a file was edited, or files of two bundles were mixed.",
        "Copy the whole bundle again, or compile the model again. In a browser, clear the cache.",
    ),
    "E0506": Code(
        "the bundle was written for another version of the format or of the kernel interface",
        "The compiler that made the bundle and the runtime that loads it are of different releases.",
        "Compile the model again with the version of the runtime, or install the version that made the bundle.",
    ),
    "E0507": Code(
        "the bundle was compiled for another machine",
        "The processor has another architecture or lacks an instruction set that the kernels use. Or the kernels are "
        "for a device: there is none, it has no driver or an old one, it lacks something, or nothing there drives it.",
        "Compile for this machine with `--target host`, or for the machine's family: `sterna targets` lists them. In "
        "browsers, `--all-variants` gives each engine what it can run. Of devices the message says whether a driver or "
        "another `--target` helps; `sterna doctor` shows the devices here.",
    ),
    "E0508": Code(
        "the bundle's kernel library cannot be opened or does not fit its graph",
        "The library is missing or damaged, files of two bundles were mixed, or the system forbids loading libraries "
        "from this folder. Or the driver of a device does not compile the kernels for it.",
        "Compile the model again. On Linux, check that the file system is not mounted with `noexec`. Where a driver "
        "refuses kernels, report it with the message; `--target host` computes on the CPU.",
    ),
    "E0509": Code(
        "the bundle has no tensor of that name",
        "An output or an intermediate tensor was asked for by a name that the model does not have.",
        "The message lists the names; `sterna inspect BUNDLE` shows them too.",
    ),
    "E0510": Code(
        "the tensor's memory does not hold its value any more, or not yet",
        "Before the first run there are no values, and intermediate tensors share memory: a later node has overwritten "
        "this one.",
        "Run the model first. Compile with `--debug` (Python: `debug=True`) to keep every tensor.",
    ),
    "E0511": Code(
        "a kernel reported a failure",
        "An input has values for which the model is not defined, such as an index outside of a table or a number of "
        "iterations above the limit. Or the driver of a device reported a failure, or lost the device.",
        "Check the values of the inputs. The message names the node. Where a device was lost, close all bundles that "
        "use it, and load them again; if that fails too, restart the process.",
    ),
    "E0512": Code(
        "the runtime was built without what was asked for",
        "The C runtime was built for a system without files, threads or dynamic libraries (`STERNA_PORT_NONE`), and "
        "the program calls for one of them.",
        "Use `sterna_load_table` with kernels that are linked into the program, and one thread.",
    ),
    "E0520": Code(
        "the bundle has been closed",
        "A method was called after `Bundle.close()` or after the `with` block that held the bundle.",
        "Load the bundle again, or close it later.",
    ),
    "E0521": Code(
        "the installation is incomplete or mixed",
        "The C runtime library was not found and cannot be built: the wheel contains it, and a checkout builds it. Or "
        "the packages `sterna` and `sterna_runtime` come from wheels of different versions.",
        "Install again with `pip install --force-reinstall sterna`, on a device without the compiler `sterna-runtime`.",
    ),
    # E06xx inputs at run time
    "E0601": Code(
        "an input is missing",
        "The model has more inputs than were given.",
        "Give all inputs by name. `sterna run BUNDLE --random` fills them with random values.",
    ),
    "E0602": Code(
        "an input is not one of the model's",
        "The name is misspelled, or belongs to another model.",
        "The message lists the model's inputs.",
    ),
    "E0603": Code(
        "an input has another element type than the model's",
        "NumPy makes float64 and int64 arrays by default; most models have float32 inputs. Sterna does not convert "
        "silently.",
        "Convert the array: `x.astype(numpy.float32)`.",
    ),
    "E0604": Code(
        "an input has another shape than the model's",
        "A dimension is missing or too many, a size differs, or the axes are in another order: PyTorch puts channels "
        "first (NCHW), TensorFlow and most image libraries last (NHWC).",
        "Follow the message. Use `transpose` where the axes are in another order: `reshape` keeps the order of the "
        "elements and would scramble a picture.",
    ),
    "E0605": Code(
        "an input cannot be bound without a copy",
        "`bind_input` and `set_input` without a copy need an array that is dense, row-major and aligned.",
        "`numpy.ascontiguousarray(x)` makes such an array.",
    ),
    "E0606": Code(
        "an input is not an array",
        "The value has no elements of a numeric type that NumPy could read, or it lies in the memory of a device that "
        "is not the bundle's, or that nodes on the CPU cannot read.",
        "Give a NumPy array, or an object with `__dlpack__` or `__array__`, for example a PyTorch tensor on the CPU, "
        "or on the device of the bundle ([gpu.md](gpu.md#arrays-on-the-device)).",
    ),
    # E07xx quantization, and ONNX as an output
    "E0701": Code(
        "the model is quantized already",
        "`sterna quantize` starts from a float model, and this one contains integer operators.",
        "Give the float model, or compile this one as it is.",
    ),
    "E0702": Code(
        "there are no samples to calibrate with",
        "The file or folder after `--data` holds no arrays.",
        "Write an `.npz` file with one array for each input; [quantize.md](quantize.md) describes it.",
    ),
    "E0703": Code(
        "a sample, or what the model makes of it, is not a finite number",
        "An array holds NaN or infinity, or the float model overflows on the samples.",
        "Remove such samples. If the samples are finite, check that they are scaled as in training.",
    ),
    "E0704": Code(
        "the bound on the error cannot be reached",
        "The error is above `--bound` even with most layers in float, or is below it only with all of them in float.",
        "Allow a larger error, give more samples, or try `--method percentile` or `entropy`.",
    ),
    "E0705": Code(
        "no part of the model can be quantized",
        "The model has no convolution, matrix product or other layer that would gain from integers.",
        "Compile the model as it is.",
    ),
    "E0706": Code(
        "a node that is named is not in the model",
        "`--keep-float` names a node or an operator that the model does not have.",
        "The message lists the nodes.",
    ),
    "E0707": Code(
        "a part of the model cannot be written to ONNX",
        "`sterna quantize` writes ONNX, and the model has a part that ONNX, or this writer, cannot express.",
        "Give all sizes with `--dim` or `--shape` where these are the reason. Otherwise the model cannot be quantized "
        "here; compile it as it is.",
    ),
    # E08xx remote devices; docs/rpc.md has the protocol's own numbers
    "E0801": Code(
        "nobody answers at a device's address",
        "No server runs there, it listens on the loopback interface alone, the name is wrong, or a firewall is "
        "between; or another program listens on that port.",
        "Start `sterna rpc serve` on the device, with `--listen` and a token if it is another machine.",
    ),
    "E0802": Code(
        "the device's token is wrong or missing",
        "A device that others can reach demands a token, and the one that was given is not its own; or the other side "
        "does not know it, and is not the device.",
        "Set `STERNA_RPC_TOKEN`, or `STERNA_RPC_TOKEN_FILE` to a file that this user alone can read.",
    ),
    "E0803": Code(
        "another client uses the device",
        "One client at a time uses a device, so that nothing disturbs what is measured. The turn did not come in time.",
        "Wait longer, or use another device. `sterna rpc doctor` says how many wait.",
    ),
    "E0804": Code(
        "client and device speak different versions of the protocol",
        "The versions of Sterna on the two machines are too far apart.",
        "Install the same version on both.",
    ),
    "E0805": Code(
        "the connection to a device is lost",
        "The network or the server ended, one side took too long, or what came is not the protocol. The model that was "
        "loaded is gone; files that were sent are kept.",
        "Connect and load again. What was sent of a file before is not sent twice.",
    ),
    "E0806": Code(
        "the device has no room for a file",
        "Its disk or the quota of its scratch folder is full, and nothing there is old enough to be removed.",
        "Start the server with a greater `--quota`, or with `--scratch` on a larger disk.",
    ),
    "E0807": Code(
        "a kernel crashed on the device",
        "The process that runs the model was ended by the system, or ended itself. The server goes on.",
        "`sterna verify` finds the kernel at fault; please report it. Load a bundle again to go on.",
    ),
    "E0808": Code(
        "a request took longer on the device than it may",
        "A kernel does not end, or the limit is too short for this model on this device. The model's process was "
        "ended.",
        "Allow more: `Device.limit(seconds)`, and `--limit` of the server. Load a bundle again to go on.",
    ),
    "E0809": Code(
        "a file did not reach the device as it is here",
        "What the device holds has another hash or length than what was sent: its disk or the network changed it, or "
        "the file was removed meanwhile.",
        "Load the bundle again. If it persists, clear the server's scratch folder.",
    ),
    "E0810": Code(
        "the device refused a request",
        "Its system refused something, such as a process or a folder; or it is an end that cannot do what was asked, "
        "such as firmware, whose model cannot be exchanged.",
        "The message says what it was.",
    ),
    # E09xx our own mistakes
    "E0901": Code(
        "internal error",
        "Sterna made a mistake. Your model or command may be right.",
        "Please report it with the model, the message and the output of `STERNA_DEBUG=1`. Often another "
        "`--generator` avoids it until it is mended.",
    ),
}
"""Every code that may be raised, in order. A code that is not here cannot be used."""
