export interface CopyBandwidth {
  /** Bytes read plus bytes written, in the fastest round. */
  readonly bytesPerSecond: number;
  /** The faster of the two copy methods. */
  readonly method: 'kernel' | 'copyBufferToBuffer';
  readonly bufferBytes: number;
}

const wgsl = `
@group(0) @binding(0) var<storage, read> src: array<vec4u>;
@group(0) @binding(1) var<storage, read_write> dst: array<vec4u>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  for (var i = id.x; i < arrayLength(&src); i += groups.x * 64u) {
    dst[i] = src[i];
  }
}`;

/** Copies in each submit: enough that the fixed cost of a submit is negligible. */
const copiesPerSubmit = 16;

/**
 * Measures the memory bandwidth of the device: the fastest round of copies between buffers too large for its caches. `pause` is
 * called between rounds.
 */
export async function measureCopyBandwidth(
  device: GPUDevice,
  options: { software: boolean; rounds: number; pause?: () => Promise<unknown> },
): Promise<CopyBandwidth> {
  const targetBytes = (options.software ? 64 : 512) << 20;
  const size = Math.min(targetBytes, device.limits.maxStorageBufferBindingSize);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const from = device.createBuffer({ label: 'copy.from', size, usage });
  const to = device.createBuffer({ label: 'copy.to', size, usage });
  try {
    const module = device.createShaderModule({ label: 'copy', code: wgsl });
    const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module } });
    const bindGroup = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [from, to].map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    const groups = Math.min(65_535, Math.ceil(size / 16 / 64));
    const methods: Readonly<Record<CopyBandwidth['method'], (encoder: GPUCommandEncoder) => void>> = {
      kernel(encoder) {
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, bindGroup);
        pass.dispatchWorkgroups(groups);
        pass.end();
      },
      copyBufferToBuffer: (encoder) => encoder.copyBufferToBuffer(from, 0, to, 0, size),
    };
    const best = { kernel: Number.POSITIVE_INFINITY, copyBufferToBuffer: Number.POSITIVE_INFINITY };
    // The first round is a warm-up: drivers compile and touch new memory in it.
    for (let round = 0; round <= options.rounds; round++) {
      for (const method of ['kernel', 'copyBufferToBuffer'] as const) {
        await options.pause?.();
        const encoder = device.createCommandEncoder();
        for (let n = 0; n < copiesPerSubmit; n++) methods[method](encoder);
        const start = performance.now();
        device.queue.submit([encoder.finish()]);
        await device.queue.onSubmittedWorkDone();
        if (round > 0) best[method] = Math.min(best[method], performance.now() - start);
      }
    }
    const method = best.kernel < best.copyBufferToBuffer ? 'kernel' : 'copyBufferToBuffer';
    return {
      method,
      bytesPerSecond: (2 * size * copiesPerSubmit) / (best[method] / 1000),
      bufferBytes: size,
    };
  } finally {
    from.destroy();
    to.destroy();
  }
}
