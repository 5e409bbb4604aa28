import { bytes, count, duration, percent, seen, short, taken, title, type } from "./format.js";
import { MEASURE } from "./measured.js";
import { slowest } from "./model.js";
import { Kernel, Table } from "./table.jsx";

export function Summary({ subject, go, pick }) {
  const { time, totals, memory } = subject;
  return (
    <>
      <dl class="facts">
        <Fact name="target" value={seen(subject.target.name ?? "")} note={seen(subject.target.triple ?? "")} />
        <Fact name="size" value={bytes(subject.bytes)} note={`${subject.files.length} files; weights ${bytes(subject.weights_bytes)}${subject.code_bytes ? `, code ${bytes(subject.code_bytes)}` : ""}`} />
        {memory && <Fact name="arena" value={bytes(memory.arena_bytes)} note={memory.live_bytes ? `live-set lower bound ${bytes(memory.live_bytes)}` : ""} />}
        {totals && <Fact name="multiply-adds" value={count(totals.multiply_adds)} note={sizes(totals.sizes)} />}
        <Fact name="nodes" value={count(subject.nodes.length)} note={`${count(subject.kernels.length)} kernels`} />
        {time ? (
          <Fact name={time.unit === "ns" ? "time of a run" : "instructions of a run"} value={taken(time, time.median)} note={where(time)} />
        ) : (
          <Fact name="time" value="not measured" note={MEASURE ? <a href={MEASURE}>measure it in this browser</a> : "--time measures it"} />
        )}
      </dl>
      {time && (
        <section class="card">
          <h2>Where the time goes</h2>
          <ol class="hot">
            {slowest(subject.rows, 5).map((row) => (
              <li key={row.index}>
                <button type="button" class="link" onClick={() => pick(row.index)} title={seen(title(row))}>{short(title(row), 40)}</button>
                <span class="bar" aria-hidden="true"><i style={{ width: `${100 * row.share}%` }} /></span>
                <span class="number">{percent(row.share)}</span>
                <span class="number">{taken(time, row.took)}</span>
              </li>
            ))}
          </ol>
          <p class="note">
            A name opens the node in the graph. <button type="button" class="link" onClick={() => go("time")}>All nodes by time</button>
          </p>
        </section>
      )}
      <section class="card">
        <h2>Signature</h2>
        <div class="scroll" tabIndex={0} role="region" aria-label="Signature">
          <table>
            <thead><tr><th scope="col">side</th><th scope="col">name</th><th scope="col">type</th><th scope="col">meaning</th></tr></thead>
            <tbody>
              {["inputs", "outputs"].flatMap((side) => subject.signature[side].map((tensor, n) => (
                <tr key={`${side}${n}`}>
                  <td>{side.slice(0, -1)}</td>
                  <td class="text"><b title={seen(tensor.name)}>{short(tensor.name)}</b></td>
                  <td class="text">{short(type(tensor), 80)}</td>
                  <td class="text">{seen(tensor.note)}{tensor.labels.length ? <Labels labels={tensor.labels} /> : ""}</td>
                </tr>
              )))}
            </tbody>
          </table>
        </div>
      </section>
      <section class="card">
        <h2>Files</h2>
        <Table caption="Files" rows={subject.files.map((file) => ({ ...file, key: file.name }))} first={{ column: 1, down: true }} columns={[
          { name: "file", value: (file) => file.name, show: (file) => seen(file.name) },
          { name: "bytes", value: (file) => file.bytes, show: (file) => count(file.bytes), number: true },
          { name: "what", value: (file) => file.role },
          { name: "hash", value: (file) => file.hash, show: (file) => <code>{file.hash ?? ""}</code> },
        ]} />
      </section>
      <section class="card">
        <h2>Layers by size</h2>
        <Table caption="Bytes of every node" rows={subject.rows} first={{ column: 3, down: true }} onPick={(row) => pick(row.index)} columns={[
          { name: "#", value: (row) => row.index, number: true },
          { name: "nodes of the model", value: title, show: (row) => <span title={seen(title(row))}>{short(title(row))}</span>, pick: true },
          { name: "kernel", value: (row) => row.kernelName, show: (row) => <Kernel name={row.kernelName} /> },
          { name: "weights", value: (row) => row.weights_bytes, show: (row) => count(row.weights_bytes), number: true },
          { name: "code", value: (row) => row.code_bytes, show: (row) => count(row.code_bytes), number: true },
          { name: "multiply-adds", value: (row) => row.multiply_adds, show: (row) => count(row.multiply_adds), number: true },
        ]} />
      </section>
      <section class="card">
        <h2>How it was made</h2>
        <dl class="plain">
          {made(subject).map(([name, value]) => (
            <div key={name}><dt>{name}</dt><dd><code>{seen(value)}</code></dd></div>
          ))}
        </dl>
      </section>
    </>
  );
}

function Fact({ name, value, note }) {
  return <div><dt>{name}</dt><dd>{value}{note ? <small>{note}</small> : null}</dd></div>;
}

function Labels({ labels }) {
  return <details><summary>labels</summary><p class="labels">{labels.slice(0, 1000).map(seen).join(", ")}</p></details>;
}

const sizes = (found) => Object.entries(found ?? {}).map(([name, size]) => `${short(name, 20)} = ${count(size)}`).join(", ");

/** Where and how a time was measured. */
export function where(time) {
  if (time.unit !== "ns") return `counted on ${seen(time.board ?? time.where)}, emulated${time.stack_bytes ? `; stack ${count(time.stack_bytes)} B` : ""}`;
  const threads = time.threads === 1 ? "1 thread" : `${time.threads} threads`;
  if (time.where === "browser") return `mean of ${time.runs} runs in this browser; ${threads}; kernels ${seen(time.machine)}`;
  return `median of ${time.runs} runs, fastest ${duration(time.fastest)}; ${threads}${time.where === "here" ? "" : ` on ${seen(time.where)}`}${time.machine ? `; ${seen(time.machine)}` : ""}`;
}

function made(subject) {
  const { options, source } = subject;
  const rows = [
    ["command", subject.command], ["model", subject.model], ["bundle", subject.directory], ["compiler", subject.producer],
    ["toolchain", options.toolchain], ["generator", options.generator], ["needs of the processor", subject.target.cpu_features.join(", ")],
    ["hash of graph.json", subject.hash], ["SHA-256 of the model", source?.sha256], ["format of the model", source?.format],
    ["traded for speed", subject.math && `bound ${subject.math.bound}, largest error ${subject.math.error}`],
    ["tuned kernels", subject.tuning && `${subject.tuning.kernels}, snapshot ${subject.tuning.snapshot}`],
    ["budgets", subject.fitted],
  ];
  return rows.filter(([, value]) => value);
}
