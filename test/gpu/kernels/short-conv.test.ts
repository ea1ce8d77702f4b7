import { beforeAll, describe, expect, it } from 'vitest';
import { shortConv as reference } from '../../../kernels/reference/index.ts';
import { shortConv } from '../../../kernels/short-conv.ts';
import {
  expectClose,
  expectUntouched,
  type KernelHarness,
  kernelHarness,
  poisoned,
  random,
  randomValues,
  variantName,
} from '../../support/kernel-harness.ts';
import { randomSteps, rowsOfStep, spanWords } from '../../support/state-layers.ts';

let harness: KernelHarness;
beforeAll(async () => {
  harness = await kernelHarness();
});

const silu = (x: number) => x / (1 + Math.exp(-x));

describe('short_conv equals the oracle', () => {
  for (const variant of shortConv.variants) {
    it.each([
      { channels: 1, biased: false },
      { channels: 75, biased: true },
      { channels: 512, biased: false },
    ])(`${variantName(variant)}: $channels channels, biased: $biased`, async ({ channels, biased }) => {
      const { KERNEL: kernel, GATED: gated } = variant;
      const next = random(channels * 10 + kernel);
      const lengths = [1, 2, 19, 30];
      // A row has more elements than the kernel reads.
      const stride = (gated ? 3 : 1) * channels + 5;
      const weight = randomValues(channels * kernel, next);
      const bias = biased ? randomValues(channels, next) : undefined;
      const texts = lengths.map((length) => randomValues(length * stride, next));
      const part = (text: Float32Array, index: number) =>
        Float64Array.from({ length: (text.length / stride) * channels }, (_, i) => {
          return text[Math.floor(i / channels) * stride + index * channels + (i % channels)] as number;
        });
      const expected = texts.map((text, index) => {
        const [b, c, x] = [part(text, 0), part(text, 1), part(text, 2)];
        const inputs = gated ? b.map((value, i) => value * (x[i] as number)) : b;
        const shape = { tokens: lengths[index] as number, channels, kernel };
        const { out, past } = reference(inputs, weight, shape, { bias });
        return { past, out: out.map((value, i) => (gated ? value * (c[i] as number) : silu(value))) };
      });
      const floats = (kernel - 1) * channels;
      // The state before the first token is undefined.
      let state = poisoned((texts.length + 1) * floats);
      const outStride = gated ? channels + 3 : stride;
      const came: number[] = [];
      const wanted: number[] = [];
      for (const spans of randomSteps(lengths, 12, next)) {
        const tokens = spans.reduce((sum, { count }) => sum + count, 0);
        const mixed = Float32Array.from(rowsOfStep(spans, texts, stride));
        const y = poisoned((tokens + 1) * outStride);
        const result = await harness.run(
          shortConv,
          variant,
          {
            params: { channels, stride, out_stride: outStride, biased: biased ? 1 : 0 },
            dims: { tokens, sequenceRuns: spans.length },
            buffers: {
              vectors: Float32Array.from([...weight, ...(bias ?? [])]),
              spans: spanWords(spans),
              state,
              mixed,
              y,
            },
          },
          [gated ? 'y' : 'mixed', 'state'],
        );
        state = new Float32Array(result['state'] as ArrayBuffer);
        const bytes = result[gated ? 'y' : 'mixed'] as ArrayBuffer;
        const got = new Float32Array(bytes);
        const outs = expected.map(({ out }) => out);
        wanted.push(...rowsOfStep(spans, outs, channels));
        for (let t = 0; t < tokens; t++) came.push(...got.subarray(t * outStride, t * outStride + channels));
        const inside = (word: number) => word < tokens * outStride && word % outStride < channels;
        expectUntouched(bytes, gated ? y : mixed, inside, 'convolved');
      }
      expectClose(came, wanted, { nmse: 1e-12, maxAbs: 1e-4 }, 'convolved');
      for (const [slot, { past }] of expected.entries()) {
        const own = state.subarray(slot * floats, (slot + 1) * floats);
        expectClose(own, past, { nmse: 1e-12, maxAbs: 1e-5 }, `state ${slot}`);
      }
      const nobodys = new Uint32Array(state.buffer, texts.length * floats * 4, floats);
      expect(new Set(nobodys)).toEqual(new Set(new Uint32Array(poisoned(1).buffer)));
    });
  }
});
