// What follows from the data of a report: shares of time, work for each byte, errors.

/** Types whose products have a limit of their own. */
const NARROW = ["int8", "uint8"];

/** The loops and choices that a node is in, outermost first, with the branch of each choice that it belongs to. */
function within(control, index) {
  return control.filter(({ nodes }) => nodes[0] <= index && index < nodes.at(-1)).map((row) => {
    const branch = row.op === "if" ? row.nodes.findLastIndex((first) => first <= index) : null;
    return { ...row, branch: branch === null ? null : (["then", "else"][branch] ?? `branch ${branch + 1}`) };
  }).sort((a, b) => b.nodes.at(-1) - b.nodes[0] - (a.nodes.at(-1) - a.nodes[0]));
}

/** A subject with what the page asks of its nodes. */
export function prepared(subject) {
  const { nodes, kernels, time, numbers, control, tensors } = subject;
  const total = time ? time.nodes.reduce((sum, n) => sum + n, 0) || 1 : null;
  const errors = new Map((numbers?.layers ?? []).filter((row) => row.node !== null).map((row) => [row.node, row]));
  const rows = nodes.map((node, index) => {
    const took = time ? time.nodes[index] : null;
    const intensity = node.multiply_adds && node.moved_bytes ? (2 * node.multiply_adds) / node.moved_bytes : null;
    const rates = time ? time.rates[index] : { gflops: null, gbytes: null, roof: null, bound: null };
    return { ...node, ...rates, index, intensity, kernelName: kernels[node.kernel].name, took, narrow: node.inputs.some((v) => NARROW.includes(tensors[v].dtype)), calls: time?.calls?.[index] ?? null, within: within(control, index), share: took === null ? null : took / total, error: errors.get(index)?.error ?? null };
  });
  return { ...subject, rows, total };
}

/** Nodes that take the most, first. */
export const slowest = (rows, most) => [...rows].filter((row) => row.took).sort((a, b) => b.took - a.took).slice(0, most);
