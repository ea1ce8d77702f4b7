/** Models in every weight type and in mixtures: logits compared with the CPU oracle, bytes with the file. */
import { beforeAll, describe, expect, it } from 'vitest';
import { type ModelFile, type TensorType, tensorTypes } from '../../src/engine/formats/model-file.ts';
import { openGpu } from '../../src/engine/gpu/device.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { Runner } from '../../src/engine/execution/runner.ts';
import type { Store } from '../../src/engine/platform.ts';
import { platforms } from '../support/architectures.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { expectClose } from '../support/kernel-harness.ts';
import { inEachPrecision, oracleTolerance, roundsToF16 } from '../support/precision.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { retyped } from '../support/retyped.ts';
import { RunnerSequence } from '../support/runner-sequence.ts';
import { everyNth, runsRest } from '../support/tier.ts';
import { tinyModel } from '../support/tiny-model.ts';

let base: ModelFile;
beforeAll(async () => {
  // Rows of K types are whole blocks of 256.
  const shape = { layers: 1, width: 256, feedForward: 512, biases: true, untied: true } as const;
  base = await openSource(memorySource(tinyModel({ architecture: 'qwen2', ...shape })));
});

const prompt = [0, 287, 31, 32, 128, 255, 64, 100, 99, 3];
interface Options {
  readonly store?: Store;
  readonly on?: keyof typeof platforms;
}

/** A prompt, then two tokens one by one: multi-token and single-token kernels. */
const expectOracle = (file: ModelFile, what: string, options: Options = {}): Promise<void> =>
  inEachPrecision(({ exact }) => expectOracleOf(file, what, { ...options, exact }));

/** @returns whether products round to f16 */
async function expectOracleOf(
  file: ModelFile,
  what: string,
  { store, on = 'software', exact }: Options & { readonly exact: boolean },
): Promise<boolean> {
  const platform = platforms[on];
  const runner = await Runner.load({
    gpu: await openGpu(await platform.requestAdapter({}), platform.backend),
    file,
    graph: await buildGraph(file),
    capacity: { context: 64, slots: 1, stepTokens: 16, pages: 2 },
    wgsl: await platform.wgsl(),
    store,
    exact,
    onProgress() {},
  });
  try {
    // The device holds the file's encoding, not a wider one.
    const bytes = [...file.tensors.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    expect(runner.weightBytes, `${what}: bytes on the device`).toBeGreaterThan(bytes * 0.9);
    expect(runner.weightBytes, `${what}: bytes on the device`).toBeLessThan(bytes * 1.1);
    const tolerance = oracleTolerance(runner);
    const oracle = await ReferenceModel.load(file, 'F16');
    const sequence = new RunnerSequence(runner, 0, [1, 0]);
    expectClose(await sequence.prefill(prompt), oracle.forward(prompt).at(-1) ?? [], tolerance, what);
    for (const id of [77, 200])
      expectClose(await sequence.decode(id), oracle.step(id), tolerance, `${what}, one token`);
    return roundsToF16(runner);
  } finally {
    runner.destroy();
  }
}

describe('logits equal the oracle', () => {
  it.each(everyNth(Object.keys(tensorTypes) as TensorType[], 5))('of a model in %s', async (type) =>
    expectOracle(
      retyped(base, () => type),
      type,
    ),
  );

  const mixtures: Readonly<Record<string, Readonly<Record<string, TensorType>>>> = {
    // As llama.cpp mixes them when rows are whole blocks of 256, and when they are not.
    Q4_K_M: { token_embd: 'Q6_K', attn_v: 'Q6_K', ffn_down: 'Q6_K', output: 'Q6_K', '*': 'Q4_K' },
    'Q4_K_M of narrow rows': { attn_v: 'Q8_0', ffn_down: 'Q6_K', output: 'Q8_0', '*': 'Q5_0' },
    // As llama.cpp mixes IQ4_XS, and as expert models combine MXFP4 with another type.
    'IQ4_XS, IQ4_NL and MXFP4': {
      attn_q: 'IQ4_NL',
      attn_v: 'Q5_K',
      ffn_gate: 'MXFP4',
      ffn_up: 'MXFP4',
      output: 'Q6_K',
      '*': 'IQ4_XS',
    },
    'q, k, v, gate and up of five types': {
      attn_q: 'Q5_K',
      attn_k: 'MLC_Q3F16',
      attn_v: 'Q2_K',
      ffn_gate: 'Q4_1',
      ffn_up: 'Q3_K',
      '*': 'Q8_0',
    },
  };
  it.each(Object.keys(mixtures))('of a model in %s', async (name) => {
    const types = mixtures[name] ?? {};
    await expectOracle(
      retyped(base, (part) => types[part] ?? types['*']),
      name,
    );
  });

  // In `npm test`, `mlc.test.ts` runs a quantized model on them: those of a mixture take half a minute to compile.
  it.runIf(runsRest).each(Object.keys(mixtures))(
    'of a model in %s, on the kernels for GPUs',
    async (name) => {
      const types = mixtures[name] ?? {};
      await expectOracle(
        retyped(base, (part) => types[part] ?? types['*']),
        name,
        { on: 'hardware' },
      );
    },
  );

  it.runIf(runsRest)('of a mixture whose kernels were selected by measuring each of its types', async () => {
    let text = '';
    const store: Store = {
      read: async () => text || undefined,
      write: async (_name, written) => void (text = written),
    };
    const { Q4_K_M: types } = mixtures;
    const file = retyped(base, (part) => types?.[part] ?? types?.['*']);
    // A load measures until a limit of time, and the next one goes on.
    let before: string;
    do {
      before = text;
      await expectOracleOf(file, 'measured', { store, exact: true });
    } while (text !== before);
    const measured = Object.entries(JSON.parse(text) as Record<string, Record<string, number>>);
    for (const format of ['q4_k', 'q6_k']) {
      const own = measured.filter(([product]) => product.startsWith(format));
      expect(own.length, format).toBeGreaterThan(2);
      // Kernels that are wrong or do not compile are recorded as slower than anything.
      for (const [product, options] of own)
        for (const ms of Object.values(options)) expect(ms, product).toBeLessThan(1e6);
    }
  });
});
