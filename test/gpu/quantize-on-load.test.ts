/** `--quantize q4_k` on a whole model: quantizing while loading equals quantizing before. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Runner } from '../../src/engine/execution/runner.ts';
import { boundsOf } from '../support/against-transformers.ts';
import { loadRunner } from '../support/architectures.ts';
import { memoryFiles, memorySource, openSource } from '../support/byte-source.ts';
import type { GgufType } from '../support/gguf-writer.ts';
import { expectClose, nmse } from '../support/kernel-harness.ts';
import { logitsAt, takePages } from '../support/logits-at.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { type TinyModel, tinyModel } from '../support/tiny-model.ts';

/** Rows of whole blocks of 256, and in `ffn_down` some that are not. */
const shapes: Readonly<Record<string, TinyModel>> = {
  'with an output matrix': { architecture: 'llama', width: 256, feedForward: 512, untied: true },
  tied: { architecture: 'llama', width: 256, feedForward: 512 },
  'with narrow rows': { architecture: 'llama', width: 256, feedForward: 288 },
};

/** The model's matrices quantized as by `--quantize q4_k`. */
const typesOf = ({ untied, feedForward }: TinyModel): Readonly<Record<string, GgufType>> => {
  const inner = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up'];
  return {
    ...Object.fromEntries(inner.map((part) => [part, 'Q4_K'])),
    ffn_down: feedForward === 512 ? 'Q4_K' : 'Q8_0',
    token_embd: untied ? 'Q4_K' : 'Q8_0',
    output: 'Q8_0',
  };
};

const ids = [0, 287, 31, 32, 128, 255, 64, 100, 99, 3, 3, 201];
const positions = ids.map((_, position) => position);

describe.each(Object.keys(shapes))('a model %s, quantized to Q4_K while it is loaded', (name) => {
  const shape = shapes[name] as TinyModel;
  const plain = tinyModel(shape);
  const beforehand = tinyModel({ ...shape, type: typesOf(shape) });
  const runners: Runner[] = [];
  const logitsOf = async (bytes: Uint8Array, quantize?: 'Q4_K') => {
    const files = memoryFiles({ 'm.gguf': bytes }, 'm.gguf');
    const options = { context: 64, parallel: 1, ...(quantize ? { quantize } : {}) };
    const runner = await loadRunner(files, options);
    runners.push(runner);
    takePages(runner, 0);
    return await logitsAt(runner, ids, positions);
  };
  let onLoad: Float32Array[];
  beforeAll(async () => void (onLoad = await logitsOf(plain, 'Q4_K')));
  afterAll(() => runners.forEach((runner) => runner.destroy()));

  it('gives exactly the logits of a file quantized before', async () => {
    expect(await logitsOf(beforehand)).toEqual(onLoad);
  });

  it('gives the logits of the CPU oracle', async () => {
    const oracle = await ReferenceModel.load(await openSource(memorySource(beforehand)), 'F16');
    // Sums are in 16 bits where the adapter supports it.
    const tolerance = { nmse: 5e-5, maxAbs: boundsOf(runners[0] as Runner).logits.exact };
    for (const [position, expected] of oracle.forward(ids).entries())
      expectClose(onLoad[position] ?? [], expected, tolerance, `position ${position}`);
  });

  it('is close to the model in full precision, but not equal', async () => {
    const oracle = await ReferenceModel.load(await openSource(memorySource(plain)), 'F16');
    const errors = oracle.forward(ids).map((expected, position) => nmse(onLoad[position] ?? [], expected));
    // Unrelated logits would give 2; random weights in 4 bits are far off.
    expect(Math.max(...errors)).toBeLessThan(0.4);
    expect(Math.min(...errors)).toBeGreaterThan(1e-4);
  });
});
