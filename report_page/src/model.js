// What follows from the data of a report: shares of time, work for each byte, errors.

/** A subject with what the page asks of its nodes. */
export function prepared(subject) {
  const { nodes, kernels, time, numbers } = subject;
  const total = time ? time.nodes.reduce((sum, n) => sum + n, 0) || 1 : null;
  const errors = new Map((numbers?.layers ?? []).filter((row) => row.node !== null).map((row) => [row.node, row]));
  const rows = nodes.map((node, index) => {
    const took = time ? time.nodes[index] : null;
    const intensity = node.multiply_adds && node.moved_bytes ? (2 * node.multiply_adds) / node.moved_bytes : null;
    const rates = time ? time.rates[index] : { gflops: null, gbytes: null, roof: null, bound: null };
    return { ...node, ...rates, index, intensity, kernelName: kernels[node.kernel].name, took, share: took === null ? null : took / total, error: errors.get(index)?.error ?? null };
  });
  return { ...subject, rows, total };
}

/** Nodes that take the most, first. */
export const slowest = (rows, most) => [...rows].filter((row) => row.took).sort((a, b) => b.took - a.took).slice(0, most);
