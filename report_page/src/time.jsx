import { useMemo, useState } from "preact/hooks";
import { bytes, count, percent, roof as share, seen, short, small, taken, title } from "./format.js";
import { MEASURE } from "./measured.js";
import { Roofline } from "./roofline.jsx";
import { where } from "./summary.jsx";
import { Kernel, Table } from "./table.jsx";

export function Time({ subject, pick }) {
  const { time, rows } = subject;
  const columns = useMemo(() => (time ? columnsOf(time, rows) : []), [time]);
  const [ordered, setOrdered] = useState(false);
  if (!time)
    return MEASURE
      ? <p class="card">No time was measured yet. <a href={MEASURE}>Measure it in this browser</a>, then come back to the report.</p>
      : <p class="card">No time was measured. <code>sterna report BUNDLE --time</code> measures it here, with <code>--on DEVICE</code> elsewhere; for a browser, <code>sterna serve BUNDLE</code> does in its tab Measure.</p>;
  const clock = time.unit === "ns";
  return (
    <>
      <p class="lead">{taken(time, time.median)} for a run: {where(time)}.{clock && subject.total > 1.15 * time.median ? ` The nodes add up to ${taken(time, subject.total)}: reading the clock around each of them takes time too.` : ""}</p>
      <section class="card">
        <h2>In the order of the run</h2>
        <Strip rows={rows} time={time} pick={pick} />
      </section>
      <section class="card">
        <h2>Nodes</h2>
        <div class="tools" role="group" aria-label="Order">
          <button type="button" aria-pressed={!ordered} onClick={() => setOrdered(false)}>By share</button>
          <button type="button" aria-pressed={ordered} onClick={() => setOrdered(true)}>In order</button>
        </div>
        <Table key={String(ordered)} caption={clock ? "Time of every node" : "Instructions of every node"} rows={rows} columns={columns}
          first={ordered ? { column: 0, down: false } : { column: 3, down: true }} onPick={(row) => pick(row.index)} words="a heading sorts; a name opens the graph" />
        {clock && time.limits && rows.some((row) => row.device) && <p class="note">Limits are measured on the CPU: what a device can do at most is not known.</p>}
        {clock && !time.limits && time.where !== "browser" && <p class="note">What that machine can do at most is not known: limits are measured on this machine only.</p>}
      </section>
      {clock && time.limits && rows.some((row) => row.roof !== null) && (
        <section class="card">
          <h2>Roofline</h2>
          <Roofline rows={rows.filter((row) => row.roof !== null)} limits={time.limits} pick={pick} />
        </section>
      )}
    </>
  );
}

function columnsOf(time, rows) {
  const clock = time.unit === "ns";
  const unit = !clock ? { name: "instructions", size: 1 } : time.median < 1e5 ? { name: "\u00b5s", size: 1e3, digits: 2 } : { name: "ms", size: 1e6, digits: 4 };
  const rates = [
    { name: "GFLOP/s", value: (row) => row.gflops, show: (row) => small(row.gflops), number: true },
    { name: "GB/s", value: (row) => row.gbytes, show: (row) => small(row.gbytes), number: true },
  ];
  const roof = [
    { name: "% of roofline", value: (row) => (row.roof === null ? null : 100 * row.roof), show: (row) => share(row.roof), number: true },
    { name: "bound by", value: (row) => row.bound ?? "" },
  ];
  return [
    { name: "#", value: (row) => row.index, number: true },
    { name: "nodes of the model", value: title, show: (row) => <span title={seen(title(row))}>{short(title(row), 44)}</span>, pick: true },
    { name: "kernel", value: (row) => row.kernelName, show: (row) => <Kernel name={row.kernelName} /> },
    { name: unit.name, value: (row) => row.took / unit.size, show: (row) => (clock ? (row.took / unit.size).toFixed(unit.digits) : count(row.took)), number: true },
    { name: "share", value: (row) => row.share, show: (row) => <><span class="bar" aria-hidden="true"><i style={{ width: `${100 * row.share}%` }} /></span>{percent(row.share)}</>, number: true },
    ...(rows.some((row) => row.calls !== null && row.calls !== 1) ? [{ name: "calls", value: (row) => row.calls, show: (row) => count(row.calls), number: true }] : []),
    ...(clock ? rates : []),
    ...(clock && time.limits ? roof : []),
    { name: "multiply-adds", value: (row) => row.multiply_adds, show: (row) => count(row.multiply_adds), number: true },
    { name: "moved", value: (row) => row.moved_bytes, show: (row) => bytes(row.moved_bytes), number: true },
  ];
}

/** The run from left to right, every node as wide as it is long. */
function Strip({ rows, time, pick }) {
  const total = rows.reduce((sum, row) => sum + row.took, 0) || 1;
  let at = 0;
  const most = Math.max(...rows.map((row) => row.took));
  return (
    <svg class="strip" viewBox="0 0 1000 40" preserveAspectRatio="none" role="group" aria-label="The run from left to right; every node is as wide as it is long">
      {rows.map((row) => {
        const [x, width] = [(1000 * at) / total, (1000 * row.took) / total];
        at += row.took;
        return width < 0.05 ? null : (
          <rect key={row.index} x={x} width={width} height="40" style={{ "--heat": `${Math.round((100 * row.took) / most)}%` }} onClick={() => pick(row.index)}>
            <title>{`${short(title(row), 60)}: ${taken(time, row.took)}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}
