/** Hedged attempts: when a second deployment is asked, which answer is used, and what becomes of the other attempt. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Candidate, Deployment, Routing } from '../../src/gateway/catalog/types.ts';
import { UpstreamRouter } from '../../src/gateway/upstream/router.ts';
import {
  type Attempt,
  type AttemptReport,
  type HedgedAttempt,
  UntranslatableRequest,
} from '../../src/gateway/upstream/types.ts';
import { WireError } from '../../src/wires/core/error.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { aCandidate } from '../support/gateway/candidates.ts';
import { ManualClock } from '../support/manual-clock.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const failure = (status: number, isRetryable = true) =>
  new UpstreamFailure({
    error: new WireError(status, 'upstream_error', `status ${status}`),
    isRetryable,
    isUnhealthy: status >= 500,
  });

/** Deployments of one model. @param concurrency of each */
function deployed(ids: readonly string[], concurrency?: Readonly<Record<string, number>>): Candidate[] {
  const deployments = ids.map((id): Deployment => {
    const { model } = aCandidate(`http://${id}/v1`, { id });
    return {
      id: `${id}/m`,
      model,
      weight: 1,
      priority: 1,
      requestsPerMinute: undefined,
      concurrency: concurrency?.[id],
    };
  });
  const routing: Routing = { strategy: 'priority', sticky: false, hedge: true, deployments };
  return deployments.map((deployment) => ({
    model: deployment.model,
    credential: { kind: 'house', apiKey: 'sk' },
    route: { routing, deployment },
  }));
}

