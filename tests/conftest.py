"""Says at the end of a run which kinds of machine were exercised, and why others were not.

A test that lacks a program skips with a reason "needs PROGRAM: ..." or "PROGRAM is not installed". Under CI=true, where
ci/test installs them all, such a skip is a failure; a processor feature that this machine lacks may still skip.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Generator
from typing import Any

import pytest

from sterna.pipeline import VERIFY
from sterna_runtime.private import cache_directory

FAMILIES = {
    "host-c": "host, C generator",
    "host-llvm": "host, LLVM generator",
    "arm64": "arm64 (qemu-aarch64)",
    "armv7": "armv7 (qemu-arm)",
    "armv6": "armv6 (qemu-arm)",
    "riscv64": "riscv64 (qemu-riscv64)",
    "wasm32": "wasm32 (node, wasmtime)",
    "cortex-m4": "cortex-m4 (qemu-system-arm)",
    "cortex-m": "other Cortex-M (qemu-system-arm)",
    "c99": "C99 (gcc)",
    "opencl": "OpenCL C (PoCL)",
    "cuda": "PTX (translated, a test driver)",
    "windows": "Windows (wine64)",
    "java": "Java (JVM, Android libraries, arm64 JVM)",
    "apple": "iOS, macOS (code of Mach-O objects, under qemu-aarch64)",
    "runtime": "C runtime (gcc, clang, cmake, sanitizers)",
}
#: Files whose tests all belong to one family.
WHOLE_FILES = {
    "test_runtime_c.py": "runtime",
    "test_llvm.py": "host-llvm",
    "test_llvm_operations.py": "host-llvm",
}


def pytest_configure(config: pytest.Config) -> None:
    # Many tests have a cache of their own; what zig builds of the C libraries takes seconds and is the same for all.
    if (cache := cache_directory()) is not None:
        os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache / "zig"))
    # What every pass of the compiler makes is verified, in this process and in those that tests start.
    os.environ.setdefault(VERIFY, "1")
    # A shell starts jobs in the background to ignore Ctrl-C, and what they start ignores it too. Tests send it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # What this user has tuned is no part of any test.
    os.environ["STERNA_TUNING"] = os.devnull
    config.addinivalue_line("markers", "family(name): the kind of machine that the test runs code for")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("family"):
            (name,) = mark.args
            assert name in FAMILIES, f"{item.nodeid}: no such family {name}"
            item.user_properties.append(("family", name))
        if (name := WHOLE_FILES.get(item.path.name)) is not None:
            item.user_properties.append(("family", name))


MISSING_PROGRAM = re.compile(r"needs [a-z][\w+-]*:|[\w+-]+ is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if os.environ.get("CI") == "true" and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if MISSING_PROGRAM.match(reason):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: {reason} (a missing program is a failure under CI=true)"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    outcomes: dict[str, dict[str, int]] = {name: {} for name in FAMILIES}
    reasons: dict[str, set[str]] = {name: set() for name in FAMILIES}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            for key, name in getattr(report, "user_properties", ()):
                if key != "family" or (report.when != "call" and outcome == "passed"):
                    continue
                outcomes[name][outcome] = outcomes[name].get(outcome, 0) + 1
                if outcome == "skipped" and isinstance(report.longrepr, tuple):
                    reasons[name].add(str(report.longrepr[2]).removeprefix("Skipped: "))
    if not any(outcomes.values()):
        return
    terminalreporter.section("target families")
    for name, title in FAMILIES.items():
        counts = outcomes[name]
        said = ", ".join(f"{n} {what}" for what, n in counts.items())
        state = "exercised" if counts.get("passed") else "NOT exercised"
        why = f"; {'; '.join(sorted(reasons[name]))}" if reasons[name] else ""
        terminalreporter.write_line(f"{title}: {state} ({said or 'no tests ran'}){why}")
