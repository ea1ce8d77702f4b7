import { Bench } from 'tinybench';

export interface CopyBandwidth {
  /** Bytes read plus bytes written, of the best round. */
  readonly bytesPerSecond: number;
  /** The faster of the two ways to copy. */
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

/** Copies a submit: enough that its fixed cost does not count. */
const copies = 16;

/** How fast the device can move memory, so the best round: between two buffers too large for its caches. */
export async function measureCopyBandwidth(
  device: GPUDevice,
  options: { software: boolean; rounds: number },
): Promise<CopyBandwidth> {
  const wanted = (options.software ? 64 : 512) << 20;
  const size = Math.min(wanted, device.limits.maxStorageBufferBindingSize);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const from = device.createBuffer({ label: 'copy.from', size, usage });
  const to = device.createBuffer({ label: 'copy.to', size, usage });
  const module = device.createShaderModule({ label: 'copy', code: wgsl });
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module } });
  const bindGroup = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [from, to].map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  const groups = Math.min(65_535, Math.ceil(size / 16 / 64));
  const submit = (encode: (encoder: GPUCommandEncoder) => void) => async () => {
    const encoder = device.createCommandEncoder();
    for (let n = 0; n < copies; n++) encode(encoder);
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
  };
  const bench = new Bench({
    iterations: options.rounds,
    warmupIterations: 1,
    time: 0,
    warmupTime: 0,
    throws: true,
  });
  bench.add(
    'kernel',
    submit((encoder) => {
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, bindGroup);
      pass.dispatchWorkgroups(groups);
      pass.end();
    }),
  );
  bench.add(
    'copyBufferToBuffer',
    submit((encoder) => encoder.copyBufferToBuffer(from, 0, to, 0, size)),
  );
  try {
    const tasks = await bench.run();
    const found = tasks.map(({ name, result }) => {
      if (result.state !== 'completed') throw new Error(`copy bandwidth: ${name} ${result.state}`);
      const method = name as CopyBandwidth['method'];
      return { method, bytesPerSecond: (2 * size * copies) / (result.latency.min / 1000), bufferBytes: size };
    });
    return found.reduce((best, one) => (one.bytesPerSecond > best.bytesPerSecond ? one : best));
  } finally {
    from.destroy();
    to.destroy();
  }
}
