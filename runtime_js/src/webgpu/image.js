import { fail } from "../errors.js";

/**
 * @typedef {{height: number, width: number, channels: number, last: boolean}} Layout Of an image in a tensor.
 */

const RESULT = "mean: vec4<f32>, scale: vec4<f32>";
const code = (/** @type {string} */ kind) => `
struct Place { first: u32, height: u32, width: u32, channels: u32, pixel: u32, plane: u32, ${RESULT} }
@group(0) @binding(0) var<storage, read_write> memory: array<u32>;
@group(0) @binding(1) var<uniform> place: Place;
@group(0) @binding(2) var image: ${kind};
@group(0) @binding(3) var linear: sampler;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  if (at.x >= place.width || at.y >= place.height) { return; }
  let uv = (vec2<f32>(at.xy) + 0.5) / vec2<f32>(f32(place.width), f32(place.height));
  var color = textureSampleBaseClampToEdge(image, linear, uv);
  if (place.channels == 1u) { color = vec4<f32>(dot(color.rgb, vec3<f32>(0.299, 0.587, 0.114))); }
  color = (color - place.mean) * place.scale;
  for (var c = 0u; c < place.channels; c++) {
    memory[place.first + (at.y * place.width + at.x) * place.pixel + c * place.plane] = bitcast<u32>(color[c]);
  }
}`;

/**
 * Where an image lies in a tensor of these sizes; undefined where none does.
 *
 * @param {number[]} dims
 * @returns {Layout | undefined}
 */
export function layoutOf(dims) {
  const [a, b, c] = dims.length === 4 && dims[0] === 1 ? dims.slice(1) : dims.length === 2 ? [...dims, 1] : dims;
  const has = (/** @type {number} */ n) => n === 1 || n === 3 || n === 4;
  if (dims.length < 2 || dims.length > 4 || (dims.length === 4 && dims[0] !== 1)) return undefined;
  if (has(c)) return { height: a, width: b, channels: c, last: true };
  return has(a) ? { height: b, width: c, channels: a, last: false } : undefined;
}

/** @param {any} data @param {string[]} kinds names of classes, of which an engine may have some */
const is = (data, ...kinds) => kinds.some((kind) => kind in globalThis && data instanceof /** @type {any} */ (globalThis)[kind]);

/** What is a picture, or has one: textures, videos, frames, bitmaps, canvases. @param {any} data */
export const isImage = (data) =>
  is(data, "GPUTexture", "GPUExternalTexture", "HTMLVideoElement", "VideoFrame", "ImageBitmap", "HTMLCanvasElement", "OffscreenCanvas", "ImageData");

/**
 * How an input's numbers are made of 0 to 255: less the mean, divided by the deviation; else 0 to 1.
 *
 * @param {any} json metadata of the graph
 * @param {string} name
 */
function normalization(json, name) {
  const { mean = [0], std = [255] } = json?.normalization?.[name] ?? {};
  const four = (/** @type {number[]} */ list) => [0, 1, 2, 3].map((n) => list[n] ?? list[0]);
  return { mean: four(mean).map((m) => m / 255), scale: four(std).map((s) => 255 / s) };
}

/**
 * @param {import("../graph.js").Graph} graph
 * @param {number} index of an input
 */
function imageInput(graph, index) {
  const { name, dtype, dims } = graph.values[index];
  const layout = layoutOf(dims);
  if (dtype !== "float32" || !layout) fail("E0603", `input "${name}" is ${dtype} [${dims.join(", ")}], which takes no picture; float32 [1, C, H, W] and [1, H, W, C] do`);
  return { layout, ...normalization(/** @type {any} */ (graph).metadata, name) };
}

/** Turns pictures into tensors on the device. */
export class Images {
  /** @type {Map<string, any>} */ #pipelines = new Map();
  /** @type {any} */ #sampler;

  /** @param {any} device @param {any} memory its buffer */
  constructor(device, memory) {
    this.device = device;
    this.memory = memory;
  }

