/** The output of a request never depends on other requests or their outcomes, for models with every kind of layer. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ResidentEngine } from '../../src/engine/index.ts';
import { type Answer, crowd, farthest, guests, narrowed, read, withGrammar } from '../support/crowd.ts';
import { selectCases } from '../support/tier.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { loadFromMemory, tinyModel } from '../support/tiny-model.ts';

/** Readers and constraints that exceed their limits. */
const hasty = { reader: { unreadTokens: 1 }, constraint: { budgetMs: 2, regainMsPerToken: 0 } };
/** With room for all requests, and with too little. */
const rooms = [
  { slots: 4, pages: 30, retainedStates: 16, limits: hasty },
  { slots: 3, pages: 6, retainedStates: 4, limits: {} },
  { slots: 5, pages: 9, retainedStates: 1, stepTokens: 40, limits: hasty },
  { slots: 2, pages: 7, retainedStates: 0, limits: {} },
];

const models = [
  ['lfm2', () => tinyModel({ architecture: 'lfm2', layers: 4 })],
  ['qwen35', () => tinyModel({ architecture: 'qwen35', layers: 4 })],
  ['qwen3moe', () => tinyModel({ architecture: 'qwen3moe', type: 'Q8_0' })],
  ['gemma4', () => tinyGemma4({})],
] as const;
/** One with states, one with experts. */
const sampledModels: readonly string[] = ['lfm2', 'qwen3moe'];

describe.each(selectCases(models, ([name]) => sampledModels.includes(name)))(
  'a crowd of requests to %s',
  (_, bytes) => {
    const list = guests(20, 5);
    let engine: ResidentEngine;
    let hasStates = false;
    const alone: Answer[] = [];
    const seen = { cached: 0, preemptions: 0, otherDepartures: 0, whole: 0 };
    beforeAll(async () => {
      const options = { context: 192, parallel: 5, speculation: 'off', exact: true } as const;
      engine = await loadFromMemory(bytes(), options);
      hasStates = engine.runner.memory.capacity.retainedStates !== undefined;
      for (const guest of list) {
        engine.forgetPrefixes();
        alone.push(await read(engine.generate(withGrammar(guest))));
      }
    });
    afterAll(() => engine.close());

    it.each(rooms)('with $pages pages, $slots slots and $retainedStates retained states', async (room) => {
      const { retainedStates, limits, ...rest } = room;
      const by = narrowed(engine, hasStates ? { ...rest, retainedStates } : rest, limits);
      const answers = await crowd(list, by);
      expect(by.failures).toEqual([]);
      const { free, cached, total } = by.scheduler.pages;
      expect({ running: by.scheduler.running, waiting: by.scheduler.waiting, pages: free + cached }).toEqual({
        running: 0,
        waiting: 0,
        pages: total,
      });
      for (const [n, got] of answers.entries()) {
        if (!got) continue;
        const wanted = alone[n] as Answer;
        expect(got.ids, `request ${n}`).toEqual(wanted.ids);
        expect(farthest(got.logprobs, wanted.logprobs), `answer ${n}`).toBe(0);
        expect(farthest(got.prompt, wanted.prompt), `prompt ${n}`).toBe(0);
        seen.cached += got.cached;
        seen.whole += 1;
      }
      seen.preemptions += by.counts.preemptions;
      seen.otherDepartures += by.preemptions - by.counts.preemptions;
    });

    it('went through every kind of event', () => {
      expect(seen.whole).toBeGreaterThan(rooms.length * 12);
      expect(seen.cached).toBeGreaterThan(300);
      expect(seen.preemptions).toBeGreaterThan(0);
      expect(seen.otherDepartures).toBeGreaterThan(10);
    });
  },
);
