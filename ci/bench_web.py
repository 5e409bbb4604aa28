"""Latency, download, startup and memory of bundles in Chromium and Node, beside onnxruntime-web, tfjs and LiteRT.js.

    ci/bench-web --work bench/                        # five networks, one and two threads, Chromium
    ci/bench-web kws mlp --threads 1 --node --rounds 3
    ci/bench-web --startup kws mobilenetv2 --rounds 5     # Sterna alone: from import to the first result

The peers' side is a harness of its own (--harness): a page, a server and an engine per runtime, all with the same
inputs, warm-up and clock; it counts the CPU time of a run too, which other work on the machine hardly adds to. Sterna
is two more engines for it: `sterna`, with every variant, and `sterna_simd`, without relaxed SIMD. Engines take turns,
model by model. What the peers need is installed into --work by npm; LiteRT.js runs where --tensorflow names a Python
that can convert its models. Everything in --work is used again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from rich.console import Console
from rich.table import Table

from sterna.api import compile_to
from sterna.package.npm import npm_package
from support.web_networks import WEB_NETWORKS

ROOT = Path(__file__).resolve().parents[1]
PEERS = {"ort": "onnxruntime-web", "tfjs": "tfjs-backend-wasm", "litert": "LiteRT.js"}
OURS = {"sterna": "Sterna", "sterna_simd": "Sterna, plain SIMD"}
PACKAGES = (
    "onnxruntime-web@1.30.0", "@tensorflow/tfjs@4.22.0", "@tensorflow/tfjs-backend-wasm@4.22.0", "@litertjs/core",
    "playwright-core", "esbuild",
)  # fmt: skip
#: Runtimes whose kernels use relaxed SIMD where the browser has it.
RELAXED = {"litert", "sterna"}
ENGINE = """
const suffix = import.meta.url.includes("simd") ? "sterna-simd" : "sterna";
export const files = () => ["/sterna.js"], model = (m) => [`/models/${{m}}.${{suffix}}/model.wasm`], layout = "nchw";
export async function load({{ node, threads, model: m }}) {{
  if (node) (await import("node:v8")).setFlagsFromString("--experimental-wasm-relaxed-simd");
  const {{ Model }} = await import(new URL("../sterna/index.js", import.meta.url));
  const loaded = await Model.load(node ? `{models}/${{m}}.${{suffix}}/` : `/models/${{m}}.${{suffix}}/`, {{ threads }});
  const [input] = loaded.inputs, [output] = loaded.outputs;
  return {{ run: async (x) => loaded.run({{ [input.name]: x }})[output.name].slice() }};
}}
"""


def prepare(names: list[str], work: Path, harness: Path, tensorflow: str | None) -> None:
    """Models, inputs, expected outputs, the peers' forms of them, and our bundles."""
    models = work / "models"
    models.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = models / f"{name}.onnx"
        if not path.exists():
            onnx.save(WEB_NETWORKS[name](), path)
            session = onnxruntime.InferenceSession(str(path))
            (given,) = session.get_inputs()
            x = np.random.default_rng(0).standard_normal(given.shape).astype(np.float32)
            x.tofile(models / f"{name}.in")
            session.run(None, {given.name: x})[0].tofile(models / f"{name}.out")
        compile_to(models / f"{name}.sterna", path, "browser", all_variants=True)
        compile_to(models / f"{name}.sterna-simd", path, "browser")
    if any(not (models / f"{name}.g.json").exists() for name in names):
        subprocess.run([sys.executable, harness / "export_nhwc.py", models], check=True, stdout=subprocess.DEVNULL)
    if tensorflow and any(not (models / f"{name}.tflite").exists() for name in names):
        subprocess.run([tensorflow, harness / "to_tflite.py", models], check=True, capture_output=True)
    if not (work / "node_modules").is_dir():
        (work / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", *PACKAGES], cwd=work, check=True)
    copy = work / "harness"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(harness, copy, copy_function=shutil.copyfile)
    for path in (copy, copy / "engines"):
        path.chmod(0o755)
    entries = [ROOT / "runtime_js" / "src" / file for file in ("index.js", "thread.js")]
    esbuild = [work / "node_modules" / ".bin" / "esbuild", *entries, f"--outdir={copy / 'sterna'}"]
    subprocess.run([*esbuild, "--bundle", "--minify", "--format=esm", "--log-level=error"], check=True)
    # The build for browsers fetches its threads' module, which Node's fetch does not do from files.
    ort = copy / "engines" / "ort.mjs"
    in_node = "base + 'onnxruntime-web/dist/ort."
    ort.write_text(ort.read_text().replace(f"{in_node}wasm.", f"{in_node}node."))
    for engine in OURS:
        (copy / "engines" / f"{engine}.mjs").write_text(ENGINE.format(models=models.resolve()))


def measure(names: list[str], engines: list[str], work: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The harness's records."""
    threads = ",".join(map(str, arguments.threads))
    command = ["node", work / "harness" / "run_web.mjs", "--nm", work / "node_modules", "--models", work / "models"]
    command += [
        "--list",
        ",".join(names),
        "--engines",
        ",".join(engines),
        "--threads",
        threads,
        "--rounds",
        str(arguments.rounds),
    ]
    command += ["--node"] if arguments.node else []
    records = []
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            record = json.loads(line)
            records.append(record)
            if "error" in record:
                print(f"{record.get('engine')} {record.get('model')}: {record['error']}", file=sys.stderr)
    if process.returncode:
        raise SystemExit(f"the harness ended with status {process.returncode}")
    return records


def peak(records: list[dict[str, Any]]) -> tuple[float, float]:
    """GMAC/s of the browser's vector units: with relaxed SIMD, and with multiplication and addition alone."""
    probe = next(r["peak"] for r in records if "peak" in r)
    plain = probe["f32_mul_add"]["best"] / 2
    relaxed = probe["f32_relaxed_madd"]
    return (relaxed["best"] / 2 if isinstance(relaxed, dict) else plain), plain


def latency(records: list[dict[str, Any]], rates: tuple[float, float], console: Console) -> None:
    """A table per host and number of threads, and the geometric means of the ratios."""
    groups: dict[tuple[str, int], dict[str, dict[str, list[dict[str, Any]]]]] = {}
    for r in records:
        if "min_ms" in r:
            group = groups.setdefault((r["host"], r["threads"]), {})
            group.setdefault(r["model"], {}).setdefault(r["engine"], []).append(r)
    for (host, threads), models in groups.items():
        title = (
            f"{host}, {threads} thread{'s' if threads > 1 else ''}; {rates[0]:.0f} GMAC/s relaxed, {rates[1]:.0f} plain"
        )
        table = Table(
            "model", "engine", "min ms", "median", "CPU", "of peak", "peer / it", "by CPU", "startup", "MB", "error",
            title=title,
        )  # fmt: skip
        ratios: dict[tuple[str, str], list[float]] = {}
        for model, engines in models.items():
            least = {key: {e: min(r[key] for r in rows) for e, rows in engines.items()} for key in ("min_ms", "cpu_ms")}
            best = least["min_ms"]
            for engine, rows in sorted(engines.items(), key=lambda item: best[item[0]]):
                shown = []
                for key, of in least.items():
                    rivals = [of[p] for p in PEERS if p in of and (engine != "sterna_simd" or p not in RELAXED)]
                    # What several threads burn while they wait for each other says nothing.
                    counts = rivals and engine in OURS and (key == "min_ms" or threads == 1)
                    shown.append(f"{min(rivals) / of[engine]:.2f}" if counts else "")
                    if counts:
                        ratios.setdefault((engine, key), []).append(min(rivals) / of[engine])
                rate = rows[0]["gmacs_min"] * rows[0]["min_ms"] / best[engine]
                table.add_row(
                    model,
                    OURS.get(engine) or PEERS[engine],
                    f"{best[engine]:.3f}",
                    f"{statistics.median(r['median_ms'] for r in rows):.3f}",
                    f"{least['cpu_ms'][engine]:.3f}",
                    f"{rate / rates[0] / threads:.0%}",
                    *shown,
                    f"{min(r['startup_ms'] for r in rows):.0f}",
                    f"{rows[0]['wasm_mb']:.1f}",
                    f"{max(r['reldiff'] for r in rows):.0e}",
                )
            table.add_section()
        console.print(table)
        for (engine, key), values in ratios.items():
            rival = "peer without relaxed SIMD" if engine == "sterna_simd" else "peer"
            mean = math.exp(statistics.fmean(map(math.log, values)))
            clock = "milliseconds" if key == "min_ms" else "CPU time"
            console.print(f"{OURS[engine]}: {mean:.2f} x the fastest {rival} (geometric mean, {clock})")


def downloads(names: list[str], work: Path, console: Console) -> None:
    """What a page loads beside weights and its own code, compressed."""
    runtime = len(gzip.compress((work / "harness" / "sterna" / "index.js").read_bytes(), 9))
    table = Table(
        "model", "runtime", "kernels", "graph", "together", title="download, bytes after gzip (weights aside)"
    )
    for name in names:
        place = work / "models" / f"{name}.sterna"
        kernels, graph = (
            len(gzip.compress((place / file).read_bytes(), 9)) for file in ("model.browser-relaxed.wasm", "graph.json")
        )
        table.add_row(name, *(f"{n:,}" for n in (runtime, kernels, graph, runtime + kernels + graph)))
    console.print(table)


def startup(names: list[str], work: Path, rounds: int, console: Console) -> None:
    """From import to the first result in new browsers, by way of loading; and fetching the same bytes and no more."""
    root = work / "startup"
    shutil.rmtree(root, ignore_errors=True)
    ways = []
    for name in names:
        model = root / f"{name}.onnx"
        model.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(WEB_NETWORKS[name](), model)
        several = compile_to(root / f"{name}.several", model, "browser", all_variants=True)
        one = compile_to(root / f"{name}.one", model, "browser-relaxed", single_file=True)
        package = npm_package(several, root / name)
        npm_package(one, root / f"{name}.file")
        hints = (package / "preload.html").read_text().replace('href="', f'href="/{name}/')
        files = [f"/{name}/{found}" for found in re.findall('href="([^"]+)"', (package / "preload.html").read_text())]
        fetched = f"await Promise.all({json.dumps(files)}.map(async (url) => (await fetch(url)).arrayBuffer()));"
        for label, head, script in (
            ("fetching alone", "", fetched),
            ("package", "", _first_run(name)),
            ("package, preloaded", hints, _first_run(name)),
            ("package of one file", "", _first_run(f"{name}.file")),
        ):
            ways.append({"name": f"{name}: {label}", "head": head, "script": script, "fetches": files})
    command = ["node", ROOT / "bench" / "startup.mjs", root, json.dumps(ways), rounds]
    modules = {"BENCH_MODULES": str(ROOT / "runtime_js" / "node_modules")}
    said = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **modules}
    )
    records = [json.loads(line) for line in said.stdout.splitlines()]
    table = Table("way", "least ms", "median", "the same fetched again", title="from import to the first result")
    for way in ways:
        rows = [r for r in records if r["name"] == way["name"]]
        if problem := next((r["problem"] for r in rows if "problem" in r), None):
            raise SystemExit(f"{way['name']}: {problem}")
        least, median = (f"{of(r['startup'] for r in rows):.0f}" for of in (min, statistics.median))
        table.add_row(str(way["name"]), least, median, f"{min(r['fetching'] for r in rows):.0f}")
    console.print(table)


