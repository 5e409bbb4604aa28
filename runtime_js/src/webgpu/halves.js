import { holds } from "./probe.js";

/**
 * Kernels that widen float16 by the language's own function, in place of that of their text (`templates/wgsl/helpers.j2`),
 * which computes it by integers: where the two agree on every number, as implementations may take subnormal ones for 0.
 *
 * @param {string} text
 * @param {any} device
 */
export async function withHalves(text, device) {
  const own = /^fn widen_f16[^]*?^}/m.exec(text)?.[0];
  const program = `${own}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  let a = at.x;
  if ((a & 32767u) < 31745u && bitcast<u32>(unpack2x16float(a).x) != bitcast<u32>(widen_f16(a))) { atomicStore(&wrong, 1u); }
}`;
  return own && (await holds(device, [program])) ? text.replace(own, "fn widen_f16(a: u32) -> f32 { return unpack2x16float(a).x; }") : text;
}
