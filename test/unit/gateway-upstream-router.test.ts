import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Candidate } from '../../src/gateway/catalog/types.ts';
import { WireError } from '../../src/wires/core/error.ts';
import { UpstreamRouter } from '../../src/gateway/upstream/router.ts';
import type { Attempt, AttemptReport } from '../../src/gateway/upstream/types.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { aCandidate, ownCandidate } from '../support/gateway/candidates.ts';
import type { BreakerEvent } from '../../src/tracing/index.ts';
import { ManualClock } from '../support/manual-clock.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const fault = (status: number, changed: Partial<UpstreamFailure> = {}) =>
  new UpstreamFailure({
    error: new WireError(status, 'upstream_error', `status ${status}`),
    isRetryable: true,
    isUnhealthy: status >= 500,
    ...changed,
  });

const a = aCandidate('http://a/v1', { id: 'a' });
const b = aCandidate('http://b/v1', { id: 'b' });
const never = new AbortController().signal;
const usual = { stream: false, finished: Promise.resolve() };

function world(limits: Partial<{ retries: number; breakerFailures: number; breakerSecs: number }> = {}) {
  const clock = new ManualClock();
  const reports: AttemptReport[] = [];
  const changes: BreakerEvent[] = [];
  const router = new UpstreamRouter({
    limits: { retries: 2, breakerFailures: 5, breakerSecs: 30, ...limits },
    now: clock.monotonic,
    random: () => 0.5,
    onBreaker: (event) => changes.push(event),
  });
  const onAttempt = (report: AttemptReport) => reports.push(report);
  const start = (
    candidates: readonly Candidate[],
    attempt: (attempt: Attempt) => Promise<string>,
    callerId: string,
  ) => router.run(candidates, attempt, { ...usual, signal: never, callerId, onAttempt });
  /** @param script of each attempt in turn: what it fails with, or undefined */
  const run = (
    candidates: readonly Candidate[],
    script: readonly unknown[] | ((attempt: Attempt) => unknown),
    { signal = never, caller = 'caller' }: { signal?: AbortSignal; caller?: string } = {},
  ) => {
    let at = 0;
    const attempt = async (one: Attempt) => {
      const outcome = typeof script === 'function' ? script(one) : script[at];
      at += 1;
      if (outcome instanceof Error) throw outcome;
      return `${one.candidate.model.provider.id}${one.attemptNumber}${one.candidateIndex}`;
    };
    return router.run(candidates, attempt, { ...usual, signal, callerId: caller, onAttempt });
  };
  return { clock, reports, changes, start, run };
}

/** Runs all delays. */
async function settled<T>(promise: Promise<T>): Promise<PromiseSettledResult<T>> {
  const result = Promise.allSettled([promise]);
  await vi.runAllTimersAsync();
  return (await result)[0];
}
const outcome = async (promise: Promise<string>): Promise<unknown> => {
  const result = await settled(promise);
  return result.status === 'fulfilled' ? result.value : (result.reason as Error).message;
};

