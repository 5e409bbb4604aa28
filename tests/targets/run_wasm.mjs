// Runs a WebAssembly bundle on raw input files: node run_wasm.mjs DIRECTORY IN0 [IN1 ...] PREFIX
// Everything lies in the module's own memory: params, arena, scratch, then the buffers of inputs and outputs.
import { readFileSync, writeFileSync } from "node:fs";

const [directory, ...files] = process.argv.slice(2);
const prefix = files.pop();
const graph = JSON.parse(readFileSync(`${directory}/graph.json`, "utf8"));
const params = readFileSync(`${directory}/params.bin`);
const { instance } = await WebAssembly.instantiate(readFileSync(`${directory}/${graph.library}`));
const { memory, __indirect_function_table: table, __heap_base: heap } = instance.exports;

let end = heap.value;
const take = (bytes) => {
  const at = Math.ceil(end / 64) * 64;
  end = at + bytes;
  if (end > memory.buffer.byteLength) memory.grow(Math.ceil((end - memory.buffer.byteLength) / 65536));
  return at;
};
const place = { param: take(params.length), arena: take(graph.arena.bytes), scratch: take(graph.scratch_bytes) };
const signature = new Map([...graph.inputs, ...graph.outputs].map((v) => [v, take(graph.values[v].storage.bytes)]));
const address = (v) => signature.get(v) ?? place[graph.values[v].storage.class] + graph.values[v].storage.offset;
new Uint8Array(memory.buffer).set(params, place.param);
graph.inputs.forEach((v, i) => new Uint8Array(memory.buffer).set(readFileSync(files[i]), address(v)));

const words = (list) => {
  const at = take(4 * list.length);
  new Uint32Array(memory.buffer, at, list.length).set(list);
  return at;
};
const library = instance.exports[`sterna_${graph.model}_library`]();
const kernels = new Uint32Array(memory.buffer, library, 5)[4];
for (const node of graph.nodes) {
  const call = words([40, 1, words(node.in.map(address)), words(node.out.map(address)), node.params_bytes ? place.param + node.params_at : 0, place.scratch, 0, 0, 0, 0]);
  const kernel = table.get(new Uint32Array(memory.buffer, kernels + 20 * node.kernel, 1)[0]);
  const status = kernel(call, 0, node.tasks);
  if (status !== 0) throw new Error(`node ${node.name} returned ${status}`);
}
graph.outputs.forEach((v, i) => writeFileSync(`${prefix}${i}.bin`, new Uint8Array(memory.buffer, address(v), graph.values[v].storage.bytes)));
