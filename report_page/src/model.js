// What follows from the data of a report: shares, rates, and places under the roofline.

/** A subject with what the page asks of its nodes. */
export function prepared(subject) {
  const { nodes, kernels, tensors, time, numbers } = subject;
  const total = time ? time.nodes.reduce((sum, n) => sum + n, 0) || 1 : null;
  const errors = new Map((numbers?.layers ?? []).filter((row) => row.node !== null).map((row) => [row.node, row]));
  const rows = nodes.map((node, index) => {
    const took = time ? time.nodes[index] : null;
    const narrow = node.inputs.some((v) => /^u?int8$/.test(tensors[v].dtype));
    const row = { ...node, index, narrow, kernelName: kernels[node.kernel].name, took, share: took === null ? null : took / total };
    return { ...row, ...rates(row, time), error: errors.get(index)?.error ?? null };
  });
  return { ...subject, rows, total };
}

/** Work and traffic by time, and how near that is to what the machine can do at most. */
function rates(row, time) {
  const work = row.multiply_adds ? 2 * row.multiply_adds : null;
  const intensity = work && row.moved_bytes ? work / row.moved_bytes : null;
  if (!time || time.unit !== "ns" || !row.took) return { work, intensity, gflops: null, gbytes: null, roof: null, bound: null };
  const gflops = work ? work / row.took : null;
  const gbytes = row.moved_bytes ? row.moved_bytes / row.took : null;
  const roofed = time.limits ? roof(time.limits, row, intensity) : null;
  if (!roofed) return { work, intensity, gflops, gbytes, roof: null, bound: null };
  const share = roofed.bound === "memory" ? gbytes / roofed.gbytes : gflops / roofed.gflops;
  return { work, intensity, gflops, gbytes, roof: share, bound: roofed.bound };
}

/** GB/s of reading what is read again when so many bytes have been read. */
export const reading = (limits, size) => (limits.reading.find(([most]) => size <= most) ?? limits.reading.at(-1))[1];

/** What bounds a node: the multipliers, or the memory that holds what it reads and writes. */
function roof(limits, row, intensity) {
  if (!row.moved_bytes) return null;
  const rate = reading(limits, row.moved_bytes);
  const peak = row.narrow && limits.gops ? limits.gops : limits.gflops;
  return intensity !== null && intensity * rate > peak ? { bound: "arithmetic", gflops: peak, gbytes: rate } : { bound: "memory", gflops: peak, gbytes: rate };
}

/** Nodes that take the most, first. */
export const slowest = (rows, most) => [...rows].filter((row) => row.took).sort((a, b) => b.took - a.took).slice(0, most);