/** A router whose attempts end when the test says so. */
function world(candidates = deployed(['a', 'b', 'c']), { signal }: { signal?: AbortSignal } = {}) {
  const router = new UpstreamRouter({
    limits: { retries: 0, breakerFailures: 100, breakerSecs: 1 },
    now: new ManualClock().monotonic,
    random: () => 0.5,
  });
  const reports: AttemptReport[] = [];
  const hedges: (readonly [HedgedAttempt, HedgedAttempt])[] = [];
  const running = new Map<string, PromiseWithResolvers<string> & { attempt: Attempt }>();
  const result = router.run(
    candidates,
    (attempt) => {
      const end = { ...Promise.withResolvers<string>(), attempt };
      running.set(attempt.candidate.model.provider.id, end);
      attempt.signal?.addEventListener('abort', () => end.reject(attempt.signal?.reason));
      signal?.addEventListener('abort', () => end.reject(signal.reason));
      return end.promise;
    },
    {
      signal: signal ?? new AbortController().signal,
      callerId: 'caller',
      stream: false,
      finished: Promise.resolve(),
      hedge: { delayMs: 300, onHedge: (attempts) => hedges.push(attempts) },
      onAttempt: (report) => reports.push(report),
    },
  );
  result.catch(() => undefined);
  const at = (id: string) => {
    const found = running.get(id);
    if (!found) throw new Error(`${id} was not asked`);
    return found;
  };
  return {
    router,
    result,
    at,
    asked: () => [...running.keys()],
    /** The hedge, as provider and outcome. */
    hedged: () =>
      hedges.map((attempts) =>
        attempts.map(({ candidate, outcome }) => `${candidate.model.provider.id} ${outcome}`),
      ),
    reported: () =>
      reports.map(
        (report) => `${report.candidate.model.provider.id} ${report.failure?.error.status ?? 'ok'}`,
      ),
  };
}
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe('a hedged request', () => {
  it('asks no other deployment where the first answers in time', async () => {
    const { at, asked, result, hedged } = world();
    await pass(299);
    at('a').resolve('A');
    expect(await result).toBe('A');
    await pass(1000);
    expect([asked(), hedged()]).toEqual([['a'], []]);
  });

  it('asks none where the answer has begun', async () => {
    const { at, asked, result } = world();
    at('a').attempt.onFirstByte?.();
    await pass(10_000);
    expect(asked()).toEqual(['a']);
    at('a').resolve('A');
    expect(await result).toBe('A');
  });

  it('asks a second one after the delay, and no third; the first answer is used and the other attempt aborted', async () => {
    for (const [winner, loser] of [
      ['b', 'a'],
      ['a', 'b'],
    ] as const) {
      const { at, asked, result, hedged, reported } = world();
      await pass(300);
      expect(asked()).toEqual(['a', 'b']);
      await pass(10_000);
      expect(asked()).toEqual(['a', 'b']);
      at(winner).resolve(winner);
      expect(await result).toBe(winner);
      expect(at(loser).attempt.signal?.aborted).toBe(true);
      expect(at(winner).attempt.signal?.aborted).toBe(false);
      expect(hedged()).toEqual([
        [`a ${winner === 'a' ? 'answered' : 'aborted'}`, `b ${winner === 'b' ? 'answered' : 'aborted'}`],
      ]);
      expect(reported()).toEqual([`${winner} ok`]);
    }
  });

  it('waits for the other attempt where one fails, whichever it is', async () => {
    for (const [failed, other] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      const { at, result, hedged, reported } = world();
      await pass(300);
      at(failed).reject(failure(500));
      await pass(0);
      at(other).resolve(other);
      expect(await result).toBe(other);
      expect(hedged()[0]).toEqual(expect.arrayContaining([`${failed} failed`, `${other} answered`]));
      expect(reported()).toEqual([`${failed} 500`, `${other} ok`]);
    }
  });

  it('goes on to the next deployment where both fail', async () => {
    const { at, asked, result, hedged, reported } = world();
    await pass(300);
    at('b').reject(failure(503));
    at('a').reject(failure(500));
    await pass(0);
    expect(asked()).toEqual(['a', 'b', 'c']);
    at('c').resolve('C');
    expect(await result).toBe('C');
    expect(hedged()).toEqual([['a failed', 'b failed']]);
    expect(reported()).toEqual(['b 503', 'a 500', 'c ok']);
  });

  it('fails where the request itself is at fault, and aborts the other attempt', async () => {
    const { at, result, hedged } = world();
    await pass(300);
    at('b').reject(failure(400, false));
    await expect(result).rejects.toMatchObject({ error: { status: 400 } });
    expect(at('a').attempt.signal?.aborted).toBe(true);
    expect(hedged()).toEqual([['a aborted', 'b failed']]);
  });

  it('goes on with the first where the second cannot express the request', async () => {
    const { at, result } = world();
    await pass(300);
    at('b').reject(new UntranslatableRequest('no'));
    await pass(0);
    at('a').resolve('A');
    expect(await result).toBe('A');
  });

  it('is an ordinary one where no other deployment has room; that one may be asked later', async () => {
    const busy = deployed(['a', 'b'], { b: 1 });
    const { router, at, asked, result } = world(busy);
    // Another request has the only place.
    const release = Promise.withResolvers<void>();
    const [, b] = busy;
    const other = router.run([b as Candidate], () => Promise.resolve('other'), {
      signal: new AbortController().signal,
      callerId: 'x',
      stream: false,
      finished: release.promise,
    });
    expect(await other).toBe('other');
    await pass(300);
    expect(asked()).toEqual(['a']);
    release.resolve();
    await pass(0);
    at('a').reject(failure(500));
    await pass(0);
    expect(asked()).toEqual(['a', 'b']);
    at('b').resolve('B');
    expect(await result).toBe('B');
  });

  it('frees the place of the aborted attempt at once', async () => {
    const two = deployed(['a', 'b'], { a: 1 });
    const { router, at, result } = world(two);
    await pass(300);
    at('b').resolve('B');
    await result;
    const [a] = two;
    const next = router.run([a as Candidate], () => Promise.resolve('next'), {
      signal: new AbortController().signal,
      callerId: 'x',
      stream: false,
      finished: Promise.resolve(),
    });
    expect(await next).toBe('next');
  });

  it('ends both attempts where the request is aborted', async () => {
    const controller = new AbortController();
    const { at, result, hedged } = world(undefined, { signal: controller.signal });
    await pass(300);
    expect(at('b')).toBeDefined();
    controller.abort(new Error('the caller left'));
    await expect(result).rejects.toThrow('the caller left');
    expect(hedged()).toEqual([['a aborted', 'b aborted']]);
  });
});
