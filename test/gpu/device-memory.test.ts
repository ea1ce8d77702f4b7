/** Models on devices that do not report their memory size and have too little. */
import { describe, expect, it } from 'vitest';
import { EngineError, greedySampling, loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import type { EngineOptions, LoadProgress } from '../../src/engine/types.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { withDeviceMemory } from '../support/limited-device.ts';
import { memoryPlatform, tinyModel } from '../support/tiny-model.ts';

const shape = { architecture: 'llama', width: 256, feedForward: 512, vocab: 2048, context: 8192 } as const;
const bytes = tinyModel({ ...shape, type: 'F16' });
const platform = memoryPlatform(bytes);
const load = (maxBytes: number, options: Omit<EngineOptions, 'model'>): Promise<ResidentEngine> =>
  loadEngine(withDeviceMemory(platform, maxBytes), { model: 'memory.gguf', ...options });

/** Bytes of everything, and of the weights. */
async function sizesOf(options: Omit<EngineOptions, 'model'>) {
  const engine = await load(2 ** 40, options);
  const { memory, weightBytes } = engine.runner;
  const sizes = { all: memory.pool.bytes + weightBytes, weights: weightBytes };
  await engine.close();
  return sizes;
}

async function refusalOf(maxBytes: number, options: Omit<EngineOptions, 'model'>): Promise<string> {
  try {
    await (await load(maxBytes, options)).close();
  } catch (error) {
    if (error instanceof EngineError && error.code === 'model_too_large') return error.message;
    throw error;
  }
  throw new Error('it was not refused');
}

const mebibytes = (text: string | undefined): number => Number(text) * 2 ** 20;

describe('a full device', () => {
  const options = { context: 256, parallel: 1 };

  it('gives an error with the missing bytes and a quantization that fits, which then loads', async () => {
    const { all, weights } = await sizesOf(options);
    const room = all - weights / 3;
    const message = await refusalOf(room, options);
    expect(message).toMatch(
      /^memory\.gguf needs .* the device offers .* are missing; in Q8_0 .*--quantize q8_0/,
    );
    const [, offers, missing] = /offers ([\d.]+) MiB: ([\d.]+) MiB are missing/.exec(message) ?? [];
    // The device grants whole buffers: never more than it has, and not much less.
    expect(mebibytes(offers)).toBeLessThanOrEqual(room);
    expect(mebibytes(offers)).toBeGreaterThan(room * 0.7);
    expect(mebibytes(missing)).toBeGreaterThanOrEqual((weights / 3) * 0.99);
    await (await load(room, { ...options, quantize: 'Q8_0' })).close();
  });

  it('grants a default context as much memory as there is, and keeps or rejects an explicit one', async () => {
    const notices: string[] = [];
    const parallel = 1;
    const { all: small } = await sizesOf({ context: 1024, parallel });
    const room = small * 1.2;
    const engine = await load(room, { parallel, onNotice: (notice) => notices.push(notice) });
    const { capacity, pool } = engine.runner.memory;
    expect(capacity.context).toBeLessThan(shape.context);
    expect(capacity.context).toBeGreaterThanOrEqual(512);
    expect(pool.bytes + engine.runner.weightBytes).toBeLessThanOrEqual(room);
    expect(engine.model.contextLength).toBe(capacity.context);
    expect(notices.join()).toMatch(/the device has .* for the model, which allows a context of \d+ tokens/);
    const prompt = Array.from({ length: capacity.context - 4 }, (_, n) => n & 255);
    const ids: number[] = [];
    const request = { prompt, maxTokens: 4, sampling: greedySampling, stop: [], ignoreEnd: true };
    for await (const event of engine.generate(request)) if (event.type === 'text') ids.push(...event.ids);
    expect(ids).toHaveLength(4);
    await engine.close();
    const message = await refusalOf(room, { parallel, context: shape.context });
    const shorter = Number(/or use --context (\d+)$/.exec(message)?.[1]);
    await (await load(room, { parallel, context: shorter })).close();
  });
});

describe('load progress', () => {
  it('of the weights ends exactly at their total', async () => {
    const seen: LoadProgress[] = [];
    const engine = await load(2 ** 40, {
      context: 256,
      onProgress: (progress) => progress.stage === 'weights' && seen.push({ ...progress }),
    });
    await engine.close();
    const { done, total } = seen.at(-1) ?? {};
    expect(done).toBe(total);
    const { tensors } = await openSource(memorySource(bytes));
    const matrices = [...tensors.values()].filter(({ shape: { length } }) => length === 2);
    expect(total).toBe(matrices.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
    // Nothing is cut off at the total: each report is one matrix.
    const steps = seen.map((one, index) => one.done - (seen[index - 1]?.done ?? 0));
    const ascending = (a: number, b: number) => a - b;
    expect(steps.sort(ascending)).toEqual(matrices.map(({ sizeBytes }) => sizeBytes).sort(ascending));
  });
});
