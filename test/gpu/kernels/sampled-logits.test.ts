import { beforeAll, describe, expect, it } from 'vitest';
import { filteredDistribution, type SamplingRule } from '../../../kernels/reference/index.ts';
import { sampledLogits, sampleFlags } from '../../../kernels/sample.ts';
import {
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  permutation,
  poisoned,
  random,
  variantName,
} from '../../support/kernel-harness.ts';
import { noRule, type SampleRecord, sampleRecords } from './sample-records.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const nothing = { prompt: [], answer: [] };
/** Lower than any logit: for tokens that are cut off. */
const maskedLogit = -3.4028234663852886e38;
type Variant = (typeof sampledLogits.variants)[number];

const rules: Record<string, Partial<SamplingRule>> = {
  plain: {},
  hot: { temperature: 1.9 },
  'top_k 1': { topK: 1 },
  'top_k 40': { topK: 40 },
  'top_p 0.9': { topP: 0.9 },
  'top_p 0.3': { topP: 0.3 },
  'min_p 0.05': { minP: 0.05 },
  'all at once': { temperature: 0.8, topK: 25, topP: 0.95, minP: 0.02 },
};

/** Logits like a model's, all distinct. */
function distinctLogits(count: number, next: () => number): Float32Array<ArrayBuffer> {
  const order = permutation(count, next);
  const logits = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    logits[order[i] as number] = 9 - 3 * Math.log1p(i) - i / count - 0.3 * next() * (i === 0 ? 1 : 1 / i);
  }
  return logits;
}

const keptOf = (logits: Float32Array, rule: SamplingRule) =>
  [...filteredDistribution(logits, rule, nothing)].flatMap((weight, id) => (weight > 0 ? [id] : []));

/** Rounding cannot move a cut. */
const isClear = (logits: Float32Array, rule: SamplingRule): boolean => {
  const near = [1 - 1e-4, 1 + 1e-4].map((by) =>
    keptOf(logits, { ...rule, topP: rule.topP < 1 ? rule.topP * by : 1, minP: rule.minP * by }),
  );
  return near.every((kept) => kept.join() === keptOf(logits, rule).join());
};

async function run(
  variant: Variant,
  rows: readonly Float32Array[],
  records: readonly SampleRecord[],
  sampledIds: number[],
) {
  const vocabulary = rows[0]?.length ?? 0;
  const before = poisoned((rows.length + 1) * vocabulary);
  const out = await harness.run(
    sampledLogits,
    variant,
    {
      params: { vocabulary, rules: 2, levels: 4 },
      dims: { samples: rows.length, needsLogprobs: true },
      buffers: {
        samples: sampleRecords(records),
        logits: Float32Array.from(rows.flatMap((row) => [...row])),
        results: Uint32Array.from(sampledIds),
        raw: before,
      },
    },
    ['raw'],
  );
  const after = out['raw'] as ArrayBuffer;
  const wanted = records.map(({ flags = 0 }) => (flags & sampleFlags.afterSampling) !== 0);
  expectUntouched(after, before, (word) => wanted[Math.floor(word / vocabulary)] === true, 'logits');
  return rows.map((_, row) => new Float32Array(after, row * vocabulary * 4, vocabulary));
}

for (const variant of sampledLogits.variants) {
  describe(`sampled_logits ${variantName(variant)} equals the oracle`, () => {
    it.each([9, 63, 2048, 20011])('vocabulary of %i', async (vocabulary) => {
      const next = random(vocabulary);
      let judged = 0;
      for (const [name, change] of Object.entries(rules)) {
        const rule = { ...noRule, temperature: 1, ...change };
        const rows = Array.from({ length: 3 }, () => distinctLogits(vocabulary, next));
        const flags = sampleFlags.afterSampling;
        // The last one does not request any.
        const records = rows.map((_, slot) => ({ slot, rule, ...(slot < 2 ? { flags } : {}) }));
        const found = await run(variant, rows, records, [0, 0, 0]);
        for (const [r, row] of rows.slice(0, 2).entries()) {
          if (!isClear(row, rule)) continue;
          judged++;
          const expected = filteredDistribution(row, rule, nothing);
          const top = expected.reduce((a, b) => Math.max(a, b));
          const wrong = [...expected].flatMap((weight, id) => {
            const got = found[r]?.[id] ?? Number.NaN;
            const isRight =
              weight === 0 ? got === Math.fround(maskedLogit) : Math.abs(got - Math.log(weight / top)) < 2e-5;
            return isRight ? [] : [{ id, got, weight }];
          });
          expect(wrong, name).toEqual([]);
        }
      }
      expect(judged).toBeGreaterThan(Object.keys(rules).length);
    });

    it('at temperature 0 only the sampled token is kept', async () => {
      const row = distinctLogits(300, random(2));
      const flags = sampleFlags.afterSampling;
      const [found] = await run(variant, [row], [{ slot: 0, flags, rule: noRule }], [17]);
      expect(found?.[17]).toBe(0);
      expect(found?.filter((logit) => logit === Math.fround(maskedLogit)).length).toBe(299);
    });

    it('a forbidden token has no weight', async () => {
      const row = Float32Array.of(2, maskedLogit, 1, maskedLogit);
      const rule = { ...noRule, temperature: 0.5 };
      const [found] = await run(variant, [row], [{ slot: 0, flags: sampleFlags.afterSampling, rule }], [0]);
      expect([...(found ?? [])].map((logit) => Math.exp(logit))).toEqual([1, 0, Math.exp(-2), 0]);
    });
  });
}
