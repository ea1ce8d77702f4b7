/** Log probabilities of prompts and outputs, in steps of the simulated GPU. */
import { describe, expect, it } from 'vitest';
import { maxStepSamples } from '../../src/engine/execution/step.ts';
import type { GenerateRequest, GenerationEvent } from '../../src/engine/types.ts';
import type { Sequence } from '../../src/engine/scheduling/sequence.ts';
import { long, request, run, turns, world } from '../support/scheduler-world.ts';
import { outputAlone, read, scoreAlone } from '../support/simulated-runner.ts';

async function eventsOf(sequence: Sequence): Promise<GenerationEvent[]> {
  const events: GenerationEvent[] = [];
  for await (const event of sequence.events()) events.push(event);
  return events;
}

const scoring = (changes: Partial<GenerateRequest>): GenerateRequest =>
  request({ logprobs: 2, promptLogprobs: true, ...changes });

describe('log probabilities', () => {
  it('of the output come with its tokens, and only when requested', async () => {
    const { add, runner } = world();
    const one = { ...long(1, 30), logprobs: 3 };
    const events = await eventsOf(add(one));
    const answer = outputAlone(one);
    const got = events.flatMap((event) => (event.type === 'text' ? (event.logprobs ?? []) : []));
    expect(got).toEqual(scoreAlone([...one.prompt, ...answer], 3).slice(one.prompt.length));
    for (const event of events) expect(event).not.toHaveProperty('prompt');
    const wanted: boolean[] = [];
    const forward = runner.forward.bind(runner);
    runner.forward = (step) => {
      wanted.push(step.dims.needsLogprobs);
      forward(step);
    };
    for (const event of await eventsOf(add(long(1, 5)))) expect(event).not.toHaveProperty('logprobs');
    expect(new Set(wanted)).toEqual(new Set([false]));
  });

  it('of accepted drafts are those given the text before them', async () => {
    const { add, counts } = world({ speculation: 'always' });
    const one = request({ prompt: run(2, 60), maxTokens: 120, ignoreEnd: true, logprobs: 1 });
    const events = await eventsOf(add(one));
    const got = events.flatMap((event) => (event.type === 'text' ? (event.logprobs ?? []) : []));
    expect(got).toEqual(scoreAlone([...one.prompt, ...outputAlone(one)], 1).slice(60));
    expect(counts.accepted).toBeGreaterThan(20);
  });
});

