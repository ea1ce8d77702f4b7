import { describe, expect, it } from 'vitest';
import { figuresOf } from '../../bench/figures.ts';
import { freshPrompt, promptOf } from '../../bench/generation.ts';
import type { ModelFigures } from '../../bench/report.ts';
import { totalRate } from '../../bench/streams.ts';

const adapter = (software: boolean) => ({
  backend: 'vulkan',
  vendor: 'v',
  description: 'd',
  software,
  features: [],
});

const model = (more: Partial<ModelFigures> = {}): ModelFigures => ({
  model: 'm',
  randomWeights: true,
  architecture: 'llama',
  quantization: 'Q4_0',
  parameters: 8e9,
  fileBytes: 1,
  weightBytes: 1,
  load: { firstMs: 1, warmMs: 1, stages: {} },
  copyBandwidth: { method: 'kernel', bytesPerSecond: 1, bufferBytes: 1 },
  contexts: [],
  steps: [],
  streams: [],
  growth: [],
  memory: [],
  othersCores: 0,
  ...more,
});

const measured = model({
  contexts: [
    {
      context: 128,
      firstTokenMs: 1,
      prefillTokensPerSecond: 1,
      decodeTokensPerSecond: 1,
      answerTokens: 1,
      rounds: 1,
      dispatchesPerToken: 1,
      bytesPerToken: { weights: 1, cache: 1 },
      partOfCopyBandwidth: 0.69,
    },
  ],
  streams: [
    { streams: 1, tokensPerSecond: 100 },
    { streams: 8, tokensPerSecond: 150 },
  ],
  prefix: { prefixTokens: 512, questionTokens: 16, coldMs: 1000, repeatedMs: 120, cachedTokens: 512 },
  growth: [
    { context: 128, decodeTokensPerSecond: 50, encodeMs: 1 },
    { context: 512, decodeTokensPerSecond: 45, encodeMs: 1, attentionGflops: 10, attentionMs: 1 },
    { context: 4096, decodeTokensPerSecond: 30, encodeMs: 1, attentionGflops: 7.9, attentionMs: 8 },
  ],
});
const overhead = {
  answerTokens: 256,
  promptTokens: 100,
  requests: 5,
  cpuMsPerToken: 0.2,
  wallMsPerToken: 0.2,
  cpuMsPerRequest: 2,
};

describe('results with a target', () => {
  it('are compared with the targets of a software adapter', () => {
    const figures = figuresOf({
      adapter: adapter(true),
      models: [measured],
      overhead,
      startUp: { readyMs: 900, firstTextMs: 2001, rounds: 5 },
    });
    expect(figures).toEqual([
      {
        figure: 'm 8 streams t/s',
        ours: 150,
        peer: 100,
        ratio: 1.5,
        goal: 1.3,
        wanted: 'at least',
        met: true,
      },
      {
        figure: 'm first token ms, 512 tokens repeated',
        ours: 120,
        peer: 1000,
        ratio: 0.12,
        goal: 0.15,
        wanted: 'at most',
        met: true,
      },
      {
        figure: 'm attention GFLOP/s at 4096',
        ours: 7.9,
        peer: 10,
        ratio: 0.79,
        goal: 0.8,
        wanted: 'at least',
        met: false,
      },
      { figure: 'host overhead ms/token', ours: 0.2, ratio: 0.2, goal: 0.3, wanted: 'at most', met: true },
      {
        figure: 'start to first text ms',
        ours: 2001,
        ratio: 2001,
        goal: 2000,
        wanted: 'at most',
        met: false,
      },
    ]);
  });

  it('have further targets on a GPU: tokens per second and bandwidth', () => {
    const figures = figuresOf({ adapter: adapter(false), models: [measured], overhead });
    expect(figures.map(({ figure, ratio, goal, met }) => [figure, ratio, goal, met])).toEqual([
      ['m 8 streams t/s', 1.5, 5, false],
      ['m first token ms, 512 tokens repeated', 0.12, 0.1, false],
      ['m decode t/s at 4096', 0.6, 0.8, false],
      ['m decode, part of copy bandwidth', 0.69, 0.7, false],
      ['host overhead ms/token', 0.2, 0.1, false],
    ]);
  });

  it('are omitted when one side was not measured', () => {
    const half = model({ parameters: 1e8, streams: [{ streams: 8, tokensPerSecond: 1 }] });
    expect(figuresOf({ adapter: adapter(true), models: [half] })).toEqual([]);
    expect(figuresOf({ adapter: adapter(false), models: [half] })).toEqual([]);
  });
});

describe('prompts of a benchmark', () => {
  it('differ from every earlier prompt within their first page, so that nothing is cached', () => {
    const beginnings = Array.from({ length: 500 }, () => freshPrompt(512).slice(0, 32).join());
    expect(new Set(beginnings).size).toBe(500);
  });

  it('consist of ordinary tokens, and are the same for the same salt', () => {
    expect(promptOf(64, 3)).toEqual(promptOf(64, 3));
    expect(promptOf(2000).every((id) => id >= 32 && id < 232)).toBe(true);
  });
});

describe('the rate of several answers', () => {
  it('counts from the first token of the first to the last token of the last', () => {
    // 10 and 20 tokens after the first token of each, within 3 s.
    expect(
      totalRate([
        { from: 1000, to: 2000, tokens: 11 },
        { from: 1500, to: 4000, tokens: 21 },
      ]),
    ).toBe(10);
  });
});
