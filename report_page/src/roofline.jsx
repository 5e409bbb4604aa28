import { scaleLog } from "d3-scale";
import { short, small, title } from "./format.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [520, 240, 48, 34, 10];

/** What nodes reach, by their work for each byte, under what the machine can do at most. */
export function Roofline({ rows, limits, pick }) {
  const placed = rows.filter((row) => row.intensity && row.gflops);
  if (!placed.length) return <p class="note">No node of these multiplies matrices.</p>;
  // Products of 8-bit integers have a limit of their own.
  const peaks = [...new Set(placed.map((row) => (row.narrow && limits.gops) || limits.gflops))];
  const most = Math.max(...peaks);
  const slow = limits.reading.at(-1)[1];
  const fast = Math.max(...limits.reading.map(([, rate]) => rate));
  const xs = placed.map((row) => row.intensity);
  const x = scaleLog([Math.min(0.1, ...xs) / 2, Math.max(100, ...xs) * 2], [LEFT, WIDTH - 10]);
  const y = scaleLog([Math.min(limits.gflops / 100, ...placed.map((row) => row.gflops)) / 2, Math.max(most, ...placed.map((row) => row.gflops)) * 2], [HEIGHT - BOTTOM, TOP]);
  const [from, to] = x.domain();
  const line = (rate, peak) => {
    // From where the memory's line enters the picture to where it meets the peak.
    const [low, knee] = [Math.max(from, y.domain()[0] / rate), peak / rate];
    return `M${x(low)} ${y(Math.min(peak, low * rate))}L${x(Math.min(to, Math.max(from, knee)))} ${y(Math.min(peak, to * rate))}H${x(to)}`;
  };
  return (
    <figure>
      <svg class="plot roofs" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="Roofline: GFLOP/s by floating-point operations for each byte">
        {x.ticks(4).filter((t) => Number.isInteger(Math.log10(t))).map((t) => <g key={`x${t}`} class="tick"><path d={`M${x(t)} ${TOP}V${HEIGHT - BOTTOM}`} /><text x={x(t)} y={HEIGHT - BOTTOM + 14} text-anchor="middle">{small(t)}</text></g>)}
        {y.ticks(4).filter((t) => Number.isInteger(Math.log10(t))).map((t) => <g key={`y${t}`} class="tick"><path d={`M${LEFT} ${y(t)}H${WIDTH - 10}`} /><text x={LEFT - 6} y={y(t) + 4} text-anchor="end">{small(t)}</text></g>)}
        {peaks.map((peak) => <path key={peak} class="roof" d={line(fast, peak)} />)}
        <path class="roof memory" d={line(slow, most)} />
        {placed.map((row) => (
          <circle key={row.index} cx={x(row.intensity)} cy={y(row.gflops)} r={4 + 8 * Math.sqrt(row.share ?? 0)} onClick={pick && (() => pick(row.index))} class={pick ? "pick" : ""}>
            <title>{`${short(title(row), 60)}: ${small(row.gflops)} GFLOP/s at ${small(row.intensity)} FLOP/byte`}</title>
          </circle>
        ))}
        <text class="axis" x={WIDTH - 10} y={HEIGHT - 4} text-anchor="end">FLOP for each byte</text>
        <text class="axis" x={LEFT} y={TOP + 2} dx="4" dy="8">GFLOP/s</text>
      </svg>
      <figcaption class="note">Limits measured on this machine: {peaks.map((peak) => `${small(peak)} ${peak === limits.gflops ? "GFLOP/s" : "GOP/s of 8-bit integers"}`).join(", ")}; reading {small(fast)} GB/s from the first cache, {small(slow)} GB/s from memory (the lower line).</figcaption>
    </figure>
  );
}

