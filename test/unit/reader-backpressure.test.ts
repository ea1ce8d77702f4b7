/** Backpressure: sequences with slow readers release their slots and lose nothing. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ReaderBackpressure } from '../../src/engine/scheduling/reader-backpressure.ts';
import type { Sequence } from '../../src/engine/scheduling/sequence.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { long, turns, world } from '../support/scheduler-world.ts';
import { outputAlone, read } from '../support/simulated-runner.ts';
import { ToyConstraint, toyGrammar } from '../support/toy-constraint.ts';

/** Event-loop turns in which everything that can be computed is computed. */
const rest = 400;
const reader = { unreadTokens: 10 };

/** Takes events until this many tokens were read. */
async function take(events: ReturnType<Sequence['events']>, tokens: number): Promise<number[]> {
  const ids: number[] = [];
  while (ids.length < tokens) {
    const next = await events.next();
    if (next.done) break;
    if (next.value.type === 'text') ids.push(...next.value.ids);
  }
  return ids;
}

describe('a sequence with a slow reader', () => {
  it('computes no more than the unread limit, then holds neither slot nor pages', async () => {
    const { add, scheduler, runner } = world({ reader });
    const sequence = add(long(1, 100));
    await turns(rest);
    expect(sequence).toMatchObject({ phase: 'awaiting_reader', unreadTokens: 11 });
    expect(scheduler).toMatchObject({ running: 0, waiting: 0, stalledReaders: 1 });
    expect(scheduler.pages.free + scheduler.pages.cached).toBe(64);
    // One more step was in flight.
    expect(runner.steps.length).toBeLessThanOrEqual(12);
    expect((await read(sequence)).ids).toEqual(outputAlone(long(1, 100)));
    expect(scheduler).toMatchObject({ running: 0, waiting: 0, stalledReaders: 0 });
  });

  it('resumes when less than half is unread, not earlier', async () => {
    const { add, scheduler } = world({ reader });
    const sequence = add(long(1, 100));
    await turns(rest);
    const events = sequence.events();
    const first = await take(events, 6);
    await turns(rest);
    expect(sequence).toMatchObject({ phase: 'awaiting_reader', unreadTokens: 5 });
    first.push(...(await take(events, 1)));
    await turns(rest);
    expect(sequence).toMatchObject({ phase: 'awaiting_reader', unreadTokens: 11 });
    expect(scheduler.stalledReaders).toBe(1);
    const others = await take(events, 1000);
    expect([...first, ...others]).toEqual(outputAlone(long(1, 100)));
  });

  it('does not recompute what the prefix cache holds', async () => {
    const { add, runner } = world({ reader });
    const sequence = add(
      long(
        1,
        40,
        Array.from({ length: 90 }, (_, i) => 97 + (i % 12)),
      ),
    );
    await turns(rest);
    const before = runner.steps.length;
    const events = sequence.events();
    await take(events, 40);
    for (const { promptTokens } of runner.steps.slice(before)) expect(promptTokens).toBeLessThan(3);
  });

  it('releases its slot to later requests, and resumes before waiting ones', async () => {
    const { add, scheduler } = world({ slots: 1, reader });
    const slow = add(long(1, 60));
    const others = [2, 3, 4].map((seed) => add(long(seed, 10)));
    await turns(5);
    expect(scheduler.waiting).toBe(3);
    const ends: string[] = [];
    const [second, ...later] = others as [Sequence, Sequence, Sequence];
    expect((await read(second)).ids).toEqual(outputAlone(long(2, 10)));
    const all = later.map(async (one, index) => {
      await read(one);
      ends.push(`later ${index}`);
    });
    const events = slow.events();
    const done = (async () => {
      const ids = await take(events, 1000);
      ends.push('slow');
      return ids;
    })();
    expect(await done).toEqual(outputAlone(long(1, 60)));
    await Promise.all(all);
    expect(ends.indexOf('slow')).toBeLessThan(2);
  });

  it('keeps its arrival order while paused, so later sequences are preempted for it', async () => {
    const { add, counts } = world({ pages: 8, slots: 2, reader });
    const slow = add(long(1, 130));
    await turns(rest);
    expect(slow.phase).toBe('awaiting_reader');
    const young = add(long(2, 130));
    const both = [read(slow), read(young)];
    const [first, second] = await Promise.all(both);
    expect(first!.ids).toEqual(outputAlone(long(1, 130)));
    expect(second!.ids).toEqual(outputAlone(long(2, 130)));
    expect(counts.preemptions).toBeGreaterThan(0);
    expect(slow.preemptionEpoch).toBe(1);
  });

  it('continues with the same text, also with penalties, a constraint and log probabilities', async () => {
    const { add, scheduler } = world({ reader });
    const grammar = toyGrammar(3);
    const constraint = new ToyConstraint(grammar, 2);
    const one = {
      ...long(3, 80),
      sampling: { ...greedySampling, seed: 3, frequencyPenalty: 0.5, temperature: 1 },
      logprobs: 2,
    };
    const sequence = add({ ...one, constraint });
    let stalledReaders = 0;
    const ids: number[] = [];
    const reported: number[] = [];
    for await (const event of sequence.events()) {
      if (event.type !== 'text') break;
      ids.push(...event.ids);
      reported.push(...(event.logprobs ?? []).map(({ id }) => id));
      await turns(20);
      stalledReaders += scheduler.stalledReaders;
    }
    expect(ids).toEqual(outputAlone(one, grammar));
    expect(reported).toEqual(ids);
    expect(stalledReaders).toBeGreaterThan(5);
    // One mask request for each token, and one more for each token in flight when it was paused.
    expect(constraint.calls).toBeGreaterThanOrEqual(80);
    expect(constraint).toMatchObject({ closed: 1, accepted: ids.slice(0, -1) });
  });

  it('fails when the reader does not read in time', async () => {
    const { add, scheduler } = world({ reader: { unreadTokens: 10, timeoutMs: 20 } });
    const constraint = new ToyConstraint(() => undefined);
    const sequence = add({ ...long(1, 100), constraint });
    await expect.poll(() => sequence.phase, { interval: 5 }).toBe('done');
    expect(scheduler).toMatchObject({ running: 0, waiting: 0, stalledReaders: 0 });
    expect(constraint.closed).toBe(1);
    // Queued events can still be read.
    const events = sequence.events();
    expect(await take(events, 11)).toEqual(outputAlone(long(1, 100)).slice(0, 11));
    await expect(events.next()).rejects.toMatchObject({
      code: 'reader_stalled',
      message: expect.stringContaining('11 output tokens'),
    });
  });

  it('is released by cancellation and by stop', async () => {
    const { add, scheduler } = world({ reader });
    const [first, second] = [add(long(1, 100)), add(long(2, 100))];
    await turns(rest);
    expect(scheduler.stalledReaders).toBe(2);
    scheduler.cancel(first, new Error('gone'));
    expect(scheduler.stalledReaders).toBe(1);
    scheduler.stop(new Error('the end'));
    expect(scheduler.stalledReaders).toBe(0);
    for (const [sequence, reason] of [
      [first, 'gone'],
      [second, 'the end'],
    ] as const) {
      const events = sequence.events();
      await take(events, 11);
      await expect(events.next()).rejects.toThrow(reason);
    }
  });

  it('does not delay exclusive work, and resumes after it', async () => {
    const { add, scheduler } = world({ reader });
    const sequence = add(long(1, 100));
    await turns(rest);
    let ran = false;
    await scheduler.runExclusive(async () => {
      ran = true;
      expect(scheduler.stalledReaders).toBe(1);
      await turns(3);
      scheduler.forgetPrefixes();
    });
    expect(ran).toBe(true);
    expect((await read(sequence)).ids).toEqual(outputAlone(long(1, 100)));
  });
});

