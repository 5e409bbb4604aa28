"""What a call takes on a device, estimated from the target's data: its work or its bytes at the device's rates, or at
those of the threads that share it; of a chain (`schedule.strategies.group_chain`) one nest after the other."""

from __future__ import annotations

from math import prod

from sterna.intrinsics.words import BYTES
from sterna.loops import program as P
from sterna.passes.kernels import Call
from sterna.passes.stages import call_bytes, call_multiply_adds
from sterna.schedule.strategies.analysis import Context
from sterna.schedule.strategies.group_chain import Chain, chain_of
from sterna.schedule.strategies.group_dots import dots_of
from sterna.schedule.strategies.group_recurrence import threads_of
from sterna.schedule.strategies.operands import analyse
from sterna.targets.target import Target
from sterna.te.layout import most_elements
from sterna.te.tensor import Kernel

#: Threads that share a reduction, about.
_SHARING = 64


def on_device(call: Call, target: Target) -> float:
    """Nanoseconds there, without the launch."""
    device = target.device
    assert device is not None
    if (chain := chain_of_call(call, target)) is not None:
        return chain_ns(chain, target)
    moved, threads = call_bytes(call), _threads(call, target)
    work = P.most(call_multiply_adds(call)) / _at_once(call, target)
    together = max(work / device.multiply_adds_per_ns, moved / device.bytes_per_ns)
    return max(
        together, work / threads / device.thread_multiply_adds_per_ns, moved / threads / device.thread_bytes_per_ns
    )


def _at_once(call: Call, target: Target) -> int:
    """Multiply-adds of an instruction: of bytes those of a word."""
    if not isinstance(call.kernel, Kernel) or target.threads is None or not target.threads.dots:
        return 1
    context = Context(target, {n: layout.strides for n, layout in call.layouts.items()})
    product = analyse(call.kernel, context)
    return BYTES if product is not None and dots_of(product, call.kernel, context) else 1


def chain_of_call(call: Call, target: Target) -> Chain | None:
    """The chain that a call's kernel is, if it is one."""
    if not isinstance(call.kernel, Kernel):
        return None
    return chain_of(call.kernel, Context(target, {n: layout.strides for n, layout in call.layouts.items()}))


def chain_ns(chain: Chain, target: Target) -> float:
    """Nanoseconds of a chain: each task has its share of the device, and no more than its threads do."""
    device, threads = target.device, target.threads
    assert device is not None
    assert threads is not None
    waves = -(-chain.tasks // threads.multiprocessors)
    rate, bandwidth = (each / threads.multiprocessors for each in (device.multiply_adds_per_ns, device.bytes_per_ns))
    total = 0.0
    for nest in chain.nests:
        many = min(chain.threads, nest.elements)
        work = nest.work / min(many * device.thread_multiply_adds_per_ns, rate)
        read = nest.read / min(many * device.thread_bytes_per_ns, bandwidth)
        total += max(work, read) + device.barrier_ns
    return waves * total


def _threads(call: Call, target: Target) -> int:
    """How many threads can share a call, about."""
    kernel = call.kernel
    if isinstance(kernel, P.Function):
        program = call.program(target.threads, target.memories)
        return max(1, P.most(program.n_tasks) * prod(P.thread_counts(program.body).values()))
    if kernel.scan is not None or not kernel.outputs:
        return max(1, threads_of(kernel, target))
    reduced = [stage.reduction.axes for stage in kernel.stages if stage.reduction is not None]
    if not reduced:
        return max(1, sum(most_elements(out.shape) for out in kernel.outputs))
    out = kernel.outputs[0]
    if len(kernel.outputs) > 1:
        return max(1, *(most_elements(out.shape[:-1]) for out in kernel.outputs))
    terms = max(most_elements([a.extent for a in axes]) for axes in reduced)
    rows = out.shape[:-1] if len(reduced) > 1 else out.shape
    return max(1, most_elements(out.shape), most_elements(rows) * min(terms, _SHARING))
