import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Candidate } from '../../src/gateway/catalog/types.ts';
import { GatewayError } from '../../src/gateway/errors.ts';
import { type AttemptReport, UpstreamRouter } from '../../src/gateway/upstream/router.ts';
import { type Attempt, UpstreamFailure } from '../../src/gateway/upstream/types.ts';
import { aCandidate, ownCandidate } from '../support/gateway/candidates.ts';
import { ManualClock } from '../support/manual-clock.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const fault = (status: number, changed: Partial<UpstreamFailure> = {}) =>
  new UpstreamFailure({
    error: new GatewayError(status, 'upstream_error', `status ${status}`),
    again: true,
    unwell: status >= 500,
    ...changed,
  });

const a = aCandidate('http://a/v1', { id: 'a' });
const b = aCandidate('http://b/v1', { id: 'b' });
const never = new AbortController().signal;

function world(limits: Partial<{ retries: number; breakerFailures: number; breakerSecs: number }> = {}) {
  const clock = new ManualClock();
  const reports: AttemptReport[] = [];
  const router = new UpstreamRouter({
    limits: { retries: 2, breakerFailures: 5, breakerSecs: 30, ...limits },
    now: clock.monotonic,
    random: () => 0.5,
    onAttempt: (report) => reports.push(report),
  });
  /** @param script of each attempt in turn: what it fails with, or undefined */
  const run = (
    candidates: readonly Candidate[],
    script: readonly unknown[] | ((attempt: Attempt) => unknown),
    signal = never,
  ) => {
    let at = 0;
    const attempt = async (one: Attempt) => {
      const outcome = typeof script === 'function' ? script(one) : script[at];
      at += 1;
      if (outcome instanceof Error) throw outcome;
      return `${one.candidate.model.provider.id}${one.n}${one.place}`;
    };
    return router.run(candidates, attempt, signal);
  };
  return { clock, reports, router, run };
}

/** Runs all pauses. */
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
  it('asks the first candidate, and only it where it answers', async () => {
    const { run, reports } = world();
    expect(await run([a, b], [undefined])).toBe('a00');
    expect(reports).toEqual([{ candidate: a, n: 0, place: 0 }]);
  });

  it('asks again with growing pauses, then the next candidate', async () => {
    const { run, reports } = world();
    expect(await outcome(run([a, b], [fault(500), fault(504), fault(502), fault(500), undefined]))).toBe(
      'b41',
    );
    expect(
      reports.map(({ n, place, pauseMs, failure }) => [n, place, pauseMs, failure?.error.status]),
    ).toEqual([
      [0, 0, 187.5, 500],
      [1, 0, 375, 504],
      [2, 0, undefined, 502],
      [3, 1, 187.5, 500],
      [4, 1, undefined, undefined],
    ]);
  });

  it('rejects with the last failure when nothing is left', async () => {
    const { run, reports } = world({ retries: 0 });
    expect(await outcome(run([a, b], [fault(500), fault(503)]))).toBe('status 503');
    expect(reports).toHaveLength(2);
  });

  it('does not ask again, here or elsewhere, what is refused', async () => {
    const { run, reports } = world();
    expect(await outcome(run([a, b], [fault(400, { again: false })]))).toBe('status 400');
    expect(reports).toHaveLength(1);
  });

  it('lets pass what is no failure of a provider', async () => {
    const { run, reports } = world();
    const bug = new TypeError('a bug');
    await expect(run([a, b], [bug])).rejects.toBe(bug);
    const error = new GatewayError(402, 'insufficient_allowance', 'no');
    await expect(run([a, b], [error])).rejects.toBe(error);
    expect(reports).toEqual([]);
  });

  it('waits as long as the provider wants, but does not sit out minutes', async () => {
    const wishing = (retryAfterMs: number) => fault(429, { retryAfterMs });
    const { run, reports } = world();
    expect(await outcome(run([a, b], [wishing(0), wishing(10_000), undefined]))).toBe('a20');
    expect(reports.map(({ pauseMs }) => pauseMs)).toEqual([0, 10_500, undefined]);
    expect(await outcome(run([a, b], [wishing(10_001), undefined]))).toBe('b11');
    expect(await outcome(run([a], [wishing(60_000)]))).toBe('status 429');
  });

  it('never waits longer than ten seconds on its own', async () => {
    const { run, reports } = world({ retries: 12, breakerFailures: 99 });
    await outcome(run([a], () => fault(500)));
    expect(Math.max(...reports.map(({ pauseMs = 0 }) => pauseMs))).toBe(7500);
  });

  it('stops waiting at once when the caller is gone', async () => {
    const { run, reports } = world();
    const gone = new AbortController();
    const reason = new Error('gone');
    const running = run([a, b], [fault(500), undefined], gone.signal);
    const rejected = expect(running).rejects.toBe(reason);
    await vi.advanceTimersByTimeAsync(10);
    expect(reports).toHaveLength(1);
    gone.abort(reason);
    await rejected;
    expect(vi.getTimerCount()).toBe(0);
    await expect(run([a], [undefined], gone.signal)).rejects.toBe(reason);
    expect(reports).toHaveLength(1);
  });

  it('does not count against a provider what the caller broke off', async () => {
    const { run } = world({ retries: 0, breakerFailures: 1 });
    const gone = new AbortController();
    const breaking = () => {
      gone.abort(new Error('gone'));
      return fault(502);
    };
    expect(await outcome(run([a], breaking, gone.signal))).toBe('status 502');
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('refuses to run on nothing', async () => {
    await expect(world().run([], [])).rejects.toThrow('no candidate');
  });
});