  /**
   * Puts a picture into an input, stretched to its size.
   *
   * @param {any} encoder
   * @param {import("../graph.js").Graph} graph
   * @param {number} index
   * @param {number} at bytes
   * @param {any} picture
   * @returns {{destroy: () => void}[]} what is to be freed when the work is done
   */
  put(encoder, graph, index, at, picture) {
    const { layout, mean, scale } = imageInput(graph, index);
    const { height, width, channels, last } = layout;
    const { device } = this;
    const used = [];
    let resource = picture;
    let isExternal = is(picture, "GPUExternalTexture");
    if (is(picture, "HTMLVideoElement", "VideoFrame"))
      try {
        resource = device.importExternalTexture({ source: picture });
        isExternal = true;
      } catch {
        // Not every engine and frame can: it is drawn.
        const canvas = new OffscreenCanvas(picture.displayWidth ?? picture.videoWidth, picture.displayHeight ?? picture.videoHeight);
        /** @type {any} */ (canvas.getContext("2d")).drawImage(picture, 0, 0);
        picture = canvas;
      }
    if (!isExternal && !is(picture, "GPUTexture")) {
      const size = [picture.width, picture.height];
      resource = device.createTexture({ size, format: "rgba8unorm", usage: 0x16 }); // copied to, sampled, drawn to
      device.queue.copyExternalImageToTexture({ source: picture }, { texture: resource }, size);
      used.push(resource);
    }
    const kind = isExternal ? "texture_external" : "texture_2d<f32>";
    if (!this.#pipelines.has(kind))
      this.#pipelines.set(kind, device.createComputePipeline({ layout: "auto", compute: { module: device.createShaderModule({ code: code(kind) }), entryPoint: "main" } }));
    const pipeline = this.#pipelines.get(kind);
    const place = device.createBuffer({ size: 64, usage: 0x40, mappedAtCreation: true });
    const range = place.getMappedRange();
    new Uint32Array(range).set([at / 4, height, width, channels, last ? channels : 1, last ? 1 : height * width]);
    new Float32Array(range, 32).set([...mean, ...scale]);
    place.unmap();
    used.push(place);
    const entries = [
      { binding: 0, resource: { buffer: this.memory } },
      { binding: 1, resource: { buffer: place } },
      { binding: 2, resource: isExternal ? resource : resource.createView() },
      { binding: 3, resource: (this.#sampler ??= device.createSampler({ magFilter: "linear", minFilter: "linear" })) },
    ];
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    pass.dispatchWorkgroups(Math.ceil(width / 8), Math.ceil(height / 8));
    pass.end();
    return used;
  }
}

/**
 * The same for a model that runs elsewhere: its numbers.
 *
 * @param {any} picture
 * @param {{name: string, dtype: string, dims: number[]}} input
 * @param {any} metadata of the model
 */
export function pixels(picture, input, metadata) {
  const { layout, mean, scale } = imageInput(/** @type {any} */ ({ values: [input], metadata }), 0);
  const { height, width, channels, last } = layout;
  const canvas = new OffscreenCanvas(width, height);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  if ("data" in picture) {
    const whole = new OffscreenCanvas(picture.width, picture.height);
    /** @type {any} */ (whole.getContext("2d")).putImageData(picture, 0, 0);
    picture = whole;
  }
  try {
    context.drawImage(picture, 0, 0, width, height);
  } catch (problem) {
    fail("E0603", `input "${input.name}": only WebGPU takes this kind of picture`, problem);
  }
  const { data } = context.getImageData(0, 0, width, height);
  const result = new Float32Array(height * width * channels);
  for (let n = 0; n < height * width; n++)
    for (let c = 0; c < channels; c++) {
      const value = channels === 1 ? 0.299 * data[4 * n] + 0.587 * data[4 * n + 1] + 0.114 * data[4 * n + 2] : data[4 * n + c];
      result[last ? n * channels + c : c * height * width + n] = (value / 255 - mean[c]) * scale[c];
    }
  return result;
}
