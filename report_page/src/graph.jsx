import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, count, percent, roof, rounds, seen, short, small, taken, title, type } from "./format.js";
import { Roofline } from "./roofline.jsx";

const COLOURS = [
  { id: "time", name: "time", value: (row) => row.took },
  { id: "bytes", name: "bytes of weights", value: (row) => row.weights_bytes },
  { id: "work", name: "multiply-adds", value: (row) => row.multiply_adds },
  { id: "error", name: "error", value: (row) => row.error },
  { id: "none", name: "nothing", value: () => null },
];
/** Below this scale boxes have no words; around what is seen, so much more is drawn, in views. */
const WORDS_FROM = 0.42;
const AROUND = 0.5;
const LINES = 4;

export function Graph({ subject, picked, setPicked }) {
  const known = COLOURS.filter((c) => c.id === "none" || subject.rows.some((row) => c.value(row)));
  const [colour, setColour] = useState(known[0]);
  const [text, setText] = useState("");
  const found = useMemo(() => (text ? subject.rows.filter((row) => `${title(row)} ${row.kernelName}`.toLowerCase().includes(text.toLowerCase())) : []), [text, subject]);
  const find = (event) => {
    event.preventDefault();
    if (!found.length) return;
    const at = found.findIndex((row) => row.index === picked);
    setPicked(found[(at + 1) % found.length].index);
  };
  return (
    <>
      <form class="tools" onSubmit={find}>
        <label>colour by <select value={colour.id} onChange={(e) => setColour(known.find((c) => c.id === e.currentTarget.value))}>
          {known.map((c) => <option key={c.id} value={c.id}>{c.name}</option>)}
        </select></label>
        <label>Find <input type="search" value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
        <button type="submit" disabled={!found.length}>Next</button>
        <span class="note" aria-live="polite">{text ? `${found.length} nodes` : `${count(subject.rows.length)} nodes, in the order in which they run`}</span>
      </form>
      <div class="graph">
        <Picture subject={subject} colour={colour} picked={picked} setPicked={setPicked} found={found} />
        {picked === null ? <p class="card note side">A box is a kernel with the model's nodes that it computes. Click one; drag moves the picture, the wheel or two fingers scale it.</p>
          : <Details subject={subject} row={subject.rows[picked]} setPicked={setPicked} />}
      </div>
    </>
  );
}

function Picture({ subject, colour, picked, setPicked, found }) {
  const { picture, rows } = subject;
  const svg = useRef(null);
  const layer = useRef(null);
  const mover = useRef(null);
  const [frame, setFrame] = useState({ x: 0, y: 0, width: 0, height: 0, words: false });
  const most = useMemo(() => Math.max(...rows.map((row) => colour.value(row) ?? 0), 0), [rows, colour]);
  const edges = useMemo(() => paths(subject), [subject]);
  const marked = useMemo(() => new Set(found.map((row) => row.index)), [found]);

  useEffect(() => {
    const node = svg.current;
    let last = null;
    const seeAll = ({ transform: t }) => {
      layer.current.setAttribute("transform", t);
      const [width, height] = [node.clientWidth / t.k, node.clientHeight / t.k];
      const [x, y] = [-t.x / t.k, -t.y / t.k];
      const words = t.k >= WORDS_FROM;
      // Only when what is seen leaves what is drawn, or words come or go, is anything drawn anew.
      if (last && last.words === words && x >= last.x && y >= last.y && x + width <= last.x + last.width && y + height <= last.y + last.height && width > last.width / 6) return;
      last = { x: x - AROUND * width, y: y - AROUND * height, width: (1 + 2 * AROUND) * width, height: (1 + 2 * AROUND) * height, words };
      setFrame(last);
    };
    const behaviour = zoom().scaleExtent([0.005, 3]).on("zoom", seeAll);
    mover.current = behaviour;
    select(node).call(behaviour).on("dblclick.zoom", null);
    select(node).call(behaviour.transform, start(node, picture, picked === null ? null : picture.nodes[picked]));
    return () => select(node).on(".zoom", null);
  }, [subject]);
  useEffect(() => {
    if (picked === null) return;
    const [x, y] = picture.nodes[picked];
    const t = svg.current.__zoom;
    const [sx, sy] = t.apply([x, y]);
    if (sx < 60 || sy < 30 || sx > svg.current.clientWidth - 60 || sy > svg.current.clientHeight - 30 || t.k < WORDS_FROM)
      select(svg.current).call(mover.current.transform, start(svg.current, picture, [x, y]));
  }, [picked]);

  const inside = ([x, y, width, height]) => x + width / 2 > frame.x && x - width / 2 < frame.x + frame.width && y + height / 2 > frame.y && y - height / 2 < frame.y + frame.height;
  const shown = frame.width ? rows.filter((row) => inside(picture.nodes[row.index])) : [];
  const scale = (factor) => select(svg.current).call(mover.current.scaleBy, factor);
  const key = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && picked !== null) setPicked(Math.min(rows.length - 1, Math.max(0, picked + step)));
    else if (event.key === "+" || event.key === "-") scale(event.key === "+" ? 1.4 : 1 / 1.4);
    else return;
    event.preventDefault();
  };
  return (
    <div class="canvas">
      <svg ref={svg} role="group" aria-label="Graph of the kernels; up and down go from node to node, plus and minus scale" tabIndex={0} onKeyDown={key}>
        <g ref={layer}>
          {subject.control.map((row, n) => <Region key={n} row={row} picture={picture} />)}
          <path class="edges" d={edges.forward} />
          <path class="edges back" d={edges.back} />
          {picked !== null && <path class="edges own" d={edges.own(picked)} />}
          {shown.map((row) => (
            <Box key={row.index} row={row} place={picture.nodes[row.index]} words={frame.words} heat={most ? (colour.value(row) ?? 0) / most : 0}
              picked={row.index === picked} marked={marked.has(row.index)} pick={() => setPicked(row.index)} time={subject.time} />
          ))}
        </g>
      </svg>
      <div class="scale">
        <button type="button" onClick={() => scale(1.4)} aria-label="Larger">+</button>
        <button type="button" onClick={() => scale(1 / 1.4)} aria-label="Smaller">&minus;</button>
        <button type="button" onClick={() => select(svg.current).call(mover.current.transform, whole(svg.current, picture))}>All</button>
      </div>
    </div>
  );
}