describe('a router', () => {
  it('tries the first candidate, and no other if it answers', async () => {
    const { run, reports } = world();
    expect(await run([a, b], [undefined])).toBe('a00');
    expect(reports).toEqual([{ candidate: a, attemptNumber: 0, candidateIndex: 0 }]);
  });

  it('retries with growing delays, then tries the next candidate', async () => {
    const { run, reports } = world();
    expect(await outcome(run([a, b], [fault(500), fault(504), fault(502), fault(500), undefined]))).toBe(
      'b41',
    );
    expect(
      reports.map(({ attemptNumber: n, candidateIndex: place, retryDelayMs: pauseMs, failure }) => [
        n,
        place,
        pauseMs,
        failure?.error.status,
      ]),
    ).toEqual([
      [0, 0, 187.5, 500],
      [1, 0, 375, 504],
      [2, 0, undefined, 502],
      [3, 1, 187.5, 500],
      [4, 1, undefined, undefined],
    ]);
  });

  it('rejects with the last failure when all candidates failed', async () => {
    const { run, reports } = world({ retries: 0 });
    expect(await outcome(run([a, b], [fault(500), fault(503)]))).toBe('status 503');
    expect(reports).toHaveLength(2);
  });

  it('does not retry a refused request, with any candidate', async () => {
    const { run, reports } = world();
    expect(await outcome(run([a, b], [fault(400, { isRetryable: false })]))).toBe('status 400');
    expect(reports).toHaveLength(1);
  });

  it('passes on errors that are not provider failures', async () => {
    const { run, reports } = world();
    const bug = new TypeError('a bug');
    await expect(run([a, b], [bug])).rejects.toBe(bug);
    const error = new WireError(402, 'insufficient_allowance', 'no');
    await expect(run([a, b], [error])).rejects.toBe(error);
    expect(reports).toEqual([]);
  });

  it('respects Retry-After up to the limit', async () => {
    const wishing = (retryAfterMs: number) => fault(429, { retryAfterMs });
    const { run, reports } = world();
    expect(await outcome(run([a, b], [wishing(0), wishing(10_000), undefined]))).toBe('a20');
    expect(reports.map(({ retryDelayMs: pauseMs }) => pauseMs)).toEqual([0, 10_500, undefined]);
    expect(await outcome(run([a, b], [wishing(10_001), undefined]))).toBe('b11');
    expect(await outcome(run([a], [wishing(60_000)]))).toBe('status 429');
  });

  it('never waits longer than ten seconds on its own', async () => {
    const { run, reports } = world({ retries: 12, breakerFailures: 99 });
    await outcome(run([a], () => fault(500)));
    expect(Math.max(...reports.map(({ retryDelayMs: pauseMs = 0 }) => pauseMs))).toBe(7500);
  });

  it('stops waiting at once when the caller is gone', async () => {
    const { run, reports } = world();
    const gone = new AbortController();
    const reason = new Error('gone');
    const running = run([a, b], [fault(500), undefined], { signal: gone.signal });
    const rejected = expect(running).rejects.toBe(reason);
    await vi.advanceTimersByTimeAsync(10);
    expect(reports).toHaveLength(1);
    gone.abort(reason);
    await rejected;
    expect(vi.getTimerCount()).toBe(0);
    await expect(run([a], [undefined], { signal: gone.signal })).rejects.toBe(reason);
    expect(reports).toHaveLength(1);
  });

  it('does not count canceled requests against a provider', async () => {
    const { run } = world({ retries: 0, breakerFailures: 1 });
    const gone = new AbortController();
    const breaking = () => {
      gone.abort(new Error('gone'));
      return fault(502);
    };
    expect(await outcome(run([a], breaking, { signal: gone.signal }))).toBe('status 502');
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('rejects an empty list of candidates', async () => {
    await expect(world().run([], [])).rejects.toThrow('no candidate');
  });
});

/** Failing requests of several callers. */
async function failing({ run }: Pick<ReturnType<typeof world>, 'run'>, callers: number, rounds = 1) {
  for (let n = 0; n < callers * rounds; n += 1)
    await outcome(run([a], () => fault(500), { caller: `failing ${n % callers}` }));
}

describe("the breaker of a provider's model", () => {
  const resting =
    /^Most recent requests to a-model of the provider 'a' failed, so it gets no requests for now\. Try again in 30 seconds\.$/;

  it('opens when requests of several callers fail, and answers 503 with the retry time', async () => {
    const at = world({ retries: 0, breakerFailures: 4 });
    const { run, reports, clock } = at;
    await failing(at, 2, 2);
    expect(await outcome(run([a], [undefined]))).toMatch(resting);
    const rejection = await settled(run([a], [undefined]));
    expect(rejection.status === 'rejected' && rejection.reason).toMatchObject({
      error: {
        status: 503,
        code: 'upstream_unavailable',
        type: 'upstream_error',
        headers: { 'retry-after': '30' },
      },
    });
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    expect(reports).toHaveLength(5);
    clock.pass(29_999);
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    clock.pass(1);
    expect(await outcome(run([a, b], [undefined]))).toBe('a00');
  });

  it('does not open for the requests of one caller, however many fail', async () => {
    const at = world({ retries: 2, breakerFailures: 1 });
    await failing(at, 1, 50);
    expect(await outcome(at.run([a], [undefined], { caller: 'another' }))).toBe('a00');
  });

  it('counts a request once, however often it is tried', async () => {
    const at = world({ retries: 2, breakerFailures: 3 });
    await failing(at, 2);
    expect(await outcome(at.run([a], [undefined]))).toBe('a00');
    await failing(at, 2);
    expect(await outcome(at.run([a], [undefined]))).toMatch(resting);
  });

  it('does not open while most requests, or those of most callers, are answered', async () => {
    const at = world({ retries: 0, breakerFailures: 2 });
    for (const caller of ['x', 'y', 'z'])
      for (let n = 0; n < 3; n += 1) await outcome(at.run([a], [undefined], { caller }));
    // As many requests as the others' together, all of them of two callers.
    await failing(at, 2, 20);
    expect(await outcome(at.run([a], [undefined]))).toBe('a00');
  });

  it('forgets outcomes after half a minute', async () => {
    const at = world({ retries: 0, breakerFailures: 4 });
    await failing(at, 3);
    at.clock.pass(30_000);
    await failing(at, 3);
    expect(await outcome(at.run([a], [undefined], { caller: 'x' }))).toBe('a00');
    await failing(at, 1);
    expect(await outcome(at.run([a], [undefined]))).toMatch(resting);
  });

  it.each([
    ['a limit of requests', fault(429, { isUnhealthy: false })],
    ['a refusal', fault(400, { isRetryable: false, isUnhealthy: false })],
    ['what takes too long', fault(504, { isUnhealthy: false })],
  ])('does not open for %s', async (_, what) => {
    const { run } = world({ retries: 0, breakerFailures: 1 });
    for (let n = 0; n < 20; n += 1) await outcome(run([a], () => what, { caller: `caller ${n}` }));
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('reports that it opened, and that a probe closed it', async () => {
    const at = world({ retries: 0, breakerFailures: 2, breakerSecs: 30 });
    await failing(at, 2);
    const names = { provider: 'a', model: a.model.id };
    expect(at.changes).toEqual([{ ...names, isOpen: true }]);
    at.clock.pass(30_000);
    // A failed probe keeps it open.
    await outcome(at.run([a], [fault(500)]));
    at.clock.pass(30_000);
    await outcome(at.run([a], [undefined]));
    expect(at.changes).toEqual([
      { ...names, isOpen: true },
      { ...names, isOpen: false },
    ]);
  });

  it('belongs to one model: other models of the provider are used', async () => {
    const at = world({ retries: 0, breakerFailures: 2 });
    await failing(at, 2);
    const other: Candidate = { ...a, model: { ...a.model, id: 'other' } };
    expect(await outcome(at.run([a], [undefined]))).toMatch(resting);
    expect(await outcome(at.run([other], [undefined]))).toBe('a00');
  });

  it('that is open for all candidates reports the earliest retry time', async () => {
    const at = world({ retries: 0, breakerFailures: 2 });
    for (const caller of ['x', 'y']) await outcome(at.run([b], () => fault(500), { caller }));
    at.clock.pass(10_000);
    await failing(at, 2);
    expect(await outcome(at.run([a, b], [undefined]))).toMatch(/provider 'b'.* in 20 seconds\.$/);
    expect(at.reports).toHaveLength(4);
  });

  it('admits one probe at a time, without retries; its success closes the breaker, its failure keeps it open', async () => {
    const at = world({ retries: 9, breakerFailures: 2 });
    const { run, start, clock, reports } = at;
    await failing(at, 2);
    clock.pass(30_000);
    let fail: (error: Error) => void = () => undefined;
    const trial = settled(start([a], () => new Promise<string>((_, reject) => (fail = reject)), 'caller'));
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    const before = reports.length;
    fail(fault(500));
    await trial;
    expect(reports.slice(before).map(({ retryDelayMs: pauseMs }) => pauseMs)).toEqual([undefined]);
    clock.pass(29_999);
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    clock.pass(1);
    expect(await outcome(run([a], [fault(400, { isRetryable: false })]))).toBe('status 400');
    // A refused request is a working provider: the breaker closes.
    expect(await outcome(run([a, b], [undefined]))).toBe('a00');
  });

  it('admits another probe when the running one takes long', async () => {
    const at = world({ retries: 0, breakerFailures: 2 });
    const { run, start, clock } = at;
    await failing(at, 2);
    clock.pass(30_000);
    const slow = Promise.withResolvers<string>();
    const trial = settled(start([a], () => slow.promise, 'slow'));
    clock.pass(4999);
    expect(await outcome(run([a], [undefined]))).toMatch(/in 1 seconds\.$/);
    clock.pass(1);
    expect(await outcome(run([a], [undefined]))).toBe('a00');
    expect(await outcome(run([a], [undefined]))).toBe('a00');
    // The result of the slow probe is ignored.
    slow.reject(fault(500));
    await trial;
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('admits another probe when the last one was canceled', async () => {
    const at = world({ retries: 0, breakerFailures: 2 });
    await failing(at, 2);
    at.clock.pass(30_000);
    expect(await outcome(at.run([a], [new Error('gone')]))).toBe('gone');
    expect(await outcome(at.run([a], [undefined]))).toBe('a00');
  });

  it('ignores results of requests that began before it opened', async () => {
    const at = world({ retries: 0, breakerFailures: 2 });
    const { run, start, clock } = at;
    const slow: { resolve: (text: string) => void; reject: (error: Error) => void }[] = [];
    const begin = () =>
      settled(
        start([a], () => new Promise<string>((resolve, reject) => slow.push({ resolve, reject })), 'slow'),
      );
    const runs = [begin(), begin()];
    await failing(at, 2);
    clock.pass(20_000);
    slow[0]?.resolve('late');
    slow[1]?.reject(fault(500));
    await Promise.all(runs);
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    clock.pass(10_000);
    expect(await outcome(run([a, b], [undefined]))).toBe('a00');
  });

  it("is separate for each caller's own credential", async () => {
    const { run } = world({ retries: 0, breakerFailures: 2 });
    const mine = ownCandidate('a', undefined, 'sk-mine');
    for (const caller of ['x', 'y']) await outcome(run([mine], [fault(500)], { caller }));
    expect(await outcome(run([mine], [undefined]))).toMatch(
      /^Most recent requests to a-model of the provider 'a'/,
    );
    expect(await outcome(run([ownCandidate('a', undefined, 'sk-yours')], [undefined]))).toBe('a00');
    expect(await outcome(run([ownCandidate('a', 'https://x', 'sk-mine')], [undefined]))).toBe('a00');
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('never refuses a caller because of the failures of a single other caller, in any order of events', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(4), fc.nat(9), fc.nat(2)), { maxLength: 60 }),
        async (steps) => {
          const { start, clock, reports } = world({ retries: 0, breakerFailures: 1, breakerSecs: 1 });
          const open: { end: (error?: Error) => void; done: Promise<unknown> }[] = [];
          const begin = (caller: string) => {
            const { promise, resolve, reject } = Promise.withResolvers<string>();
            const done = start([a], () => promise, caller).catch(() => undefined);
            open.push({ end: (error) => (error ? reject(error) : resolve('')), done });
          };
          for (const [act, which, how] of steps) {
            if (act === 0) clock.pass(how * 500);
            else if (act <= 2 || open.length === 0) begin('bad');
            else {
              const [one] = open.splice(which % open.length, 1);
              one?.end(how === 0 ? undefined : how === 1 ? fault(500) : fault(400, { isRetryable: false }));
              await one?.done;
            }
            const before = reports.length;
            expect(await start([a], async () => 'well', `good ${which}`)).toBe('well');
            expect(reports.length).toBe(before + 1);
          }
          for (const one of open) one.end();
          await Promise.all(open.map(({ done }) => done));
        },
      ),
      { numRuns: 200 },
    );
  });

  it('admits at most one probe in five seconds, whatever its result', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.boolean(), fc.nat(3000)), { minLength: 1, maxLength: 30 }),
        async (steps) => {
          const at = world({ retries: 0, breakerFailures: 2, breakerSecs: 30 });
          await failing(at, 2);
          at.clock.pass(30_000);
          const began: number[] = [];
          for (const [asks, ms] of steps) {
            if (asks)
              at.start(
                [a],
                () => {
                  began.push(at.clock.monotonic());
                  return new Promise<string>(() => undefined);
                },
                'slow',
              ).catch(() => undefined);
            at.clock.pass(ms);
          }
          for (const [n, time] of began.entries())
            if (n > 0) expect(time - (began[n - 1] ?? 0)).toBeGreaterThanOrEqual(5000);
        },
      ),
      { numRuns: 100 },
    );
  });
});
