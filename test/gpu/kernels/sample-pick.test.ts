import { beforeAll, describe, expect, it } from 'vitest';
import {
  filteredDistribution,
  gumbel,
  sampleToken,
  type SamplingRule,
  softmax,
} from '../../../kernels/reference/index.ts';
import { noToken, samplePick, sampleFlags } from '../../../kernels/sample.ts';
import {
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  permutation,
  poison,
  random,
  variantName,
} from '../../support/kernel-harness.ts';
import { noRule, type SampleRecord, sampleRecords } from './sample-records.ts';
import { rounds, selectCases } from '../../support/tier.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const nothing = { prompt: [], answer: [] };
type Variant = (typeof samplePick.variants)[number];

/** One token for every record; row r of the logits is for record r. */
async function pick(variant: Variant, logits: Float32Array<ArrayBuffer>, records: readonly SampleRecord[]) {
  const vocabulary = logits.length / records.length;
  const slots = Math.max(...records.map((record) => record.slot)) + 1;
  const seen = new Uint32Array(slots * vocabulary).fill(0x80000001);
  const sampled = new Uint32Array(slots).fill(poison);
  const results = new Uint32Array(records.length + 4).fill(poison);
  const out = await harness.run(
    samplePick,
    variant,
    {
      params: { vocabulary, rules: 2, levels: 4 },
      dims: { samples: records.length },
      buffers: { samples: sampleRecords(records), logits, seen, sampled, results },
    },
    ['seen', 'sampled', 'results'],
  );
  expectUntouched(out['results'] as ArrayBuffer, results, (word) => word < records.length, 'results');
  const tokens = [...new Uint32Array(out['results'] as ArrayBuffer, 0, records.length)];
  // The token of each slot is available to the next step; other slots keep theirs.
  const kept = sampled.slice();
  records.forEach((record, r) => (kept[record.slot] = tokens[r] as number));
  expect(new Uint32Array(out['sampled'] as ArrayBuffer, 0, slots)).toEqual(kept);
  return { tokens, seen, seenAfter: out['seen'] as ArrayBuffer };
}

/** Logits like a model's: a few likely tokens and a long tail, all distinct. */
function distinctLogits(count: number, next: () => number): Float32Array<ArrayBuffer> {
  const order = permutation(count, next);
  const logits = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    logits[order[i] as number] = 9 - 3 * Math.log1p(i) - i / count - 0.3 * next() * (i === 0 ? 1 : 1 / i);
  }
  return logits;
}

/** Margin of the oracle's decision; results may only differ where it is tiny. */
function margin(logits: Float32Array, rule: SamplingRule, draw: { seed: number; position: number }): number {
  const scaled = Float64Array.from(logits, (logit) => logit / rule.temperature);
  const order = Array.from(scaled.keys()).sort((a, b) => (scaled[b] as number) - (scaled[a] as number));
  const margins: number[] = [];
  const afterK = rule.topK > 0 ? order.slice(0, rule.topK) : order;
  if (rule.topP < 1) {
    // Probabilities are counted in units of 2^-30, each rounded, so the long tail may shift the cut.
    let mass = 0;
    for (const probability of softmax(Float64Array.from(afterK, (id) => scaled[id] as number))) {
      mass += probability;
      margins.push(Math.abs(mass - rule.topP) * 10);
    }
  }
  if (rule.minP > 0) {
    const threshold = (scaled[order[0] as number] as number) + Math.log(rule.minP);
    for (const value of order.slice(1).map((id) => scaled[id] as number))
      margins.push(Math.abs(value - threshold) * 10);
  }
  const noisy = [...filteredDistribution(logits, rule, nothing)]
    .flatMap((p, id) => (p > 0 ? [Math.log(p) + gumbel(draw.seed, draw.position, id)] : []))
    .sort((a, b) => b - a);
  margins.push((noisy[0] as number) - (noisy[1] ?? -Infinity));
  return Math.min(...margins);
}

/** Noise is a logarithm of a logarithm in f32; each may be off by 5e-5 under WGSL's rules. */
const certain = 2e-4;

const rules: Record<string, Partial<SamplingRule>> = {
  plain: {},
  hot: { temperature: 1.9 },
  cold: { temperature: 0.05 },
  'top_k 1 of many at a temperature': { topK: 1 },
  'top_k 40': { topK: 40 },
  'top_k beyond the vocabulary': { topK: 1 << 20 },
  'top_p 0.9': { topP: 0.9 },
  'top_p 0.3': { topP: 0.3 },
  'top_p 0': { topP: 0 },
  'min_p 0.05': { minP: 0.05 },
  'min_p 1': { minP: 1 },
  'all at once': { temperature: 0.8, topK: 25, topP: 0.95, minP: 0.02 },
  'hot and cut': { temperature: 1.5, topK: 100, topP: 0.8 },
};

