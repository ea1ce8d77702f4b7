/** Clients share the slots of the scheduler: a flood by one delays another by a step, and nobody starves. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sliceTokens } from '../../src/engine/scheduling/client-shares.ts';
import type { Sequence } from '../../src/engine/scheduling/sequence.ts';
import { EngineError, type GenerateRequest, greedySampling } from '../../src/engine/types.ts';
import { long, run, turns, world } from '../support/scheduler-world.ts';
import { outputAlone, read } from '../support/simulated-runner.ts';
import { rounds } from '../support/tier.ts';

type Options = Parameters<typeof world>[0];

/** A scheduler under a flood by one client: every slot is taken, and more of its requests wait. */
async function flooded(options: Options, requests: readonly GenerateRequest[]) {
  const at = world(options);
  const flood = requests.map((one) => at.add({ ...one, client: 'flood' }));
  const answers = flood.map((sequence) => read(sequence).catch((error: unknown) => error));
  await turns(8);
  return { ...at, flood, answers };
}
const floodOf = (count: number, tokens: number, prompt?: number[]) =>
  Array.from({ length: count }, (_, seed) => long(seed, tokens, prompt ?? run(seed, 20)));
const startedOf = (sequences: readonly Sequence[]) =>
  sequences.filter(({ outputTokens }) => outputTokens > 0);

describe('a flood by one client', () => {
  it.each<[string, Options, GenerateRequest[]]>([
    ['of long answers', { slots: 4 }, floodOf(100, 60)],
    ['of long answers, on a single slot', { slots: 1 }, floodOf(30, 60)],
    ['of long prompts', { slots: 4, pages: 400, stepTokens: 64 }, floodOf(20, 5, run(3, 1500))],
    ['of requests that hold all pages', { slots: 8, pages: 12 }, floodOf(30, 90)],
    ['on a GPU', { slots: 4, separatesDecodeRows: true }, floodOf(40, 60)],
  ])('%s: the first token of another client is in the next step', async (_, options, requests) => {
    const { add, runner, flood, answers } = await flooded(options, requests);
    expect(startedOf(flood).length).toBeLessThan(flood.length);
    const stepsBefore = runner.steps.length;
    const one = { ...long(77, 10), client: 'lone' };
    const lone = add(one);
    while (lone.outputTokens === 0) await turns(1);
    // Two steps are in flight at a time: the next one has the whole prompt, and two were formed until its token is read.
    expect(runner.steps.length - stepsBefore).toBeLessThanOrEqual(3);
    const { ids, end } = await read(lone);
    const computed = one.prompt.length - end.usage.cached_tokens;
    expect(runner.steps[stepsBefore]?.promptTokens).toBeGreaterThanOrEqual(computed);
    expect(ids).toEqual(outputAlone(one));
    // Those that made room go on where they were: no token of any answer changes.
    for (const [index, answer] of (await Promise.all(answers)).entries())
      expect(answer).toMatchObject({ ids: outputAlone(requests[index] as GenerateRequest) });
  });

  it('keeps all slots but one while another client has one request, and half while it floods, too', async () => {
    const { add, scheduler, flood } = await flooded({ slots: 4 }, floodOf(40, 400));
    const runningOf = (sequences: readonly Sequence[]) =>
      sequences.filter(({ phase }) => phase === 'prefill' || phase === 'decode').length;
    expect(runningOf(flood)).toBe(4);
    const others = [add({ ...long(50, 300), client: 'other' })];
    await turns(6);
    expect([runningOf(flood), runningOf(others)]).toEqual([3, 1]);
    others.push(...floodOf(20, 300).map((one) => add({ ...one, client: 'other' })));
    await turns(6);
    expect([runningOf(flood), runningOf(others)]).toEqual([2, 2]);
    scheduler.stop(new Error('enough'));
  });

  it('slots are shared by weight', async () => {
    const { add, scheduler } = world({ slots: 6, pages: 200, clientWeights: new Map([['b', 2]]) });
    const [a, b] = ['a', 'b'].map((client) => floodOf(20, 300).map((one) => add({ ...one, client })));
    await turns(6);
    const runningOf = (sequences: readonly Sequence[] = []) =>
      sequences.filter(({ phase }) => phase === 'decode').length;
    expect([runningOf(a), runningOf(b)]).toEqual([2, 4]);
    scheduler.stop(new Error('enough'));
  });

  it('two floods on a single slot alternate, and neither gets ahead by more than a slice and a request', async () => {
    const { add, counts } = world({ slots: 1 });
    const done = { a: 0, b: 0 };
    let furthest = 0;
    const answers = (['a', 'b'] as const).flatMap((client) =>
      floodOf(12, 150).map(async (one) => {
        const { ids } = await read(add({ ...one, client }));
        expect(ids).toEqual(outputAlone(one));
        done[client] += ids.length + one.prompt.length;
        if (done.a < 12 * 170 && done.b < 12 * 170) furthest = Math.max(furthest, Math.abs(done.a - done.b));
      }),
    );
    await Promise.all(answers);
    expect(furthest).toBeLessThanOrEqual(sliceTokens + 2 * 170);
    // Slices are long enough that little is computed twice.
    expect(counts.preemptions).toBeLessThan(24);
  });

  it('a client that sends one request after the other does not take more than its share of a single slot', async () => {
    const { add, answer } = world({ slots: 1 });
    const flood = floodOf(40, 100).map((one) => add({ ...one, client: 'flood' }));
    const answers = flood.map(read);
    for (let seed = 0; seed < 12; seed++) await answer({ ...long(seed, 100, run(seed, 30)), client: 'lone' });
    const computed = startedOf(flood).reduce((sum, { outputTokens }) => sum + outputTokens, 0);
    expect(computed).toBeGreaterThan(12 * 100 - sliceTokens);
    await Promise.all(answers);
  });

  it('clients with one request each are not preempted for another', async () => {
    const { add, counts, runner } = world({ slots: 2 });
    const answers = ['a', 'b', 'c', 'd'].map((client, seed) => read(add({ ...long(seed, 50), client })));
    await Promise.all(answers);
    expect(counts.preemptions).toBe(0);
    expect(runner.isIdle).toBe(true);
  });
});

