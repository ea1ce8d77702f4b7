import { beforeAll, describe, expect, it } from 'vitest';
import { logprobs, logprobWords, maxLikely, readLogprobs } from '../../../kernels/logprobs.ts';
import { logprobs as oracle } from '../../../kernels/reference/index.ts';
import { topLogprobsShift, sampleFlags } from '../../../kernels/sample.ts';
import {
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  variantName,
} from '../../support/kernel-harness.ts';
import { noRule, sampleRecords } from './sample-records.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

type Variant = (typeof logprobs.variants)[number];

interface Row {
  /** The token whose log probability is requested. */
  token: number;
  /** Undefined: nothing is requested for this row. */
  likeliest?: number;
  /** The token is in the record, not among the results. */
  scored?: boolean;
}

async function run(variant: Variant, logits: Float32Array<ArrayBuffer>, rows: readonly Row[], wanted = true) {
  const vocabulary = logits.length / rows.length;
  const before = poisoned((rows.length + 1) * logprobWords);
  const records = rows.map(({ token, likeliest, scored = false }, slot) => ({
    slot,
    row: 99,
    flags:
      (likeliest === undefined ? 0 : sampleFlags.logprobs | (likeliest << topLogprobsShift)) |
      (scored ? sampleFlags.scored : 0),
    seed: scored ? token : (token + 1) % vocabulary,
    rule: noRule,
  }));
  const results = Uint32Array.from(rows, ({ token, scored }) => (scored ? (token + 1) % vocabulary : token));
  const out = await harness.run(
    logprobs,
    variant,
    {
      params: { vocabulary },
      dims: { samples: rows.length, needsLogprobs: wanted },
      buffers: { samples: sampleRecords(records), logits, results, logprobs: before },
    },
    ['logprobs'],
  );
  const after = out['logprobs'] as ArrayBuffer;
  const written = rows.map(({ likeliest }) =>
    likeliest === undefined ? 0 : 2 + 2 * Math.min(likeliest, vocabulary),
  );
  expectUntouched(
    after,
    before,
    (word) => wanted && word % logprobWords < (written[Math.floor(word / logprobWords)] ?? 0),
    'log probabilities',
  );
  return new Uint32Array(after);
}

/**
 * Two logarithms and exponentials of f32 under WGSL's rules, and a sum whose terms round: about 1e-6, and somewhat
 * more for a hundred thousand terms in one thread.
 */
const tolerance = 2e-5;

for (const variant of logprobs.variants) {
  describe(`logprobs ${variantName(variant)} equals the oracle`, () => {
    it.each([32, 33, 2048, 50257, 262144])('for a vocabulary of %i', async (vocabulary) => {
      const next = random(vocabulary);
      const rows: Row[] = [
        { token: 0, likeliest: 20 },
        { token: vocabulary - 1, likeliest: 5, scored: true },
        { token: 7 },
        { token: 31, likeliest: 0 },
        { token: 3, likeliest: 1 },
      ];
      // Flat rows, peaked ones, and ones far from zero.
      const logits = Float32Array.from({ length: rows.length * vocabulary }, (_, i) => {
        const row = Math.floor(i / vocabulary);
        const noise = next() * 2 - 1;
        return row === 1 ? 400 + 30 * noise ** 7 : row === 4 ? -3000 + 3 * noise : 12 * noise ** 3;
      });
      const words = await run(variant, logits, rows);
      for (const [r, { token, likeliest }] of rows.entries()) {
        if (likeliest === undefined) continue;
        const own = logits.subarray(r * vocabulary, (r + 1) * vocabulary);
        const expected = oracle(own, token, likeliest);
        const got = readLogprobs(words, r);
        expect(Math.abs(got.logprob - expected.logprob), `row ${r}`).toBeLessThan(tolerance);
        expect(
          got.top.map(({ id }) => id),
          `row ${r}`,
        ).toEqual(expected.top.map(({ id }) => id));
        for (const [n, { logprob }] of got.top.entries())
          expect(Math.abs(logprob - expected.top[n]!.logprob), `row ${r}, ${n}`).toBeLessThan(tolerance);
      }
    });

    it('equal logits are listed in the order of their ids, at any position', async () => {
      const vocabulary = 1000;
      const logits = new Float32Array(3 * vocabulary).fill(-2);
      const ties = [999, 640, 64, 0, 700, 5, 261];
      for (const id of ties) logits[id] = 1;
      for (const id of [...ties, 300]) logits[vocabulary + id] = 3;
      logits[vocabulary + 300] = 4;
      const rows = [0, 1, 2].map(() => ({ token: 1, likeliest: maxLikely }));
      const words = await run(variant, logits, rows);
      const ids = rows.map((_, r) => readLogprobs(words, r).top.map(({ id }) => id));
      const ordered = [0, 5, 64, 261, 640, 700, 999];
      expect(ids[0]).toEqual([...ordered, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
      expect(ids[1]!.slice(0, 8)).toEqual([300, ...ordered]);
      expect(ids[2]).toEqual(Array.from({ length: maxLikely }, (_, id) => id));
    });

    it('a certain token has log probability 0, and an impossible one a very small one', async () => {
      const logits = new Float32Array(2 * 40).fill(-500);
      logits[3] = 500;
      logits[43] = 500;
      const words = await run(variant, logits, [
        { token: 3, likeliest: 1 },
        { token: 4, likeliest: 2 },
      ]);
      expect(readLogprobs(words, 0)).toEqual({ logprob: 0, top: [{ id: 3, logprob: 0 }] });
      expect(readLogprobs(words, 1)).toEqual({
        logprob: -1000,
        top: [
          { id: 3, logprob: 0 },
          { id: 0, logprob: -1000 },
        ],
      });
    });

    it('reports nothing when the logits are NaN', async () => {
      const words = await run(variant, new Float32Array(40).fill(Number.NaN), [{ token: 3, likeliest: 0 }]);
      expect(readLogprobs(words, 0)).toEqual({ logprob: Number.NaN, top: [] });
    });

    it('does nothing in a step without requests for it', async () => {
      await run(variant, new Float32Array(40), [{ token: 3, likeliest: 3 }], false);
    });
  });
}
