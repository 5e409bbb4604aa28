import { fail } from "../errors.js";

const INSTEAD = ": compile with --target browser, or load with a fallback";

/**
 * A GPU device for a graph: the caller's, or a new one with as much as the graph needs.
 *
 * @param {import("./plan.js").GpuGraph} graph
 * @param {Record<string, number>} needed limits, by name
 * @param {any} given a GPUDevice
 */
export async function request({ device: { needs } }, needed, given) {
  const { gpu } = /** @type {any} */ (globalThis.navigator ?? {});
  const adapter = given ?? (await gpu?.requestAdapter({ powerPreference: "high-performance" }).catch(() => {}));
  if (!adapter) fail("E0507", `WebGPU is not here${gpu ? ", there is no adapter" : ""}${INSTEAD}`);
  const features = ["timestamp-query"].filter((f) => adapter.features.has(f));
  const missing = needs.filter((f) => !adapter.features.has(f));
  const small = Object.keys(needed).filter((limit) => adapter.limits[limit] < needed[limit]);
  if (missing.length + small.length)
    fail("E0507", `the kernels need ${[...missing, ...small.map((l) => `${l} ${needed[l]} (here ${adapter.limits[l]})`)].join(", ")}${INSTEAD}`);
  if (given) return given;
  try {
    return await adapter.requestDevice({ requiredFeatures: [...needs, ...features], requiredLimits: needed });
  } catch (problem) {
    fail("E0507", `the adapter gives no device: ${/** @type {Error} */ (problem).message}${INSTEAD}`, problem);
  }
}
