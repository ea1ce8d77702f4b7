import { beforeAll, describe, expect, it } from 'vitest';
import { contracts, type Contract } from '../../kernels/contracts.ts';
import { parseStage } from '../../src/lab/stages/parse.ts';
import { compilePipeline, type PipelineRequest } from '../../src/lab/stages/pipeline.ts';
import type { Finding } from '../../src/lab/types.ts';
import { nullDevice } from '../support/null-gpu.ts';

let device: GPUDevice;
let uncaptured: string[];
beforeAll(async () => {
  ({ device, uncaptured } = await nullDevice([]));
});

const add = contracts.get('add') as Contract;

const head = `override WG: u32 = 64;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
`;

async function make(body: string, more: Partial<PipelineRequest> = {}) {
  const source = head + body;
  const { module, findings } = await parseStage(device, source);
  if (!module) throw new Error(findings[0]?.message);
  return compilePipeline(device, {
    module,
    contract: add,
    entryPoint: 'main',
    constants: {},
    label: 'test',
    source,
    ...more,
  });
}

async function findingsOf(body: string, more: Partial<PipelineRequest> = {}): Promise<readonly Finding[]> {
  const made = await make(body, more);
  if ('findings' in made) return made.findings;
  throw new Error('there is a pipeline');
}

const main = '@compute @workgroup_size(WG) fn main() { y[0] += x[0]; }';

describe('pipeline stage', () => {
  it('creates a pipeline with the layout of the contract, including unused bindings', async () => {
    const made = await make(main, { constants: { WG: 32 } });
    if ('findings' in made) throw new Error(made.findings[0]?.message);
    const buffer = (usage: number) => device.createBuffer({ size: 64, usage });
    const storage = GPUBufferUsage.STORAGE;
    const usages = [storage, storage, GPUBufferUsage.UNIFORM, GPUBufferUsage.UNIFORM];
    device.pushErrorScope('validation');
    device.createBindGroup({
      layout: made.layout,
      entries: usages.map((usage, binding) => ({ binding, resource: { buffer: buffer(usage) } })),
    });
    expect(await device.popErrorScope()).toBeNull();
    expect(made.pipeline.label).toBe('test');
  });

  it('supports additional groups', async () => {
    const layout = device.createBindGroupLayout({
      entries: [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'storage' } }],
    });
    const body =
      '@group(1) @binding(0) var<storage, read_write> z: array<u32>;\n@compute @workgroup_size(1) fn main() { z[0] = 1; y[0] += x[0]; }';
    expect(await make(body, { extraGroups: [layout] })).toHaveProperty('pipeline');
    expect((await findingsOf(body)).map(({ code }) => code)).toEqual(['pipeline_validation']);
  });

  it.each<[string, string, Record<string, number>, string]>([
    [
      'invocations',
      '@compute @workgroup_size(WG, 16) fn main() { y[0] += x[0]; }',
      { WG: 17 },
      'maxComputeInvocationsPerWorkgroup: expected at most 256, got 272',
    ],
    [
      'size',
      main,
      { WG: 512 },
      'maxComputeWorkgroupSizeX, Y, Z: expected at most 256, 256, 64, got 512, 1, 1',
    ],
    [
      'memory',
      'var<workgroup> m: array<f32, WG * 64>; @compute @workgroup_size(1) fn main() { y[0] += m[0] + x[0]; }',
      { WG: 65 },
      'maxComputeWorkgroupStorageSize: expected at most 16384, got 16640',
    ],
  ])('names the limit: %s', async (_, body, constants, message) => {
    expect(await findingsOf(body, { constants })).toEqual([
      { code: 'limit_exceeded', severity: 'error', message },
    ]);
  });

  it('reports the exceeded limit of the layout, not the consequential pipeline error', async () => {
    const [binding] = add.bindings;
    if (!binding) throw new Error('no binding');
    const contract = { ...add, bindings: [...add.bindings, ...Array.from({ length: 7 }, () => binding)] };
    expect(await findingsOf(main, { contract })).toEqual([
      {
        code: 'limit_exceeded',
        severity: 'error',
        message: 'maxStorageBuffersPerShaderStage: expected at most 8, got 9',
      },
    ]);
  });

  it.each(['', '/* é😀 */ '])(
    'what only shows with values of overrides has its place: %s',
    async (before) => {
      const body = `${before}var<workgroup> m: array<f32, WG - 4>; @compute @workgroup_size(1) fn main() { y[0] += m[0] + x[0]; }`;
      const [found] = await findingsOf(body, { constants: { WG: 4 } });
      expect(found).toMatchObject({
        code: 'pipeline_validation',
        message: 'array count (0) must be greater than 0',
        line: 4,
        column: body.indexOf('WG - 4') + 1,
        length: before === '' ? 6 : 1, // Dawn marks the length on lines of ASCII only
      });
    },
  );

  it.each<[string, Partial<PipelineRequest>, RegExp]>([
    ['no such entry point', { entryPoint: 'mian' }, /mian.*doesn't exist/],
    ['no such override', { constants: { X: 1 } }, /X.*not found/],
    ['a value that does not fit', { constants: { WG: -1 } }, /not representable/],
  ])('other errors are findings too: %s', async (_, more, message) => {
    const [found] = await findingsOf(main, more);
    expect(found).toMatchObject({ code: 'pipeline_validation', severity: 'error' });
    expect(found?.message).toMatch(message);
    expect(found?.message).not.toContain('While validating');
  });

  it('causes no uncaptured device errors', async () => {
    await device.queue.onSubmittedWorkDone();
    expect(uncaptured).toEqual([]);
  });

  it('a lost device gives a finding', async () => {
    const { device: other } = await nullDevice([]);
    const { module } = await parseStage(other, head + main);
    if (!module) throw new Error('no module');
    other.destroy();
    await other.lost;
    const made = await compilePipeline(other, {
      module,
      contract: add,
      entryPoint: 'main',
      constants: {},
      label: 'lost',
    });
    expect('pipeline' in made || made.findings.length === 1).toBe(true);
  });
});
