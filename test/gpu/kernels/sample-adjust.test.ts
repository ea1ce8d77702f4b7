import { beforeAll, describe, expect, it } from 'vitest';
import { penalizedLogits, type SamplingRule } from '../../../kernels/reference/index.ts';
import { maskWords, sampleAdjust, sampleFlags } from '../../../kernels/sample.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import { allFlags, noRule, type SampleRecord, sampleRecords } from './sample-records.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

interface Row extends SampleRecord {
  flags: number;
  prompt?: readonly number[];
  answer?: readonly number[];
  /** Whether a token may be sampled. */
  allows?: (id: number) => boolean;
}

async function run(vocabulary: number, rows: readonly Row[], adjust = true) {
  const next = random(vocabulary);
  const slots = Math.max(...rows.map((row) => row.slot)) + 1;
  // Contents of other slots' areas must not matter.
  const bias = new Float32Array(slots * vocabulary).fill(1000);
  const seen = new Uint32Array(slots * vocabulary).fill(0xffffffff);
  const masks = new Uint32Array(slots * maskWords(vocabulary));
  for (const { slot, rule, flags, prompt = [], answer = [], allows } of rows) {
    for (let id = 0; allows && id < vocabulary; id++) {
      const at = slot * maskWords(vocabulary) + (id >> 5);
      if (allows(id)) masks[at] = (masks[at] as number) | (1 << (id & 31));
    }
    if (flags & sampleFlags.bias) bias.fill(0, slot * vocabulary, (slot + 1) * vocabulary);
    for (const [id, amount] of rule.logitBias) bias[slot * vocabulary + id] = amount;
    if (flags & sampleFlags.penalties) seen.fill(0, slot * vocabulary, (slot + 1) * vocabulary);
    for (const id of prompt) seen[slot * vocabulary + id] = 0x80000000;
    for (const id of answer) (seen[slot * vocabulary + id] as number) += 1;
  }
  const logits = randomValues((rows.length + 1) * vocabulary, next, 5);
  const out = await harness.run(
    sampleAdjust,
    { WG: 64 },
    {
      params: { vocabulary },
      dims: { samples: rows.length, needsLogitAdjustment: adjust },
      buffers: { samples: sampleRecords(rows), bias, seen, logits, masks },
    },
    ['logits'],
  );
  return { logits, after: out['logits'] as ArrayBuffer };
}

const rules: Record<string, Partial<SamplingRule>> = {
  repetition: { repetitionPenalty: 1.3 },
  'repetition below 1': { repetitionPenalty: 0.8 },
  presence: { presencePenalty: 0.7 },
  frequency: { frequencyPenalty: -0.4 },
  'all of them with a bias': {
    repetitionPenalty: 1.1,
    presencePenalty: -0.5,
    frequencyPenalty: 0.25,
    logitBias: new Map([
      [0, 100],
      [1, -100],
      [7, 2.5],
    ]),
  },
};

describe('sample_adjust equals the oracle', () => {
  for (const variant of sampleAdjust.variants) {
    it.each([1, 63, 2048, 50257])(`${variantName(variant)}: vocabulary of %i`, async (vocabulary) => {
      const ids = (count: number, step: number) =>
        Array.from({ length: count }, (_, i) => (i * step) % vocabulary);
      const rows = Object.values(rules).map(
        (rule, index): Row => ({
          slot: (index * 3 + 1) % 5,
          flags: allFlags,
          rule: {
            ...noRule,
            ...rule,
            logitBias: new Map([...(rule.logitBias ?? [])].filter(([id]) => id < vocabulary)),
          },
          prompt: ids(9, 5),
          // Some are in the prompt too, some occur several times.
          answer: [...ids(12, 7), ...ids(4, 14), 0, 0],
        }),
      );
      const { logits, after } = await run(vocabulary, rows);
      const got = new Float32Array(after);
      rows.forEach(({ rule, prompt = [], answer = [] }, s) => {
        const at = s * vocabulary;
        const expected = penalizedLogits(logits.slice(at, at + vocabulary), rule, { prompt, answer });
        expectClose(
          got.subarray(at, at + vocabulary),
          expected,
          { nmse: 1e-12, maxAbs: 2e-5 },
          Object.keys(rules)[s] as string,
        );
      });
      expectUntouched(
        after,
        logits,
        (word) => word < rows.length * vocabulary,
        'the row past the last sample',
      );
    });
  }

  it('reads neither bias nor token counts of a request without them', async () => {
    const rule = { ...noRule, repetitionPenalty: 2, presencePenalty: 1, frequencyPenalty: 1 };
    const plain: Row = { slot: 0, flags: 0, rule };
    const biased: Row = { slot: 1, flags: sampleFlags.bias, rule: { ...rule, logitBias: new Map([[3, 4]]) } };
    const { logits, after } = await run(40, [plain, biased]);
    expectUntouched(after, logits, (word) => word === 43, 'without penalties');
    expect(new Float32Array(after)[43]).toBeCloseTo((logits[43] as number) + 4, 5);
  });

  it.each([1, 31, 32, 63, 2048, 50257])(
    'masks tokens that its slot does not allow, and leaves the rest unchanged: vocabulary of %i',
    async (vocabulary) => {
      const { mask, bias } = sampleFlags;
      const rule = { ...noRule, logitBias: new Map([[0, 5]]) };
      const rows: Row[] = [
        { slot: 3, flags: mask, rule: noRule, allows: (id) => id % 3 === 0 },
        // A mask in its slot that it does not request.
        { slot: 0, flags: 0, rule: noRule, allows: () => false },
        { slot: 1, flags: mask | bias, rule, allows: (id) => id < 2 || id === vocabulary - 1 },
        { slot: 2, flags: mask, rule: noRule, allows: () => true },
      ];
      const { logits, after } = await run(vocabulary, rows);
      const got = new Float32Array(after);
      for (const [s, { flags, allows = () => true }] of rows.entries()) {
        for (let id = 0; id < vocabulary; id++) {
          const at = s * vocabulary + id;
          const added = flags & bias && id === 0 ? 5 : 0;
          const expected =
            flags & mask && !allows(id) ? -3.4028234663852886e38 : (logits[at] as number) + added;
          if (got[at] !== Math.fround(expected)) expect(got[at], `row ${s}, token ${id}`).toBe(expected);
        }
      }
    },
  );

  it('does nothing in a step that does not need it', async () => {
    const { logits, after } = await run(
      40,
      [{ slot: 0, flags: allFlags, rule: { ...noRule, presencePenalty: 1 } }],
      false,
    );
    expectUntouched(after, logits, () => false, 'logits');
  });
});
