import { bytes, count, duration, seen } from "./format.js";
import { Table } from "./table.jsx";

export function Boards({ report }) {
  return (
    <>
      {report.boards.length > 0 && (
        <section class="card">
          <h2>Boards</h2>
          <Table caption="Boards" rows={report.boards.map((row, n) => ({ ...row, key: n }))} first={{ column: 0, down: false }} columns={[
            { name: "board", value: (row) => row.board },
            { name: "core", value: (row) => row.target },
            { name: "fits", value: (row) => (row.fits ? "fits" : "does not fit"), show: (row) => <span class={row.fits ? "good" : "bad"}>{row.fits ? "fits" : "does not fit"}</span> },
            { name: "flash", value: (row) => row.flash_bytes, show: (row) => `${bytes(row.flash_bytes)} of ${bytes(row.flash_of_board)}`, number: true },
            { name: "RAM", value: (row) => row.ram_bytes, show: (row) => `${bytes(row.ram_bytes)} of ${bytes(row.ram_of_board)}`, number: true },
            { name: "stack", value: (row) => row.stack_bytes ?? null, show: (row) => bytes(row.stack_bytes), number: true },
            { name: "instructions", value: (row) => row.instructions ?? null, show: (row) => count(row.instructions), number: true },
            { name: "ms", value: (row) => row.estimated_milliseconds ?? null, show: (row) => (row.estimated_milliseconds ? Number(row.estimated_milliseconds.toPrecision(3)) : ""), number: true },
            { name: "\u00b5J", value: (row) => row.estimated_microjoules ?? null, show: (row) => (row.estimated_microjoules ? Number(row.estimated_microjoules.toPrecision(3)) : ""), number: true },
          ]} />
          <p class="note">Flash, RAM, stack and instructions are measured on an emulated core; milliseconds and microjoules are estimates from the boards' data sheets.</p>
        </section>
      )}
      {report.targets.length > 0 && (
        <section class="card">
          <h2>Targets</h2>
          <Table caption="Targets" rows={report.targets.map((row, n) => ({ ...row, key: n }))} columns={[
            { name: "target", value: (row) => row.target, show: (row) => seen(row.target) },
            { name: "size", value: (row) => row.bytes, show: (row) => bytes(row.bytes), number: true },
            { name: "weights", value: (row) => row.weights_bytes, show: (row) => bytes(row.weights_bytes), number: true },
            { name: "code", value: (row) => row.code_bytes, show: (row) => bytes(row.code_bytes), number: true },
            { name: "arena", value: (row) => row.arena_bytes, show: (row) => bytes(row.arena_bytes), number: true },
            { name: "nodes", value: (row) => row.nodes, show: (row) => count(row.nodes), number: true },
            { name: "time", value: (row) => row.nanoseconds ?? row.instructions ?? null, show: (row) => (row.nanoseconds ? duration(row.nanoseconds) : row.instructions ? `${count(row.instructions)} instr.` : ""), number: true },
            { name: "measured", value: (row) => row.where ?? "", show: (row) => seen(row.where ?? "not measured") },
          ]} />
        </section>
      )}
    </>
  );
}
