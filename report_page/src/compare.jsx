import { bytes, count, duration, seen, short, signed, small } from "./format.js";
import { Table } from "./table.jsx";

const change = (row, key) => (row.a?.[key] && row.b?.[key] !== null && row.b?.[key] !== undefined ? row.b[key] / row.a[key] - 1 : null);
const LOOKS = { bytes, duration, count, small };

export function Compare({ report, subjects, pick, label }) {
  const { comparison } = report;
  const clock = subjects.every((each) => each.time?.unit === "ns");
  const show = clock ? duration : count;
  return (
    <>
      <p class={`verdict ${comparison.ok ? "good" : "bad"}`} role="status"><b>{comparison.ok ? "No limit is exceeded." : "A limit is exceeded."}</b> {comparison.verdict.map(seen).join(" ")}</p>
      <section class="card">
        <h2>In sum</h2>
        {subjects.map((each, n) => <p key={n} class="note">{short(label(each, n), 80)}</p>)}
        <div class="scroll" tabIndex={0} role="region" aria-label="In sum"><table>
          <thead><tr><th scope="col">what</th><th scope="col" class="number">A</th><th scope="col" class="number">B</th><th scope="col" class="number">change</th></tr></thead>
          <tbody>{comparison.totals.map((row) => (
            <tr key={row.what}><td>{seen(row.what)}</td><td class="number">{LOOKS[row.unit](row.a)}</td><td class="number">{LOOKS[row.unit](row.b)}</td><td class="number">{row.a ? signed(row.b / row.a - 1) : ""}</td></tr>
          ))}</tbody>
        </table></div>
      </section>
      {comparison.outputs.length > 0 && (
        <section class="card">
          <h2>Outputs of B beside those of A</h2>
          <Errors rows={comparison.outputs} />
        </section>
      )}
      <section class="card">
        <h2>Layer by layer</h2>
        <Table caption="Layers of both" rows={comparison.layers.map((row, n) => ({ ...row, key: n }))} first={{ column: 1, down: true }}
          onPick={(row) => (row.b ? pick(row.b.nodes[0], 1) : pick(row.a.nodes[0], 0))} columns={[
            { name: "nodes of the model", value: (row) => row.sources.join(", "), show: (row) => short(row.sources.join(", ") || row.name, 44), pick: true },
            { name: "time A", value: (row) => row.a?.time ?? null, show: (row) => show(row.a?.time), number: true },
            { name: "time B", value: (row) => row.b?.time ?? null, show: (row) => show(row.b?.time), number: true },
            { name: "time", value: (row) => change(row, "time"), show: (row) => signed(change(row, "time")), number: true },
            { name: "weights A", value: (row) => row.a?.weights_bytes ?? null, show: (row) => count(row.a?.weights_bytes), number: true },
            { name: "weights B", value: (row) => row.b?.weights_bytes ?? null, show: (row) => count(row.b?.weights_bytes), number: true },
            { name: "code A", value: (row) => row.a?.code_bytes ?? null, show: (row) => count(row.a?.code_bytes), number: true },
            { name: "code B", value: (row) => row.b?.code_bytes ?? null, show: (row) => count(row.b?.code_bytes), number: true },
            { name: "error", value: (row) => row.error, show: (row) => small(row.error), number: true },
          ]} />
      </section>
    </>
  );
}

function Errors({ rows }) {
  return <Table caption="Outputs" rows={rows.map((row, n) => ({ ...row, key: n }))} columns={[
    { name: "output", value: (row) => row.name, show: (row) => short(row.name) },
    { name: "largest error", value: (row) => row.error, show: (row) => small(row.error), number: true },
    { name: "mean error", value: (row) => row.mean, show: (row) => small(row.mean), number: true },
    { name: "cosine", value: (row) => row.cosine, show: (row) => (row.cosine === null ? "" : row.cosine.toFixed(6)), number: true },
  ]} />;
}