describe('priorities', () => {
  it('an interactive request preempts one of batch priority, of its own client too; batch waits while any is left', async () => {
    const { add, scheduler } = world({ slots: 2 });
    const batch = [0, 1, 2].map((seed) => add({ ...long(seed, 80), priority: 'batch' }));
    const batchAnswers = batch.map(read);
    await turns(6);
    expect(batch.map(({ phase }) => phase)).toEqual(['decode', 'decode', 'waiting']);
    const interactive = [5, 6, 7].map((seed) => add(long(seed, 30)));
    const answers = interactive.map(read);
    await turns(6);
    expect(batch.map(({ phase }) => phase)).toEqual(['waiting', 'waiting', 'waiting']);
    await Promise.all(answers);
    expect(batch.every(({ phase }) => phase !== 'done')).toBe(true);
    for (const [seed, answer] of (await Promise.all(batchAnswers)).entries())
      expect(answer.ids).toEqual(outputAlone(long(seed, 80)));
    await scheduler.whenIdle();
  });

  it('a request of batch priority preempts no interactive one', async () => {
    const { add, scheduler, flood } = await flooded({ slots: 2 }, floodOf(10, 200));
    const batch = add({ ...long(9, 10), client: 'other', priority: 'batch' });
    await turns(20);
    expect(batch.phase).toBe('waiting');
    expect(flood.filter(({ phase }) => phase === 'decode')).toHaveLength(2);
    scheduler.stop(new Error('enough'));
  });
});

describe('a full queue', () => {
  it('takes a place from the client that has the most, its newest first, until it has no more than the other', async () => {
    const { add, scheduler, flood, answers } = await flooded({ slots: 2 }, floodOf(8, 300));
    expect(scheduler.waiting).toBe(6);
    const lone: Sequence[] = [];
    const yields: boolean[] = [];
    for (let n = 0; n < 5; n++) {
      yields.push(scheduler.yieldPlace('lone'));
      if (yields.at(-1)) lone.push(add({ ...long(20 + n, 300), client: 'lone' }));
    }
    // Six waited, two and then three of the other client's for the same number of the flood's.
    expect(yields).toEqual([true, true, true, false, false]);
    expect(flood.map(({ phase }) => phase).slice(-4)).toEqual(['waiting', 'done', 'done', 'done']);
    expect(await answers[7]).toBeInstanceOf(EngineError);
    expect(await answers[7]).toMatchObject({
      code: 'queue_full',
      message: expect.stringContaining('other clients'),
    });
    expect(scheduler.yieldPlace('flood')).toBe(false);
    scheduler.stop(new Error('enough'));
  });
});

describe('random clients', () => {
  it('every request ends with the tokens that it gets alone, and those of a client start in order', async () => {
    const arrival = fc.record({
      client: fc.constantFrom('a', 'b', 'c', 'd'),
      priority: fc.constantFrom('interactive' as const, 'interactive' as const, 'batch' as const),
      prompt: fc.integer({ min: 1, max: 120 }),
      tokens: fc.integer({ min: 1, max: 90 }),
      pause: fc.integer({ min: 0, max: 6 }),
      isCanceled: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(arrival, { minLength: 4, maxLength: 40 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 8, max: 40 }),
        fc.constantFrom('off' as const, 'always' as const),
        async (arrivals, slots, pages, speculation) => {
          const weights = new Map([['b', 3]]);
          const { add, scheduler, failures } = world({ slots, pages, speculation, clientWeights: weights });
          const starts: string[] = [];
          const answers: Promise<void>[] = [];
          for (const [index, { client, priority, prompt, tokens, pause, isCanceled }] of arrivals.entries()) {
            const one: GenerateRequest = {
              ...long(index, tokens, run(index % 5, prompt)),
              sampling: { ...greedySampling, seed: index },
              client,
              priority,
              progress: true,
            };
            const sequence = add(one);
            const line = `${client} ${priority}`;
            const follow = async () => {
              const ids: number[] = [];
              for await (const event of sequence.events()) {
                if (event.type === 'prompt' && ids.length === 0 && !starts.includes(`${line} ${index}`))
                  starts.push(`${line} ${index}`);
                if (event.type === 'text') ids.push(...event.ids);
              }
              expect(ids).toEqual(outputAlone(one));
            };
            answers.push(
              follow().catch((error: unknown) => {
                if (!isCanceled) throw error;
              }),
            );
            await turns(pause);
            if (isCanceled) scheduler.cancel(sequence, new Error('gone'));
          }
          await Promise.all(answers);
          await scheduler.whenIdle();
          expect(failures).toEqual([]);
          expect(scheduler).toMatchObject({ running: 0, waiting: 0 });
          expect(scheduler.pages.free + scheduler.pages.cached).toBe(pages);
          for (const line of new Set(starts.map((start) => start.replace(/ \d+$/, '')))) {
            const order = starts.filter((start) => start.startsWith(`${line} `));
            const numbers = order.map((start) => Number(start.split(' ').at(-1)));
            expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
          }
        },
      ),
      { numRuns: rounds(60, 400) },
    );
  });
});