for (const variant of samplePick.variants) {
  describe(`sample_pick ${variantName(variant)} equals the oracle`, () => {
    it.each([1, 63, 2048, 50257])('greedy: vocabulary of %i', async (vocabulary) => {
      const next = random(vocabulary);
      const rows = 5;
      const logits = Float32Array.from({ length: rows * vocabulary }, () => next() * 40 - 30);
      const records = Array.from({ length: rows }, (_, r) => ({ slot: (r * 2) % 7, rule: noRule }));
      const { tokens } = await pick(variant, logits, records);
      tokens.forEach((token, r) => {
        const row = logits.subarray(r * vocabulary, (r + 1) * vocabulary);
        expect(token).toBe(sampleToken(row, noRule, nothing, { seed: 0, position: 0 }));
      });
    });

    it.each(selectCases([63, 2048, 50257], (vocabulary) => vocabulary < 50257))(
      'the same token for distinct logits, seeds and positions: vocabulary of %i',
      async (vocabulary) => {
        const next = random(vocabulary + 1);
        const draws = vocabulary > 10000 ? 4 : 12;
        for (const [name, change] of Object.entries(rules)) {
          const rule = { ...noRule, temperature: 1, ...change };
          const rows = Array.from({ length: draws }, () => distinctLogits(vocabulary, next));
          const records = rows.map((_, slot) => ({
            slot,
            rule,
            seed: Math.floor(next() * 2 ** 32),
            position: Math.floor(next() * 4096),
          }));
          const { tokens } = await pick(variant, Float32Array.from(rows.flatMap((row) => [...row])), records);
          let sure = 0;
          for (const [r, record] of records.entries()) {
            const row = rows[r] as Float32Array;
            if (margin(row, rule, record) < certain) continue;
            sure += 1;
            expect(tokens[r], `${name}, draw ${r}`).toBe(sampleToken(row, rule, nothing, record));
          }
          // A rule that never decides anything would prove nothing.
          expect(sure, `${name}: draws that no rounding can turn`).toBeGreaterThan(draws / 2);
        }
      },
    );

    it("many samples have the filtered distribution, and each equals the oracle's", async () => {
      const logits = Float32Array.of(1.2, -0.3, 2, 0.4, -4, 1.9, 0, -1);
      const draws = rounds(4000, 1500);
      for (const [name, change] of Object.entries(rules)) {
        const rule = { ...noRule, temperature: 1, ...change };
        const expected = filteredDistribution(logits, rule, nothing);
        const all = new Float32Array(draws * logits.length);
        for (let r = 0; r < draws; r++) all.set(logits, r * logits.length);
        // Half over the positions of one seed, half over the seeds.
        const records = Array.from({ length: draws }, (_, r) =>
          r % 2 ? { slot: r, rule, seed: 11, position: r } : { slot: r, rule, seed: r, position: 11 },
        );
        const { tokens } = await pick(variant, all, records);
        const counts = new Float64Array(logits.length);
        for (const [r, token] of tokens.entries()) {
          counts[token] = (counts[token] as number) + 1;
          const record = records[r] as (typeof records)[number];
          const oracle = sampleToken(logits, rule, nothing, record);
          if (token !== oracle)
            expect(margin(logits, rule, record), `${name}, draw ${r}`).toBeLessThan(certain);
        }
        let statistic = 0;
        for (const [id, probability] of expected.entries()) {
          const count = counts[id] as number;
          if (probability === 0) expect(count, `${name}: token ${id} is filtered out`).toBe(0);
          else statistic += (count - draws * probability) ** 2 / (draws * probability);
        }
        expect(statistic, `${name}: chi square`).toBeLessThan(29.9); // 7 degrees of freedom, 1 in 10000
      }
    });

    it('ties of the maximum go to the lowest token, at any position', async () => {
      const vocabulary = 1000;
      const ties = [[5, 6], [0, 999], [63, 64, 65], [700, 956], [0], [999]];
      const logits = new Float32Array(ties.length * vocabulary).fill(-1);
      ties.forEach((ids, r) => ids.forEach((id) => (logits[r * vocabulary + id] = 3)));
      const records = ties.map((_, slot) => ({ slot, rule: noRule }));
      expect((await pick(variant, logits, records)).tokens).toEqual(ties.map((ids) => Math.min(...ids)));
      const flat = new Float32Array(vocabulary).fill(0);
      expect((await pick(variant, flat, [{ slot: 0, rule: noRule }])).tokens).toEqual([0]);
    });

    it('keeps all equal logits at a cut, where the oracle keeps the lowest tokens', async () => {
      const logits = Float32Array.of(1, 5, 5, 5, 0);
      const rule = { ...noRule, temperature: 1, topK: 2 };
      const draws = 600;
      const all = Float32Array.from({ length: draws * 5 }, (_, i) => logits[i % 5] as number);
      const records = Array.from({ length: draws }, (_, seed) => ({ slot: seed, rule, seed }));
      const { tokens } = await pick(variant, all, records);
      expect(new Set(tokens)).toEqual(new Set([1, 2, 3]));
      expect([...filteredDistribution(logits, rule, nothing)]).toEqual([0, 0.5, 0.5, 0, 0]);
    });

    it('returns noToken when the logits are NaN', async () => {
      const vocabulary = 100;
      const logits = new Float32Array(4 * vocabulary).fill(Number.NaN);
      logits.fill(-Infinity, vocabulary, 2 * vocabulary);
      logits.fill(1, 3 * vocabulary);
      const records = [0, 1, 2, 3].map((slot) => ({
        slot,
        flags: sampleFlags.penalties,
        rule: { ...noRule, temperature: slot === 2 ? 1 : 0 },
      }));
      const { tokens, seen, seenAfter } = await pick(variant, logits, records);
      expect(tokens).toEqual([noToken, noToken, noToken, 0]);
      expectUntouched(seenAfter, seen, (word) => word === 3 * vocabulary, 'marks');
    });

    it('never samples a forbidden token under any rule, and none when all are forbidden', async () => {
      const vocabulary = 300;
      const next = random(5);
      const logits = distinctLogits(vocabulary, next);
      // The most likely tokens are all forbidden.
      const order = Array.from(logits.keys()).sort((a, b) => (logits[b] as number) - (logits[a] as number));
      const warm: SamplingRule = { ...noRule, temperature: 1 };
      const allowed = new Set(order.slice(250, 253));
      const masked = logits.map((logit, id) => (allowed.has(id) ? logit : -3.4028234663852886e38));
      for (const [name, change] of Object.entries({ ...rules, greedy: { temperature: 0 } })) {
        const rule = { ...warm, ...change };
        const records = Array.from({ length: 40 }, (_, slot) => ({ slot, rule, seed: slot }));
        const rows = Float32Array.from(
          { length: 40 * vocabulary },
          (_, i) => masked[i % vocabulary] as number,
        );
        const { tokens } = await pick(variant, rows, records);
        expect(
          tokens.filter((token) => !allowed.has(token)),
          name,
        ).toEqual([]);
        const nothingLeft = new Float32Array(vocabulary).fill(-3.4028234663852886e38);
        expect((await pick(variant, nothingLeft, [{ slot: 0, rule }])).tokens, name).toEqual([noToken]);
      }
    });

    it('counts the sampled token for the penalties of its slot, only when there are penalties', async () => {
      const vocabulary = 70;
      const logits = new Float32Array(3 * vocabulary);
      [4, 69, 33].forEach((id, r) => (logits[r * vocabulary + id] = 9));
      const records = [
        { slot: 2, flags: sampleFlags.penalties, rule: noRule },
        { slot: 0, flags: sampleFlags.bias, rule: noRule },
        { slot: 1, flags: sampleFlags.penalties, rule: noRule },
      ];
      const { seen, seenAfter } = await pick(variant, logits, records);
      const counted = [2 * vocabulary + 4, vocabulary + 33];
      expectUntouched(seenAfter, seen, (word) => counted.includes(word), 'marks');
      for (const word of counted) expect(new Uint32Array(seenAfter)[word]).toBe((seen[word] as number) + 1);
    });

    it('gives the same sample with any other contents of the step', async () => {
      const next = random(8);
      const rule = { ...noRule, temperature: 1.2, topP: 0.9 };
      const mine = distinctLogits(2048, next);
      const record = { slot: 3, rule, seed: 77, position: 5 };
      const alone = (await pick(variant, mine, [record])).tokens[0];
      const others = Array.from({ length: 6 }, () => distinctLogits(2048, next));
      const rows = [...others.slice(0, 4), mine, ...others.slice(4)];
      const records = rows.map((row, slot) =>
        row === mine ? { ...record, slot } : { slot, rule, seed: slot },
      );
      const { tokens } = await pick(variant, Float32Array.from(rows.flatMap((row) => [...row])), records);
      expect(tokens[4]).toBe(alone);
    });
  });
}
