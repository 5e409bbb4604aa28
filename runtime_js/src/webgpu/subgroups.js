import { holds } from "./probe.js";

/** Threads that a subgroup of an adapter's or device's has at least; 0: it has none. @param {any} of */
export const leastSubgroup = (of) => (of?.features.has("subgroups") && (of.info ?? of.adapterInfo)?.subgroupMinSize) || 0;

/**
 * Kernels with those that exchange values in subgroups, which are a comment of the text.
 *
 * @param {string} text
 * @param {import("./plan.js").Launch[]} launches
 */
export const withExchanges = (text, launches) =>
  launches.some((k) => k.subgroup) ? `enable subgroups;\n${text.replace(/^(\/\* Where a device has subgroups.*|\*\/)$/gm, "")}` : text;

/**
 * Whether threads with neighbouring numbers reach one another, which the language leaves open: tried in workgroups as those
 * of the kernels.
 *
 * @param {any} device
 * @param {import("./plan.js").Launch[]} launches
 */
export const neighboursMeet = (device, launches) =>
  holds(device, new Set(launches.filter((k) => k.subgroup).map(({ subgroup = 0, threads }) => `enable subgroups;
@compute @workgroup_size(${threads}) fn main(@builtin(local_invocation_index) n: u32) {
  for (var d = ${subgroup / 2}u; d > 0u; d >>= 1u) { if (subgroupShuffleXor(n, d) != (n ^ d)) { atomicStore(&wrong, 1u); } }
}`)));