def _first_run(package: str) -> str:
    """The script of a page that runs a package's model once."""
    return f'const {{ load }} = await import("/{package}/index.js"); (await load()).run();'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(WEB_NETWORKS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--node", action="store_true", help="also in Node")
    parser.add_argument("--startup", action="store_true", help="Sterna alone, from import to the first result")
    parser.add_argument("--harness", type=Path, default=ROOT.parent / "shared" / "bench" / "web")
    parser.add_argument("--tensorflow", help="a Python with tensorflow, for LiteRT.js")
    parser.add_argument("--work", type=Path, default=Path("bench-web"), help="kept between runs")
    arguments = parser.parse_args()
    if unknown := set(arguments.models) - set(WEB_NETWORKS):
        raise SystemExit(f"no such network: {', '.join(sorted(unknown))}; there are {', '.join(WEB_NETWORKS)}")
    console = Console(width=120)
    if arguments.startup:
        startup(arguments.models, arguments.work, arguments.rounds, console)
        return
    if not arguments.harness.is_dir():
        raise SystemExit(f"{arguments.harness}: the harness is not here")
    prepare(arguments.models, arguments.work, arguments.harness, arguments.tensorflow)
    tflite = all((arguments.work / "models" / f"{name}.tflite").exists() for name in arguments.models)
    engines = [*OURS, *(peer for peer in PEERS if peer != "litert" or tflite)]
    records = measure(arguments.models, engines, arguments.work, arguments)
    latency(records, peak(records), console)
    downloads(arguments.models, arguments.work, console)


if __name__ == "__main__":
    main()
