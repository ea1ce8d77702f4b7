import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { greedySampling, loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import type { GenerateRequest } from '../../src/engine/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { fixtureModel } from '../support/shared.ts';
import { until } from '../support/until.ts';

let engine: ResidentEngine;
beforeAll(async () => {
  engine = await loadEngine(testPlatform(), { model: fixtureModel });
});
afterAll(() => engine.close());

const request = (more: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt: engine.tokenizer.encode('Once upon a time there was'),
  maxTokens: 800,
  sampling: greedySampling,
  stop: [],
  ignoreEnd: true,
  ...more,
});

/** A step, its readback and the follow-up work take some time. */
async function freed(): Promise<void> {
  await until(() => engine.stats().running + engine.stats().queued === 0);
  const { running, queued, stalledReaders, pages } = engine.stats();
  expect([running, queued, stalledReaders]).toEqual([0, 0, 0]);
  expect(pages.free + pages.cached).toBe(pages.total);
}

/** Reads this many events of an output. */
async function begun(events: AsyncIterator<unknown>, count: number): Promise<void> {
  for (let read = 0; read < count; read++) expect((await events.next()).done).toBe(false);
}

async function drain(events: AsyncIterator<unknown>): Promise<void> {
  while (!(await events.next()).done);
}

describe('a client that disconnects during generation', () => {
  it('frees its slot and its pages, by abort or by leaving the loop', async () => {
    const controller = new AbortController();
    const aborted = engine.generate(request({ signal: controller.signal }))[Symbol.asyncIterator]();
    const left = engine.generate(request())[Symbol.asyncIterator]();
    await begun(aborted, 3);
    await begun(left, 3);
    expect(engine.stats().running).toBe(2);
    const before = engine.stats().completionTokens;
    controller.abort(new Error('gone'));
    // Tokens generated before may still arrive.
    await expect(drain(aborted)).rejects.toThrow('gone');
    await left.return?.();
    await freed();
    // Far from the requested 1,600 tokens.
    expect(engine.stats().completionTokens - before).toBeLessThan(200);
  });

  it('frees them during the prefill and while it waits', async () => {
    const prompt = engine.tokenizer.encode('one two three four '.repeat(150)).slice(0, 900);
    const controllers = Array.from({ length: 12 }, () => new AbortController());
    const events = controllers.map(({ signal }) => {
      const answer = engine.generate(request({ prompt, maxTokens: 50, signal }));
      return drain(answer[Symbol.asyncIterator]());
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    for (const controller of controllers) controller.abort(new Error('gone'));
    for (const result of await Promise.allSettled(events))
      expect(result).toMatchObject({ status: 'rejected', reason: { message: 'gone' } });
    await freed();
  });

  it('does not change the output of others', async () => {
    const text = async () => {
      let all = '';
      for await (const event of engine.generate(request({ maxTokens: 40 })))
        if (event.type === 'text') all += event.text;
      return all;
    };
    const alone = await text();
    const controllers = Array.from({ length: 5 }, () => new AbortController());
    const leaving = controllers.map(async ({ signal }, at) => {
      const events = engine.generate(request({ signal }))[Symbol.asyncIterator]();
      await begun(events, at + 1);
      controllers[at]?.abort(new Error('gone'));
      await drain(events).catch(() => undefined);
    });
    expect(await text()).toBe(alone);
    await Promise.all(leaving);
    await freed();
  });
});
