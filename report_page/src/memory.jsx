import { scaleLinear } from "d3-scale";
import { useState } from "preact/hooks";
import { bytes, count, seen, short, signed, title, type } from "./format.js";
import { Table } from "./table.jsx";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [900, 340, 70, 30, 10];

export function Memory({ subject, pick }) {
  const { memory } = subject;
  return (
    <>
      {subject.flash.length > 0 && <Flash rows={subject.flash} />}
      {memory ? <Arena subject={subject} memory={memory} pick={pick} />
        : <p class="card">This bundle was written by a version that did not note where tensors lie. Compile it again.</p>}
    </>
  );
}

const isScratch = (block) => block.class === "scratch";

/** What lies in a block, one after the other. */
const called = (subject, block) => (isScratch(block) ? `scratch of node ${block.first}` : block.tensors.map((v) => subject.tensors[v].name).join(", "));

function Arena({ subject, memory, pick }) {
  const { peak, pools, blocks } = memory;
  const [chosen, setChosen] = useState(null);
  const block = chosen === null ? null : blocks[chosen];
  return (
    <>
      <p class="lead">
        {bytes(memory.arena_bytes)} of arena{memory.live_bytes ? `; ${bytes(memory.live_bytes)} are alive at one time, which no plan can undercut` : ""}
        {memory.scratch_bytes ? (blocks.some(isScratch) ? `; in it up to ${bytes(memory.scratch_bytes)} of scratch for a node` : `; ${bytes(memory.scratch_bytes)} of scratch for each thread`) : ""}.
      </p>
      {pools.map((pool, n) => (
        <section class="card" key={n}>
          <h2>{pools.length > 1 ? `Memory ${seen(pool.name)}` : "The arena"}</h2>
          <div class="plotted" tabIndex={0} role="region" aria-label={pool.name}>
            <Blocks subject={subject} memory={memory} pool={n} size={pool.bytes} chosen={chosen} choose={setChosen} />
          </div>
          <p class="note" aria-live="polite">
            {block && block.pool === n
              ? <>{isScratch(block) ? "Scratch" : block.tensors.map((v) => seen(`${subject.tensors[v].name} ${type(subject.tensors[v])}`)).join(", then ")}: {count(block.bytes)} bytes at {count(block.offset)}, {block.first === block.last ? `node ${block.first}` : `nodes ${block.first} to ${block.last}`}. <button type="button" class="link" onClick={() => pick(block.first)}>Show node {block.first}</button></>
              : "From left to right: the nodes, in their order. Upwards: the bytes. A block is a tensor from the node that makes it to the last that reads it; click one for its name."}
            {blocks.some((each) => isScratch(each) && each.pool === n) ? " Grey is scratch, which a node works in." : ""}
            {subject.control.some((row) => row.op === "loop") ? " A dashed frame is a loop: what it reads from before it lasts to its end." : ""}
          </p>
        </section>
      ))}
      {peak && (
        <section class="card">
          <h2>What decides the peak</h2>
          <p>
            At node {peak.node}, <button type="button" class="link" onClick={() => pick(peak.node)}>{short(title(subject.rows[peak.node]), 60)}</button>, {bytes(peak.bytes)} are needed at once:
          </p>
          <Table caption="Alive at the peak" rows={peak.blocks.map((n) => ({ ...blocks[n], key: n }))} first={{ column: 1, down: true }} columns={[
            { name: "tensor", value: (b) => called(subject, b), show: (b) => short(called(subject, b), 60) },
            { name: "bytes", value: (b) => b.bytes, show: (b) => count(b.bytes), number: true },
            { name: "from node", value: (b) => b.first, number: true },
            { name: "to node", value: (b) => b.last, number: true },
          ]} />
        </section>
      )}
      <section class="card">
        <h2>What else would give</h2>
        {memory.choices.length ? (
          <div class="scroll" tabIndex={0} role="region" aria-label="What else would give"><table>
            <thead><tr><th scope="col">choice</th><th scope="col" class="number">bytes</th><th scope="col" class="number">change</th><th scope="col" class="number">multiply-adds</th></tr></thead>
            <tbody>{memory.choices.map((c, n) => (
              <tr key={n}><td class="text">{seen(c.text)}</td><td class="number">{count(c.bytes)}</td><td class="number">{signed(c.bytes / Math.max(1, memory.arena_bytes) - 1)}</td><td class="number">{c.multiply_adds ? signed(c.multiply_adds / Math.max(1, subject.totals.multiply_adds) - 1) : ""}</td></tr>
            ))}</tbody>
          </table></div>
        ) : <p class="note">{subject.control.length ? "Loops and choices decide the order of the nodes" : "No other order of the nodes was found that needs less"}{subject.kind !== "firmware" ? "" : subject.model ? ", and no first layers to compute in patches" : "; a report on the model says what --max-ram would give"}.</p>}
      </section>
    </>
  );
}

