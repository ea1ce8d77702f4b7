import { beforeAll, describe, expect, it } from 'vitest';
import { contracts, type Contract, packUniform } from '../../kernels/contracts.ts';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { parseStage } from '../../src/lab/stages/parse.ts';
import { compilePipeline } from '../../src/lab/stages/pipeline.ts';
import { elementCountAt, instrument } from '../../src/lab/wgsl/instrument.ts';
import { reflect } from '../../src/lab/wgsl/reflect.ts';
import { testPlatform } from '../support/test-platform.ts';

let device: GPUDevice;
beforeAll(async () => {
  const platform = testPlatform();
  ({ device } = await openGpu(await platform.requestAdapter({}), platform.backend));
});

const add = contracts.get('add') as Contract;
const elements = 100;

const head = `struct Params { columns: u32, }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3u) {
`;

/** Runs two workgroups of an instrumented kernel; x holds its indices, y zeros, both `elements` floats. */
async function run(body: string) {
  const author = `${head}${body}\n}`;
  const { source, sites } = instrument(author, reflect(author));
  const { module, findings } = await parseStage(device, source);
  if (!module) throw new Error(JSON.stringify(findings));
  const layout = device.createBindGroupLayout({
    entries: [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'storage' } }],
  });
  const made = await compilePipeline(device, {
    module,
    contract: add,
    entryPoint: 'main',
    constants: {},
    label: 'bounds',
    extraGroups: [layout],
  });
  if ('findings' in made) throw new Error(JSON.stringify(made.findings));

  const bytes = elements * 4;
  const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const buffer = (size: number, usage: number, data?: BufferSource) => {
    const created = device.createBuffer({ size, usage: usage | COPY_DST });
    if (data) device.queue.writeBuffer(created, 0, data);
    return created;
  };
  const x = buffer(
    bytes,
    STORAGE,
    Float32Array.from({ length: elements }, (_, n) => n),
  );
  const y = buffer(bytes, STORAGE | COPY_SRC);
  const [, , params, step] = add.bindings;
  if (!params || !step) throw new Error('no such bindings');
  const uniforms = [
    buffer(16, UNIFORM, packUniform(params, { columns: elements })),
    buffer(16, UNIFORM, packUniform(step, { tokens: 1 })),
  ];
  const counts = buffer(sites.length * 8, STORAGE | COPY_SRC);
  const readback = buffer(bytes + sites.length * 8, MAP_READ);

  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(made.pipeline);
  const group = [x, y, ...uniforms].map((one, binding) => ({ binding, resource: { buffer: one } }));
  pass.setBindGroup(0, device.createBindGroup({ layout: made.layout, entries: group }));
  const entries = [{ binding: 0, resource: { buffer: counts } }];
  pass.setBindGroup(1, device.createBindGroup({ layout, entries }));
  pass.dispatchWorkgroups(2);
  pass.end();
  encoder.copyBufferToBuffer(y, 0, readback, 0, bytes);
  encoder.copyBufferToBuffer(counts, 0, readback, bytes, sites.length * 8);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const copied = readback.getMappedRange().slice(0);
  const found = new Uint32Array(copied, bytes);
  return {
    y: new Float32Array(copied, 0, elements),
    violations: sites.flatMap((site, n) => {
      const [count = 0, index = 0] = found.subarray(2 * n, 2 * n + 2);
      const { line, column, length } = site;
      const text = author.split('\n')[line - 1]?.slice(column - 1, column - 1 + length);
      return count === 0
        ? []
        : [{ count, index, text, write: site.isWrite, length: elementCountAt(site, bytes) }];
    }),
  };
}

const doubled = Float32Array.from({ length: elements }, (_, n) => 2 * n);

describe('bounds-checked build', () => {
  it('counts nothing for a kernel that stays in bounds, and gives the same results', async () => {
    const { y, violations } = await run(
      '  if (at.x < params.columns) { y[at.x / 4u][at.x % 4u] = 2 * x[at.x]; }',
    );
    expect(violations).toEqual([]);
    expect(y).toEqual(doubled);
  });

  it('reports which access is out of bounds, how often, with which index, and the exceeded length', async () => {
    // 128 invocations for 100 elements: 28 too many, in a buffer of 25 vectors.
    const { y, violations } = await run('  y[at.x / 4u][at.x % 4u] = 2 * x[at.x];');
    expect(y).toEqual(doubled); // robust access hides it
    const [write, read] = violations;
    expect(violations).toHaveLength(2);
    expect(write).toMatchObject({ count: 28, text: 'y[at.x / 4u]', write: true, length: 25 });
    expect(write?.index).toBeGreaterThanOrEqual(25);
    expect(write?.index).toBeLessThan(32);
    expect(read).toMatchObject({ count: 28, text: 'x[at.x]', write: false, length: 100 });
    expect(read?.index).toBeGreaterThanOrEqual(100);
    expect(read?.index).toBeLessThan(128);
  });

  it('detects a single invocation, negative indices, and indices within an element', async () => {
    const { violations } = await run(`  if (at.x == 7u) {
    let back = i32(at.x) - 10;
    y[0][at.x] = x[back];
    y[u32(x[24]) + 1u].x += x[u32(x[99])];
  }`);
    expect(violations).toEqual([
      { count: 1, index: 7, text: 'y[0][at.x]', write: true, length: 4 },
      { count: 1, index: 2 ** 32 - 3, text: 'x[back]', write: false, length: 100 },
      { count: 1, index: 25, text: 'y[u32(x[24]) + 1u]', write: true, length: 25 },
    ]);
  });
});