describe('a scored prompt', () => {
  it.each([1, 2, 3, 19, 20, 21, 200])(
    'of %i tokens: on the first event, null for the first token',
    async (length) => {
      const { add } = world();
      for (const maxTokens of [0, 1, 30]) {
        const one = scoring({ prompt: run(7, length), maxTokens });
        const events = await eventsOf(add(one));
        const answer = outputAlone(one);
        const scores = scoreAlone([...one.prompt, ...answer], 2);
        expect(events[0]).toMatchObject({ type: 'text', prompt: scores.slice(0, length) });
        for (const event of events.slice(1)) expect(event).not.toHaveProperty('prompt');
        const ids = events.flatMap((event) => (event.type === 'text' ? [...event.ids] : []));
        expect(ids).toEqual(answer);
        if (maxTokens > 0) continue;
        expect(events).toMatchObject([
          { text: '', ids: [], logprobs: [] },
          { type: 'end', finishReason: 'length', usage: { prompt_tokens: length, completion_tokens: 0 } },
        ]);
        expect(events).toHaveLength(2);
      }
    },
  );

  it('is computed from its start without the prefix cache, as many tokens in a step as it may sample', async () => {
    const { add, answer, runner } = world({ stepTokens: 256 });
    const prompt = run(3, 150);
    await answer(request({ prompt }));
    const before = runner.steps.length;
    const { end } = await read(add(scoring({ prompt, maxTokens: 1 })));
    expect(end.usage.cached_tokens).toBe(0);
    const steps = runner.steps.slice(before).map(({ promptTokens }) => promptTokens);
    expect(steps.reduce((sum, count) => sum + count, 0)).toBe(150);
    for (const count of steps) expect(count).toBeLessThanOrEqual(maxStepSamples(4));
    expect(steps.length).toBeLessThan(10);
    // What it computed is cached for others.
    expect((await answer(request({ prompt }))).end.usage.cached_tokens).toBe(149);
  });

  it('does not affect the samples or penalties of other sequences', async () => {
    const { add } = world({ slots: 4, speculation: 'always' });
    const neighbours = [
      long(1, 60),
      { ...long(2, 60), sampling: { ...long(2, 60).sampling, frequencyPenalty: 1 } },
    ];
    const running = neighbours.map((one) => read(add(one)));
    const scored = await Promise.all(
      [3, 4].map((n) => eventsOf(add(scoring({ prompt: run(n, 120), maxTokens: 9 })))),
    );
    for (const [n, one] of neighbours.entries()) expect((await running[n]!).ids).toEqual(outputAlone(one));
    for (const [n, events] of scored.entries())
      expect(events[0]).toMatchObject({ prompt: scoreAlone(run(n + 3, 120), 2) });
  });

  it('completes together with many decoding sequences, for any number of slots', async () => {
    const { add } = world({ slots: 20, pages: 200 });
    const running = Array.from({ length: 19 }, (_, seed) => read(add(long(seed, 100))));
    const events = await eventsOf(add(scoring({ prompt: run(3, 60), maxTokens: 0 })));
    expect(events[0]).toMatchObject({ prompt: scoreAlone(run(3, 60), 2) });
    await Promise.all(running);
  });

  it('continues after a preemption', async () => {
    const { add, counts } = world({ pages: 8, slots: 4 });
    const all = Array.from({ length: 4 }, (_, seed) =>
      scoring({ ...long(seed, 100, run(seed, 60)), logprobs: 2, promptLogprobs: true }),
    );
    const answers = await Promise.all(all.map((one) => eventsOf(add(one))));
    expect(counts.preemptions).toBeGreaterThan(0);
    for (const [n, one] of all.entries())
      expect(answers[n]![0]).toMatchObject({ prompt: scoreAlone(one.prompt, 2) });
  });

  it('also in the middle of being scored, each token once', async () => {
    const { add, counts } = world({ pages: 31, slots: 2 });
    // When the first needs its fourth page, the other one has all the rest and is not done.
    const first = read(add(long(1, 100)));
    const prompt = run(5, 910);
    const scored = add(scoring({ prompt, maxTokens: 0 }));
    const events = await eventsOf(scored);
    expect(counts.preemptions).toBe(1);
    expect(scored.preemptionEpoch).toBe(1);
    expect(events[0]).toMatchObject({ prompt: scoreAlone(prompt, 2) });
    expect((await first).ids).toEqual(outputAlone(long(1, 100)));
  });

  it('may fill every page', async () => {
    const { add, scheduler } = world({ pages: 4, slots: 2 });
    for (const length of [127, 128]) {
      const prompt = run(5, length);
      const events = await eventsOf(add(scoring({ prompt, maxTokens: 0 })));
      expect(events[0]).toMatchObject({ prompt: scoreAlone(prompt, 2) });
    }
    expect(scheduler.pages).toMatchObject({ total: 4, cached: 4 });
  });

  it('waits until all of it fits, even if parts are cached', async () => {
    const { add, counts } = world({ pages: 10, slots: 2 });
    const prompt = run(5, 158);
    const first = add(long(1, 90, prompt));
    const running = read(first);
    while (first.outputTokens === 0) await turns(1);
    const events = await eventsOf(add(scoring({ prompt, maxTokens: 0 })));
    expect(events[0]).toMatchObject({ prompt: scoreAlone(prompt, 2) });
    await running;
    expect(counts.preemptions).toBe(0);
  });

  it('has precedence over draft rows', async () => {
    const { add, runner, counts } = world({ slots: 4, speculation: 'always' });
    const repetitive = () => request({ prompt: run(2, 60), maxTokens: 150, ignoreEnd: true });
    const others = [1, 2, 3].map(() => read(add(repetitive())));
    await turns(40);
    expect(counts.drafted).toBeGreaterThan(0);
    const before = runner.steps.length;
    await eventsOf(add(scoring({ prompt: run(9, 60), maxTokens: 0 })));
    const steps = runner.steps.slice(before).filter(({ promptTokens }) => promptTokens > 0);
    expect(steps.length).toBeLessThan(7);
    const drafts = steps.flatMap(({ decoding }) => [...decoding.values()]);
    expect(drafts.filter((count) => count > 0)).toEqual([]);
    await Promise.all(others);
  });
});