function Blocks({ subject, memory, pool, size, chosen, choose }) {
  const nodes = subject.rows.length;
  const x = scaleLinear([0, Math.max(1, nodes)], [LEFT, WIDTH - 10]);
  const y = scaleLinear([0, Math.max(1, size)], [HEIGHT - BOTTOM, TOP]);
  const own = memory.blocks.map((block, n) => [block, n]).filter(([block]) => block.pool === pool);
  const alone = memory.pools.length === 1;
  const line = memory.alive.map((n, k) => `${k ? "L" : "M"}${x(k)} ${y(n)}H${x(k + 1)}`).join("");
  const step = Math.max(1, Math.round(nodes / 10));
  return (
    <svg class="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="Tensors by address and lifetime">
      {y.ticks(6).map((t) => <g key={t} class="tick"><path d={`M${LEFT} ${y(t)}H${WIDTH - 10}`} /><text x={LEFT - 6} y={y(t) + 4} text-anchor="end">{bytes(t)}</text></g>)}
      {subject.rows.filter((_, n) => n % step === 0).map((row) => <text key={row.index} class="axis" x={x(row.index)} y={HEIGHT - 12}>{row.index}</text>)}
      {subject.control.filter((row) => row.op === "loop").map((row, n) => (
        <g key={n} class="region">
          <rect x={x(row.nodes[0])} y={TOP} width={x(row.nodes.at(-1)) - x(row.nodes[0])} height={HEIGHT - BOTTOM - TOP} />
          <title>{`loop ${short(row.name, 60)}: what it reads from before lasts to its end`}</title>
        </g>
      ))}
      {own.map(([block, n]) => (
        <rect key={n} class={`block ${isScratch(block) ? "scratch" : `tone${n % 6}`}${chosen === n ? " picked" : ""}`} x={x(block.first)} width={Math.max(1, x(block.last + 1) - x(block.first) - 0.5)}
          y={y(block.offset + block.bytes)} height={Math.max(1, y(block.offset) - y(block.offset + block.bytes) - 0.5)} onClick={() => choose(n)}>
          <title>{short(called(subject, block), 80)}: {bytes(block.bytes)}</title>
        </rect>
      ))}
      {alone && <path class="alive" d={line} />}
      {alone && memory.live_bytes ? <g class="bound"><path d={`M${LEFT} ${y(memory.live_bytes)}H${WIDTH - 10}`} /></g> : null}
    </svg>
  );
}

function Flash({ rows }) {
  const total = rows.reduce((sum, row) => sum + row.bytes, 0) || 1;
  let at = 0;
  return (
    <section class="card">
      <h2>Flash: {bytes(total)}</h2>
      <svg class="strip" viewBox="0 0 1000 40" preserveAspectRatio="none" role="group" aria-label="Flash by section">
        {rows.map((row, n) => {
          const [x, width] = [(1000 * at) / total, (1000 * row.bytes) / total];
          at += row.bytes;
          return <rect key={n} class={`block tone${n % 6}`} x={x} width={width} height="40"><title>{seen(`${row.section} ${row.what}`)}: {bytes(row.bytes)}</title></rect>;
        })}
      </svg>
      <Table caption="Flash by section" rows={rows.map((row, n) => ({ ...row, key: n }))} first={{ column: 2, down: true }} columns={[
        { name: "section", value: (row) => row.section },
        { name: "what", value: (row) => row.what, show: (row) => seen(row.what) },
        { name: "bytes", value: (row) => row.bytes, show: (row) => count(row.bytes), number: true },
      ]} />
    </section>
  );
}