function Box({ row, place: [x, y, width, height], words, heat, picked, marked, pick, time }) {
  const lines = row.sources.length > LINES ? [...row.sources.slice(0, LINES), `and ${row.sources.length - LINES} more`] : row.sources;
  const label = `node ${row.index}: ${short(title(row), 80)}`;
  const branch = row.within.filter((each) => each.branch).at(-1)?.branch;
  return (
    <g class={`node${picked ? " picked" : ""}${marked ? " marked" : ""}`} transform={`translate(${x - width / 2} ${y - height / 2})`} onClick={pick} data-node={row.index}>
      <title>{`${label}\n${seen(row.kernelName)}`}</title>
      <rect width={width} height={height} rx={words ? 6 : 2} style={{ "--heat": `${Math.round(100 * Math.sqrt(heat)) * (words ? 0.55 : 1)}%` }} />
      {words && (
        <>
          <text class="head" x="10" y="18">{short(row.kernelName, 18)}</text>
          <text class="took" x={width - 10} y="18">{time ? reached(time, row) : ""}</text>
          <text class="shape" x="10" y="34">{[row.device && short(row.device, 10), row.share !== null && percent(row.share), branch].filter(Boolean).join("  ")}</text>
          {lines.map((name, n) => <text key={n} class="source" x="10" y={50 + 15 * n - 2}>{short(name, 30)}</text>)}
        </>
      )}
    </g>
  );
}

/** What a node took, if runs came to it. */
const reached = (time, row) => (row.calls === 0 ? "not run" : taken(time, row.took));

/** A loop or a choice: the nodes that it runs. */
function Region({ row, picture }) {
  const boxes = picture.nodes.slice(row.nodes[0], row.nodes.at(-1));
  if (!boxes.length) return null;
  const left = Math.min(...boxes.map(([x, , w]) => x - w / 2)) - 16;
  const right = Math.max(...boxes.map(([x, , w]) => x + w / 2)) + 16;
  const top = Math.min(...boxes.map(([, y, , h]) => y - h / 2)) - 24;
  const bottom = Math.max(...boxes.map(([, y, , h]) => y + h / 2)) + 10;
  return (
    <g class="region">
      <rect x={left} y={top} width={right - left} height={bottom - top} rx="10" />
      <text x={left + 10} y={top + 16}>{[`${row.op} ${short(row.name, 30)}`, rounds(row)].filter(Boolean).join(", ")}</text>
    </g>
  );
}

