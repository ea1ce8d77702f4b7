/**
 * Calibration kernel: its run time on a reference machine is known, so it measures how slow or busy this machine is.
 */
import type { Gpu } from '../../engine/gpu/device.ts';

/** 32 workgroups of 64 invocations, with 20,000 dependent operations each. */
const source = `
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var value = f32(id.x) * 1e-6;
  for (var i = 0u; i < 20000u; i += 1u) { value = fma(value, 0.999, 0.001); }
  y[id.x] = value;
}`;
const workgroups = 32;
/** Run time on the slowest machine whose time limits are not extended: two idle cores, Mesa llvmpipe. */
const referenceMs = 14;
const rounds = 3;

export interface CalibrationKernel {
  /** Measures the current run time relative to the reference machine, at least 1. */
  measureLoad(): Promise<number>;
}

/** Compiles the kernel and runs it once. */
export async function openCalibrationKernel({ device }: Gpu): Promise<CalibrationKernel> {
  const pipeline = await device.createComputePipelineAsync({
    label: 'lab.known_kernel',
    layout: 'auto',
    compute: { module: device.createShaderModule({ code: source }) },
  });
  const buffer = device.createBuffer({
    label: 'lab.known_kernel',
    size: workgroups * 64 * 4,
    usage: GPUBufferUsage.STORAGE,
  });
  const entries = [{ binding: 0, resource: { buffer } }];
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const run = async (): Promise<number> => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(workgroups);
    pass.end();
    const start = performance.now();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
    return performance.now() - start;
  };
  await run();
  return {
    async measureLoad() {
      let total = 0;
      for (let round = 0; round < rounds; round++) total += await run();
      return Math.max(1, total / rounds / referenceMs);
    },
  };
}
