import { beforeAll, describe, expect, it } from 'vitest';
import { deltaNet, type DeltaNetVariant } from '../../../kernels/delta-net.ts';
import {
  expectClose,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  variantName,
} from '../../support/kernel-harness.ts';
import { selectVariants } from '../../support/tier.ts';
import {
  type DeltaSample,
  deltaSample,
  randomSteps,
  rowsOfStep,
  type Span,
  spanWords,
} from '../../support/state-layers.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

interface Heads {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly valueDim: number;
}

/** Processes texts in steps; returns the output of each row and the final states. */
async function run(
  variant: DeltaNetVariant,
  { keyHeads, valueHeads, valueDim }: Heads,
  vectors: Float32Array<ArrayBuffer>,
  texts: readonly DeltaSample[],
  steps: readonly Span[][],
) {
  const width = texts[0]?.width as number;
  const values = valueHeads * valueDim;
  // Rows of the result have padding between them.
  const outStride = values + 3;
  const floats = valueHeads * variant.KEY * valueDim;
  // The state before the first token is undefined.
  let state = poisoned((texts.length + 1) * floats);
  const outs = texts.map(({ out }) => new Float32Array(out.length));
  for (const spans of steps) {
    const tokens = spans.reduce((sum, { count }) => sum + count, 0);
    const mixed = Float32Array.from(
      rowsOfStep(
        spans,
        texts.map(({ rows }) => rows),
        width,
      ),
    );
    const result = await harness.run(
      deltaNet,
      variant,
      {
        params: {
          key_heads: keyHeads,
          value_heads: valueHeads,
          value_dim: valueDim,
          stride: width,
          out_stride: outStride,
        },
        dims: { tokens, sequenceRuns: spans.length },
        buffers: { vectors, spans: spanWords(spans), mixed, state, y: poisoned((tokens + 1) * outStride) },
      },
      ['y', 'state'],
    );
    state = new Float32Array(result['state'] as ArrayBuffer);
    const y = new Float32Array(result['y'] as ArrayBuffer);
    let row = 0;
    for (const { slot, position, count } of spans) {
      for (let t = 0; t < count; t++, row++) {
        const at = row * outStride;
        outs[slot]?.set(y.subarray(at, at + values), (position + t) * values);
      }
    }
  }
  return { outs, state, floats };
}

describe('delta_net equals the oracle', () => {
  for (const variant of selectVariants(deltaNet.variants)) {
    it(`${variantName(variant)}: texts in chunks together with others, from any step on`, async () => {
      const seed = variant.KEY * 100 + variant.LANES;
      const next = random(seed);
      for (const heads of [
        { keyHeads: 1, valueHeads: 1, valueDim: 16 },
        { keyHeads: 2, valueHeads: 6, valueDim: 48 },
        { keyHeads: 3, valueHeads: 3, valueDim: variant.KEY },
      ]) {
        const shape = { ...heads, keyDim: variant.KEY };
        const dt = Float32Array.from({ length: heads.valueHeads }, () => next() * 4 - 2);
        const a = Float32Array.from({ length: heads.valueHeads }, () => -2 * next());
        const lengths = [1, 17, 5, 40];
        const texts = lengths.map((tokens) => deltaSample({ ...shape, tokens }, { dt, a }, next));
        const vectors = Float32Array.from([...dt, ...a]);
        const { outs, state, floats } = await run(
          variant,
          heads,
          vectors,
          texts,
          randomSteps(lengths, 16, next),
        );
        for (const [slot, { out, state: expected }] of texts.entries()) {
          const what = `${JSON.stringify(heads)}, text ${slot}`;
          expectClose(outs[slot] ?? [], out, { nmse: 1e-10, maxAbs: 1e-4 }, what);
          const own = state.subarray(slot * floats, (slot + 1) * floats);
          expectClose(own, expected, { nmse: 1e-10, maxAbs: 1e-4 }, `${what}, state`);
        }
        const nobodys = new Uint32Array(state.buffer, texts.length * floats * 4, floats);
        expect(new Set(nobodys)).toEqual(new Set(new Uint32Array(poisoned(1).buffer)));
      }
    });

    it(`${variantName(variant)}: the same bits for any chunks of a text`, async () => {
      const next = random(variant.KEY);
      const heads = { keyHeads: 2, valueHeads: 4, valueDim: 32 };
      const dt = Float32Array.of(-1, 0, 1, 30);
      const a = Float32Array.of(-0.1, -1, -3, -0.01);
      const shape = { ...heads, keyDim: variant.KEY, tokens: 24 };
      const vectors = Float32Array.from([...dt, ...a]);
      const texts = [deltaSample(shape, { dt, a }, next)];
      const pieces = (sizes: readonly number[]): Span[][] => {
        let position = 0;
        return sizes.map((count) => {
          const span = { slot: 0, position, count };
          position += count;
          return [span];
        });
      };
      const whole = await run(variant, heads, vectors, texts, pieces([24]));
      for (const sizes of [Array<number>(24).fill(1), [7, 1, 16]]) {
        const got = await run(variant, heads, vectors, texts, pieces(sizes));
        expect(got.outs).toEqual(whole.outs);
        expect(got.state.subarray(0, got.floats)).toEqual(whole.state.subarray(0, whole.floats));
      }
      expectClose(whole.outs[0] ?? [], texts[0]?.out ?? [], { nmse: 1e-10, maxAbs: 1e-4 }, 'whole');
    });
  }
});
