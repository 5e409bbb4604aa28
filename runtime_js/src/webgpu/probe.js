/**
 * Whether what the language leaves open is so on a device: small programs, which store 1 in `wrong` where it is not.
 *
 * @param {any} device
 * @param {Iterable<string>} programs without the declaration of `wrong`
 */
export async function holds(device, programs) {
  const [wrong, read] = [0x84, 9].map((usage) => device.createBuffer({ size: 4, usage }));
  try {
    const encoder = device.createCommandEncoder();
    for (const program of programs) {
      const module = device.createShaderModule({ code: `${program}\n@group(0) @binding(0) var<storage, read_write> wrong: atomic<u32>;` });
      const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module } });
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer: wrong } }] }));
      pass.dispatchWorkgroups(1024);
      pass.end();
    }
    encoder.copyBufferToBuffer(wrong, 0, read, 0, 4);
    device.queue.submit([encoder.finish()]);
    await read.mapAsync(1);
    return !new Uint32Array(read.getMappedRange())[0];
  } catch {
    return false;
  } finally {
    [wrong, read].forEach((each) => each.destroy());
  }
}