describe("a provider's breaker", () => {
  const resting =
    /^The provider 'a' failed several times in a row and is not asked for now\. Try again in 30 seconds\.$/;

  it('opens after failures in a row, and lets nothing through until its time', async () => {
    const { run, reports, clock } = world({ retries: 0, breakerFailures: 3 });
    for (let n = 0; n < 3; n += 1) await outcome(run([a], [fault(500)]));
    expect(await outcome(run([a], [undefined]))).toMatch(resting);
    const rejection = await settled(run([a], [undefined]));
    expect(rejection.status === 'rejected' && rejection.reason).toMatchObject({
      error: { status: 502, code: 'upstream_failed', type: 'upstream_error' },
    });
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    expect(reports).toHaveLength(4);
    clock.pass(29_999);
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    clock.pass(1);
    expect(await outcome(run([a, b], [undefined]))).toBe('a00');
  });

  it('stops a run in the middle of its tries, without another pause', async () => {
    const { run, reports } = world({ retries: 9, breakerFailures: 2 });
    expect(await outcome(run([a], () => fault(500)))).toBe('status 500');
    expect(reports.map(({ pauseMs }) => pauseMs)).toEqual([187.5, undefined]);
  });

  it('does not open for refusals, for success in between, or for what is not about health', async () => {
    const { run } = world({ retries: 0, breakerFailures: 2 });
    for (const script of [
      [fault(500)],
      [undefined],
      [fault(500)],
      [fault(400, { again: false })],
      [fault(500)],
      [fault(404, { again: false })],
    ])
      await outcome(run([a], script));
    for (let n = 0; n < 9; n += 1) await outcome(run([a], [fault(504, { unwell: false })]));
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('then lets one try, whose success closes it and whose failure keeps it open', async () => {
    const { run, router, clock } = world({ retries: 0, breakerFailures: 1 });
    await outcome(run([a], [fault(500)]));
    clock.pass(30_000);
    let fail: (error: Error) => void = () => undefined;
    const trial = settled(router.run([a], () => new Promise<string>((_, reject) => (fail = reject)), never));
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    fail(fault(500));
    await trial;
    clock.pass(29_999);
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    clock.pass(1);
    expect(await outcome(run([a], [fault(400, { again: false })]))).toBe('status 400');
    // A refusal is an answer: it is closed.
    expect(await outcome(run([a, b], [undefined]))).toBe('a00');
  });

  it('lets the next one try when the one that tried was broken off', async () => {
    const { run, clock } = world({ retries: 0, breakerFailures: 1 });
    await outcome(run([a], [fault(500)]));
    clock.pass(30_000);
    expect(await outcome(run([a], [new Error('gone')]))).toBe('gone');
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('is not closed or kept open by what began before it opened', async () => {
    const { run, router, clock } = world({ retries: 0, breakerFailures: 1 });
    const slow: { resolve: (text: string) => void; reject: (error: Error) => void }[] = [];
    const begin = () =>
      settled(
        router.run(
          [a],
          () => new Promise<string>((resolve, reject) => slow.push({ resolve, reject })),
          never,
        ),
      );
    const runs = [begin(), begin()];
    await outcome(run([a], [fault(500)]));
    clock.pass(20_000);
    slow[0]?.resolve('late');
    slow[1]?.reject(fault(500));
    await Promise.all(runs);
    expect(await outcome(run([a, b], [undefined]))).toBe('b01');
    clock.pass(10_000);
    expect(await outcome(run([a, b], [undefined]))).toBe('a00');
  });

  it("is a caller's own for a caller's own credential", async () => {
    const { run } = world({ retries: 0, breakerFailures: 1 });
    const mine = ownCandidate('a', undefined, 'sk-mine');
    await outcome(run([mine], [fault(429, { unwell: true })]));
    expect(await outcome(run([mine], [undefined]))).toMatch(resting);
    expect(await outcome(run([ownCandidate('a', undefined, 'sk-yours')], [undefined]))).toBe('a00');
    expect(await outcome(run([ownCandidate('a', 'https://x', 'sk-mine')], [undefined]))).toBe('a00');
    expect(await outcome(run([a], [undefined]))).toBe('a00');
  });

  it('never lets two try at once, whatever happens in which order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(3), fc.nat(9), fc.nat(2)), { maxLength: 40 }),
        async (steps) => {
          const { router, clock } = world({ retries: 0, breakerFailures: 2, breakerSecs: 1 });
          const open: { trial: boolean; end: (error?: Error) => void; done: Promise<unknown> }[] = [];
          let row = 0;
          for (const [act, which, how] of steps) {
            if (act === 0) clock.pass(how * 500);
            else if (act === 1 || open.length === 0) {
              let entered = false;
              const done = router
                .run(
                  [a],
                  () =>
                    new Promise<string>((resolve, reject) => {
                      entered = true;
                      open.push({
                        trial: row >= 2,
                        end: (error) => (error ? reject(error) : resolve('')),
                        done: Promise.resolve(),
                      });
                    }),
                  never,
                )
                .catch(() => undefined);
              const last = open.at(-1);
              if (entered && last) Object.assign(last, { done });
              expect(open.filter(({ trial }) => trial).length).toBeLessThanOrEqual(1);
            } else {
              const [one] = open.splice(which % open.length, 1);
              if (!one) continue;
              one.end(how === 0 ? undefined : how === 1 ? fault(500) : fault(400, { again: false }));
              await one.done;
              const well = how !== 1;
              if (one.trial || row < 2) row = well ? 0 : row + 1;
            }
          }
          for (const one of open) one.end();
          await Promise.all(open.map(({ done }) => done));
        },
      ),
      { numRuns: 300 },
    );
  });
});
