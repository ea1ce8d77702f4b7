import { openGpu } from '../../engine/gpu/device.ts';
import { PipelineCache } from '../../engine/gpu/pipelines.ts';
import { nodePlatform } from '../../platform/node.ts';
import type { Bench } from './references.ts';

/** Does what a kernel of the lab does first, so that the first candidate does not wait for the driver's start. */
const warmUp = `
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&y)) { y[id.x] = sqrt(f32(id.x)); }
}`;

/**
 * A device of this process alone, warm.
 * @param adapter a part of its name
 */
export async function openBench(adapter: string | undefined): Promise<Bench> {
  const platform = nodePlatform();
  const gpu = await openGpu(
    await platform.requestAdapter(adapter === undefined ? {} : { adapter }),
    platform.backend,
  );
  const { device } = gpu;
  const pipeline = await device.createComputePipelineAsync({
    layout: 'auto',
    compute: { module: device.createShaderModule({ code: warmUp }) },
  });
  const buffer = device.createBuffer({ size: 256, usage: GPUBufferUsage.STORAGE });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  const entries = [{ binding: 0, resource: { buffer } }];
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(1);
  pass.end();
  device.queue.submit([encoder.finish()]);
  await device.queue.onSubmittedWorkDone();
  buffer.destroy();
  return { gpu, pipelines: new PipelineCache(device, await platform.wgsl()) };
}
