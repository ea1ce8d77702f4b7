/** A model whose per-layer inputs stay in the file: what is on the device, and which rows are read. */
import { describe, expect, it } from 'vitest';
import {
  type GenerateRequest,
  greedySampling,
  loadEngine,
  type Platform,
  type ResidentEngine,
} from '../../src/engine/index.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { stacksOf, weightBytes } from '../../src/engine/loading/weights.ts';
import { ToyConstraint } from '../support/toy-constraint.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { memoryPlatform } from '../support/tiny-model.ts';

const vocab = 4000;
const layers = 6;
const bytes = tinyGemma4({ type: 'Q8_0', vocab, layers, layerInput: 128 });
const table = 'per_layer_token_embd.weight';

/** The tiny model on a platform that records reads and can refuse them. */
async function world() {
  const file = await openSource(memorySource(bytes));
  const info = file.tensors.get(table);
  if (!info) throw new Error('no table');
  const rowBytes = info.sizeBytes / vocab;
  const state = { broken: false, rows: [] as number[] };
  const plain = memoryPlatform(bytes);
  const platform: Platform = {
    ...plain,
    async modelFiles(name): ReturnType<Platform['modelFiles']> {
      const files = await plain.modelFiles(name);
      return {
        ...files,
        async open(entry: string) {
          const source = await files.open(entry);
          if (!source) return undefined;
          return new Proxy(source, {
            get(target, key) {
              const value: unknown = Reflect.get(target, key, target);
              if (key !== 'read') return typeof value === 'function' ? value.bind(target) : value;
              return async (offset: number, ...rest: unknown[]) => {
                const row = (offset - info.offset) / rowBytes;
                if (row >= 0 && row < vocab) {
                  if (state.broken) throw new Error('the disk is gone');
                  state.rows.push(row);
                }
                return await (value as (...all: unknown[]) => unknown).call(target, offset, ...rest);
              };
            },
          });
        },
      };
    },
  };
  const engine = await loadEngine(platform, { model: 'memory.gguf', context: 256, parallel: 3 });
  return { engine, state, file, info };
}

const usual: GenerateRequest = {
  prompt: [5, 9, 3000, 9, 77],
  maxTokens: 12,
  sampling: greedySampling,
  stop: [],
  ignoreEnd: true,
};

async function answer(engine: ResidentEngine, request: Partial<GenerateRequest>): Promise<number[]> {
  const ids: number[] = [];
  for await (const event of engine.generate({ ...usual, ...request })) {
    if (event.type === 'text') ids.push(...event.ids);
  }
  return ids;
}

describe('per-layer inputs that stay in the file', () => {
  it('are not among the weights, and only take the rows of a step on the device', async () => {
    const { engine, file, info } = await world();
    const graph = await buildGraph(file);
    expect(stacksOf(graph).flat()).not.toContain(table);
    // The table is larger than everything else together.
    expect(info.sizeBytes).toBeGreaterThan(weightBytes(file, graph));
    expect(engine.runner.weightBytes - weightBytes(file, graph)).toBeLessThan(info.sizeBytes / 20);
    expect(graph.shape.streamedBytes).toBe(info.sizeBytes / vocab);
    await engine.close();
  });

  it('are read only for the tokens of a text, and once', async () => {
    const { engine, state } = await world();
    state.rows.length = 0;
    const ids = await answer(engine, {});
    const texts = new Set([...usual.prompt, ...ids.slice(0, -1)]);
    // Those of the warm-up are cached already.
    expect(new Set([...state.rows, 0])).toEqual(new Set([...texts, 0]));
    expect(new Set(state.rows).size).toBe(state.rows.length);
    await engine.close();
  });

  it('several sequences, constrained ones among them, get the same output as alone', async () => {
    const { engine } = await world();
    const requests = [1, 2, 3, 4, 5].map((seed) => ({
      prompt: Array.from({ length: 9 * seed }, (_, i) => (i * 131 + seed * 17) % vocab),
      maxTokens: 10 + seed,
    }));
    const allowed = new Uint32Array(vocab / 32);
    for (const id of [40, 41, 42, 43, 3999])
      allowed[id >> 5] = (allowed[id >> 5] as number) | (1 << (id & 31));
    const withConstraint = (n: number) =>
      n % 2 === 0 ? { constraint: new ToyConstraint(() => allowed, n) } : {};
    const alone: number[][] = [];
    for (const [n, one] of requests.entries()) {
      engine.forgetPrefixes();
      alone.push(await answer(engine, { ...one, ...withConstraint(n) }));
    }
    engine.forgetPrefixes();
    const together = await Promise.all(
      requests.map((one, n) => answer(engine, { ...one, ...withConstraint(n) })),
    );
    expect(together).toEqual(alone);
    expect(alone[0]?.every((id) => [40, 41, 42, 43, 3999].includes(id))).toBe(true);
    await engine.close();
  });

  it('an unreadable file ends a request with the cause; when it is readable again, requests succeed', async () => {
    const { engine, state } = await world();
    const before = await answer(engine, {});
    state.broken = true;
    // Cached rows need no file.
    expect(await answer(engine, {})).toEqual(before);
    const request = { prompt: [1, 2, 3, 1234] };
    await expect(answer(engine, request)).rejects.toMatchObject({
      code: 'model_unreadable',
      message: expect.stringMatching(/rows of 'per_layer_token_embd.weight'.*the disk is gone/) as string,
    });
    state.broken = false;
    const after = await answer(engine, request);
    engine.forgetPrefixes();
    expect(await answer(engine, request)).toEqual(after);
    expect(await answer(engine, {})).toEqual(before);
    await engine.close();
  });
});
