import { count, percent, seen, short, small } from "./format.js";
import { Table } from "./table.jsx";

const number = (name, value, show) => ({ name, value, show: (row) => (show ?? small)(value(row)), number: true });

export function Numbers({ subject, pick }) {
  const { numbers } = subject;
  if (!numbers)
    return <p class="card">No numbers were compared. <code>sterna report MODEL --data samples.npz</code> compares every layer with the reference on these samples.</p>;
  return (
    <>
      <p class="lead">{count(numbers.samples)} {numbers.samples === 1 ? "sample" : "samples"}; layers beside {seen(numbers.reference)}{numbers.trade ? `; ${seen(numbers.trade)}` : ""}.</p>
      <section class="card">
        <h2>Outputs</h2>
        <Table caption="Outputs" rows={numbers.outputs.map((row, n) => ({ ...row, key: n }))} first={{ column: 1, down: true }} columns={[
          { name: "output", value: (row) => row.name, show: (row) => short(row.name) }, ...errors,
          { name: "beside", value: (row) => row.reference, show: (row) => seen(row.reference) },
        ]} />
      </section>
      <section class="card">
        <h2>Layers, the worst first</h2>
        {numbers.layers.length ? (
          <Table caption="Error of every layer" rows={numbers.layers.map((row, n) => ({ ...row, key: n }))} first={{ column: 1, down: true }}
            onPick={(row) => row.node !== null && pick(row.node)} columns={[
              { name: "tensor", value: (row) => row.name, show: (row) => <span title={seen(row.name)}>{short(row.name)}</span>, pick: true }, ...errors,
              { name: "node", value: (row) => row.node, number: true },
              { name: "nodes of the model", value: (row) => row.sources.join(", "), show: (row) => short(row.sources.join(", ")) },
            ]} />
        ) : <p class="note">No tensor between kernels is in both.</p>}
      </section>
      {numbers.ranges.length > 0 && (
        <section class="card">
          <h2>Ranges of quantized tensors</h2>
          <p class="note">How often each part of the range was met; the ends are where values are clipped.</p>
          <div class="ranges">{numbers.ranges.map((row, n) => <Range key={n} row={row} />)}</div>
        </section>
      )}
    </>
  );
}

const errors = [
  number("largest error", (row) => row.error),
  number("mean error", (row) => row.mean),
  number("cosine", (row) => row.cosine, (n) => (n === null ? "" : n.toFixed(6))),
  number("largest value", (row) => row.largest),
];

function Range({ row }) {
  const most = Math.max(...row.counts, 1);
  return (
    <figure class="range">
      <figcaption title={seen(row.name)}>{short(row.name, 30)} <small>{row.dtype}; {count(row.least)} to {count(row.greatest)}; {percent(row.clipped, 2)} at the ends{row.scale ? `; scale ${small(row.scale)}` : ""}</small></figcaption>
      <svg viewBox={`0 0 ${row.counts.length * 10} 60`} preserveAspectRatio="none" role="img" aria-label={`Histogram of ${short(row.name, 60)}`}>
        {row.counts.map((n, k) => <rect key={k} class={k === 0 || k === row.counts.length - 1 ? "end" : ""} x={10 * k} width="9" y={60 - (58 * n) / most} height={(58 * n) / most} />)}
      </svg>
    </figure>
  );
}
