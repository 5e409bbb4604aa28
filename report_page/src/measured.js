// What the page of `sterna serve` measured in this browser, for the report that stands beside it.

/** Where that page measures; null in a report that is a file of its own. */
export const MEASURE = document.body.dataset.measure ?? null;

/** The report, with these times where it has none and they are of its bundle. */
export function withMeasured(report) {
  const [subject] = report.subjects;
  const kept = MEASURE && !subject.time ? stored() : null;
  if (!kept || kept.hash !== subject.hash || kept.nodes?.length !== subject.nodes.length) return report;
  const rates = subject.nodes.map(({ multiply_adds, moved_bytes }, n) => {
    // How often the browser computed a node of a loop is not known.
    const took = subject.control.some(({ op, nodes }) => op === "loop" && nodes[0] <= n && n < nodes.at(-1)) ? 0 : kept.nodes[n];
    return { gflops: took && multiply_adds ? (2 * multiply_adds) / took : null, gbytes: took && moved_bytes ? moved_bytes / took : null, roof: null, bound: null };
  });
  const time = { unit: "ns", where: "browser", machine: kept.kernels, threads: kept.threads, runs: kept.runs, median: kept.mean, fastest: null, nodes: kept.nodes, calls: null, rates, limits: null, board: null, stack_bytes: null };
  return { ...report, subjects: [{ ...subject, time }] };
}

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem("sterna-measured"));
  } catch {
    return null;
  }
}
