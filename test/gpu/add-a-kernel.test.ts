/** docs/add-a-kernel.md: its blocks, added to a copy of the sources, are an op that runs and equals its oracle. */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { repository } from '../support/host.ts';

const run = promisify(execFile);
const registry = 'src/engine/ops/index.ts';

/** Runs the op on three rows of the buffer that it works on, and prints the largest difference to its oracle. */
const script = `
import { matmulFamilies } from './kernels/matmul.ts';
import { quickGelu } from './kernels/reference/quick-gelu.ts';
import { encodePlan, makePlan } from './src/engine/execution/plan.ts';
import { Tuning } from './src/engine/execution/tuning.ts';
import { StepInput } from './src/engine/execution/step.ts';
import { BufferPool } from './src/engine/gpu/buffers.ts';
import { openGpu } from './src/engine/gpu/device.ts';
import { PipelineCache } from './src/engine/gpu/pipelines.ts';
import { GraphBuilder } from './src/engine/graph/graph-builder.ts';
import type { Shape } from './src/engine/graph/graph.ts';
import { allocateMemory } from './src/engine/memory/memory.ts';
import { estimateUnitCost, type Unit } from './src/engine/ops/index.ts';
import { nodePlatform } from './src/platform/node.ts';

const platform = nodePlatform();
const gpu = await openGpu(await platform.requestAdapter({}), platform.backend);
const { device } = gpu;
const shape: Shape = {
  layers: 1, width: 64, heads: 2, kvHeads: 1, headDim: 32, feedForward: 96, vocabulary: 64, eps: 1e-5,
  embeddingScale: 1, ropes: [], hasSandwichNorms: false, trainedContext: 64,
};
const builder = new GraphBuilder(shape);
builder.unit('ffn.act', { op: 'quick_gelu' }, { inputs: ['ffn.up'], width: shape.feedForward });
const graph = builder.build();
const pool = new BufferPool(device);
const memory = allocateMemory(pool, shape, { context: 64, slots: 1, stepTokens: 16, pages: 2 });
const [family] = matmulFamilies(gpu.caps);
if (!family) throw new Error('no family of kernels');
const plan = await makePlan({
  gpu, graph, memory, family, pool, tuning: new Tuning(), weights: { stacks: new Map(), vectors: new Map() },
  pipelines: new PipelineCache(device, await platform.wgsl()), fusedOps: graph.units.map((unit) => ({ unit })),
});
const tokens = 3;
const x = Float32Array.from({ length: tokens * shape.feedForward }, (_, i) => (i - 144) / 20);
const step = new StepInput(memory.layout, memory);
step.clear();
step.prefillTokens([1, 2, 3], 0, tokens, 0);
device.queue.writeBuffer(memory.step, 0, step.bytes());
device.queue.writeBuffer(memory.buffers.activated, 0, x);
const readback = pool.readback('activated', x.byteLength);
const encoder = device.createCommandEncoder();
const pass = encoder.beginComputePass();
encodePlan(pass, plan, step.dims);
pass.end();
encoder.copyBufferToBuffer(memory.buffers.activated, 0, readback, 0, x.byteLength);
device.queue.submit([encoder.finish()]);
await readback.mapAsync(GPUMapMode.READ);
const got = new Float32Array(readback.getMappedRange(0, x.byteLength).slice(0));
const expected = quickGelu(x);
const [unit] = graph.units as [Unit];
console.log(JSON.stringify({
  farthest: Math.max(...expected.map((value, i) => Math.abs(value - (got[i] ?? Number.NaN)))),
  changed: got.filter((value, i) => value !== x[i]).length,
  cost: estimateUnitCost(unit, graph, new Map(), { tokens, position: 0, samples: 1 }),
}));
process.exit(0);
`;

const folder = mkdtempSync(join(tmpdir(), 'lathe-op-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(() => {
  for (const part of ['kernels', 'wgsl', 'src', 'package.json', 'tsconfig.json'])
    cpSync(join(repository, part), join(folder, part), { recursive: true });
  symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'));
  const page = readFileSync(join(repository, 'docs/add-a-kernel.md'), 'utf8').replaceAll(/^ {3}/gm, '');
  for (const [, path = '', text = ''] of page.matchAll(/^`([\w./-]+)`:\n\n```\w+\n(.*?)^```/gms))
    writeFileSync(join(folder, path), text);
  const [, line = '', entry = ''] =
    /^```ts\n(import [^\n]*\n)```\n\n```ts\n( {2}[^\n]*\n)```/m.exec(page) ?? [];
  const before = readFileSync(join(folder, registry), 'utf8');
  writeFileSync(
    join(folder, registry),
    `${line}${before.replace('export const ops = {\n', (start) => start + entry)}`,
  );
  writeFileSync(join(folder, 'try.ts'), script);
});

it('gives an op that runs and equals its oracle', async () => {
  const { stdout } = await run(process.execPath, ['try.ts'], { cwd: folder });
  const { farthest, changed, cost } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as {
    farthest: number;
    changed: number;
    cost: { flops: number; activationBytes: number };
  };
  expect(farthest).toBeLessThan(1e-5);
  expect(changed).toBeGreaterThan(280);
  expect(cost).toMatchObject({ flops: 6 * 3 * 96, activationBytes: 2 * 3 * 96 * 4 });
});

/** The bundle for machines with a GPU (bench/gpu/bundle.sh) has no compiler. */
const hasCompiler = existsSync(join(repository, 'node_modules/.bin/tsc'));

it.runIf(hasCompiler)('passes the type check', async () => {
  writeFileSync(
    join(folder, 'tsconfig.op.json'),
    JSON.stringify({ extends: './tsconfig.json', include: [], files: ['try.ts'] }),
  );
  const { stdout } = await run('node_modules/.bin/tsc', ['--noEmit', '-p', 'tsconfig.op.json'], {
    cwd: folder,
  }).catch((error: unknown) => error as { stdout: string });
  expect(stdout).toBe('');
});
