import { fail } from "../errors.js";
import { leastSubgroup } from "./subgroups.js";

const INSTEAD = ": compile with --target browser, or load with a fallback";

/** Threads that exchange what they have in registers, of a need "subgroup_N"; 0 of another one. */
const subgroup = (/** @type {string} */ need) => Number(/^subgroup_(\d+)$/.exec(need)?.[1] ?? 0);

const found = () => /** @type {any} */ (globalThis.navigator)?.gpu;

/** The adapter of this page; undefined if there is none. @returns {Promise<any>} */
export const adapterOf = async () => (await found()?.requestAdapter({ powerPreference: "high-performance" }).catch(() => {})) ?? undefined;

/** Says that there is no adapter. @returns {never} */
export const noAdapter = () => fail("E0507", `WebGPU is not here${found() ? ", there is no adapter" : ""}${INSTEAD}`);

/**
 * A GPU device for a graph: the caller's, or a new one with as much as the graph needs.
 *
 * @param {import("./plan.js").GpuGraph} graph
 * @param {Record<string, number>} needed limits, by name
 * @param {any} given a GPUDevice
 * @param {any} adapter what gives one if none is given, or that one
 */
export async function request({ device: { needs }, launches }, needed, given, adapter) {
  if (!adapter) noAdapter();
  const features = ["timestamp-query"].filter((f) => adapter.features.has(f));
  const threads = Math.max(...needs.map(subgroup), 0);
  const required = needs.map((f) => (subgroup(f) ? "subgroups" : f));
  if (launches.some((k) => k.subgroup)) features.push("subgroups");
  const least = leastSubgroup(adapter);
  const missing = required.filter((f) => !adapter.features.has(f));
  if (threads > least && !missing.length) missing.push(`subgroups of ${threads} (here ${least})`);
  const small = Object.keys(needed).filter((limit) => adapter.limits[limit] < needed[limit]);
  if (missing.length + small.length)
    fail("E0507", `the kernels need ${[...missing, ...small.map((l) => `${l} ${needed[l]} (here ${adapter.limits[l]})`)].join(", ")}${INSTEAD}`);
  if (given) return given;
  try {
    return await adapter.requestDevice({ requiredFeatures: [...new Set([...required, ...features])], requiredLimits: needed });
  } catch (problem) {
    fail("E0507", `the adapter gives no device: ${/** @type {Error} */ (problem).message}${INSTEAD}`, problem);
  }
}