function Details({ subject, row, setPicked }) {
  const { tensors, kernels, time } = subject;
  const kernel = kernels[row.kernel];
  const same = subject.rows.filter((other) => other.kernel === row.kernel);
  const into = subject.links.filter(([, target]) => target === row.index).map(([source, , , back]) => [source, back && "of the iteration before"]);
  const out = subject.links.filter(([source]) => source === row.index).map(([, target, , back]) => [target, back && "in the next iteration"]);
  const jump = (list) => list.map(([n, when], k) => <span key={k}>{k ? ", " : ""}<button type="button" class="link" onClick={() => setPicked(n)}>{n}</button>{when ? ` ${when}` : ""}</span>);
  return (
    <section class="card side" aria-live="polite">
      <h2 title={seen(title(row))}>{short(title(row), 60)}</h2>
      <dl class="plain">
        <div><dt>node</dt><dd>{row.index}{row.device ? ` on ${seen(row.device)}` : ""}; reads {into.length ? jump(into) : "no other"}, read by {out.length ? jump(out) : "no other"}</dd></div>
        {row.stay && <div><dt>on the CPU</dt><dd>it {seen(row.stay)}</dd></div>}
        {row.within.length > 0 && <div><dt>part of</dt><dd>{row.within.map((each) => [`${each.op} ${seen(each.name)}`, each.branch, rounds(each)].filter(Boolean).join(", ")).join("; ")}</dd></div>}
        {time && <div><dt>{time.unit === "ns" ? "time" : "counted"}</dt><dd>{reached(time, row)}, {percent(row.share)} of the run{row.calls > 1 ? `; computed ${count(row.calls)} times in it` : ""}</dd></div>}
        <div><dt>work</dt><dd>{row.multiply_adds ? `${count(row.multiply_adds)} multiply-adds` : "no products"}{row.moved_bytes ? `; reads and writes ${bytes(row.moved_bytes)}` : ""}</dd></div>
        {row.gflops || row.gbytes ? <div><dt>rate</dt><dd>{[row.gflops && `${small(row.gflops)} GFLOP/s`, row.gbytes && `${small(row.gbytes)} GB/s`].filter(Boolean).join(", ")}{row.roof !== null ? `; ${roof(row.roof)} of what ${row.bound === "memory" ? "memory" : "the multipliers"} can do here` : ""}</dd></div> : null}
        <div><dt>weights, code</dt><dd>{bytes(row.weights_bytes) || "?"}, {bytes(row.code_bytes) || "not known"}</dd></div>
        {row.error !== null && <div><dt>error</dt><dd>{small(row.error)} of the largest</dd></div>}
        <div><dt>tasks</dt><dd>{seen(row.tasks)}</dd></div>
      </dl>
      {row.intensity && row.roof !== null && time?.limits ? <Roofline rows={[row]} limits={time.limits} /> : null}
      <h3>Nodes of the model</h3>
      <ul class="names">{row.sources.map((name, n) => <li key={n}>{seen(name)}</li>)}{!row.sources.length && <li>{seen(row.name)}</li>}</ul>
      {(row.inputs.length > 0 || row.outputs.length > 0) && (
        <>
          <h3>Tensors</h3>
          <ul class="names">
            {row.inputs.map((v) => <li key={`i${v}`}>reads <b>{seen(tensors[v].name)}</b> {seen(type(tensors[v]))}</li>)}
            {row.outputs.map((v) => <li key={`o${v}`}>writes <b>{seen(tensors[v].name)}</b> {seen(type(tensors[v]))}</li>)}
          </ul>
        </>
      )}
      <h3>Schedule</h3>
      {kernel.schedule === null ? <p class="note">A bundle does not hold the schedules of its kernels: a report on the model has them.</p>
        : kernel.schedule.length ? <ol class="steps">{kernel.schedule.map((step, n) => <li key={n} title={seen(step.step)}>{seen(step.words)}</li>)}</ol>
        : <p class="note">The kernel is written as a loop program, or as it is.</p>}
      <h3>{seen(kernel.name)}{same.length > 1 ? `, shared by ${same.length} nodes` : ""}</h3>
      {kernel.source ? <pre tabIndex={0} aria-label="C of the kernel"><code>{kernel.source}</code></pre> : <p class="note">kernels.c is not in the bundle.</p>}
    </section>
  );
}

/** The whole picture, or as much of its top as has words; with a place, that in the middle. */
function start(node, picture, place) {
  const [width, height] = [node.clientWidth || 600, node.clientHeight || 400];
  if (place) return zoomIdentity.translate(width / 2 - place[0] * 0.8, height / 2 - place[1] * 0.8).scale(0.8);
  const all = whole(node, picture);
  if (all.k >= WORDS_FROM) return all;
  const scale = Math.max(0.5, Math.min(0.9, width / (picture.width + 40)));
  const [x] = picture.nodes[0] ?? [0];
  return zoomIdentity.translate(width / 2 - x * scale, 30).scale(scale);
}

function whole(node, picture) {
  const [width, height] = [node.clientWidth || 600, node.clientHeight || 400];
  const k = Math.min(1, (width - 40) / Math.max(1, picture.width), (height - 50) / Math.max(1, picture.height));
  return zoomIdentity.translate((width - picture.width * k) / 2, 25).scale(k);
}

/** All edges as one line each way: thousands of elements would be slow. */
function paths({ picture, links }) {
  const forward = links.filter(([, , , back]) => !back);
  const one = (points) => {
    const [first, ...rest] = points;
    let text = `M${first[0]} ${first[1]}`;
    let [px, py] = first;
    for (const [x, y] of rest) {
      const middle = (py + y) / 2;
      text += px === x ? `V${y}` : `C${px} ${middle} ${x} ${middle} ${x} ${y}`;
      [px, py] = [x, y];
    }
    return text;
  };
  const lines = picture.edges.map(one);
  const returns = links.filter(([, , , back]) => back);
  const back = returns.map(([a, b]) => {
    const [[ax, ay, aw], [bx, by, bw]] = [picture.nodes[a], picture.nodes[b]];
    const side = Math.max(ax + aw / 2, bx + bw / 2) + 40;
    return `M${ax + aw / 2} ${ay}C${side} ${ay} ${side} ${by} ${bx + bw / 2} ${by}`;
  });
  const own = (n) => [[forward, lines], [returns, back]].map(([all, drawn]) => all.map(([a, b], k) => (a === n || b === n ? drawn[k] : "")).join("")).join("");
  return { forward: lines.join(""), back: back.join(""), own };
}