it('a short output that is not read is not paused', async () => {
  const { add, scheduler } = world();
  const sequence = add(long(1, 100));
  await turns(rest);
  expect(scheduler).toMatchObject({ running: 0, stalledReaders: 0 });
  expect(sequence).toMatchObject({ phase: 'done', unreadTokens: 100 });
});

describe('the reader timeout', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('applies when nothing is read: a reader that reads a little from time to time is kept', () => {
    vi.useFakeTimers();
    const calls: string[] = [];
    const backpressure = new ReaderBackpressure(
      { unreadTokens: 10, timeoutMs: 100 },
      { onResume: () => calls.push('left'), onTimeout: (_, { code }) => calls.push(code) },
    );
    const stalledReaders = { unreadTokens: 11, onRead: undefined as (() => void) | undefined };
    backpressure.add(stalledReaders as unknown as Sequence);
    const readOne = () => {
      stalledReaders.unreadTokens -= 1;
      stalledReaders.onRead?.();
    };
    for (let reads = 0; reads < 4; reads++) {
      vi.advanceTimersByTime(90);
      readOne();
    }
    expect(calls).toEqual([]);
    for (let reads = 0; reads < 3; reads++) readOne();
    expect(calls).toEqual(['left']);
    stalledReaders.unreadTokens = 11;
    backpressure.add(stalledReaders as unknown as Sequence);
    vi.advanceTimersByTime(90);
    readOne();
    vi.advanceTimersByTime(101);
    expect(calls).toEqual(['left', 'reader_stalled']);
    expect([backpressure.size, vi.getTimerCount()]).toEqual([0, 0]);
  });
});
