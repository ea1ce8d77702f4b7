/** Deployments under load, in simulated time: how many requests are answered, and how long they take. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Candidate, Deployment, Routing } from '../../src/gateway/catalog/types.ts';
import { UpstreamRouter } from '../../src/gateway/upstream/router.ts';
import { WireError } from '../../src/wires/core/error.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { sleep } from '../../src/util/sleep.ts';
import { aCandidate } from '../support/gateway/candidates.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Answers or fails a request, in simulated time. */
type Provider = (signal: AbortSignal | undefined) => Promise<void>;

const failure = (status: number, retryAfterMs?: number) =>
  new UpstreamFailure({
    error: new WireError(status, 'upstream_error', `status ${status}`),
    isRetryable: true,
    isUnhealthy: status >= 500,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });

/** The provider's own answer times, in ms. */
const [quickMs, slowMs, failureMs] = [40, 800, 20];

/** One that answers `allowed` requests a second, and then asks to be left alone for the rest of it. */
function limited(allowed: number): Provider {
  const counts = new Map<number, number>();
  return async (signal) => {
    const nowMs = performance.now();
    const second = Math.floor(nowMs / 1000);
    const count = (counts.get(second) ?? 0) + 1;
    counts.set(second, count);
    if (count > allowed) throw failure(429, (second + 1) * 1000 - nowMs);
    await sleep(quickMs, signal);
  };
}
const slow: Provider = (signal) => sleep(slowMs, signal);
const failing: Provider = async (signal) => {
  await sleep(failureMs, signal);
  throw failure(500);
};
/** Mostly quick; every tenth request takes very long. */
function uneven(): Provider {
  let count = 0;
  return (signal) => sleep(count++ % 10 === 9 ? 20 * slowMs : quickMs, signal);
}

const requests = 300;
const everyMs = 100;

/** @returns the share of requests that are answered, and percentiles of their times in ms */
async function simulate(
  providers: Readonly<Record<string, Provider>>,
  { strategy = 'priority', hedgeMs }: { strategy?: Routing['strategy']; hedgeMs?: number } = {},
) {
  const ids = Object.keys(providers);
  const deployments = ids.map((id, index): Deployment => {
    const { model } = aCandidate(`http://${id}/v1`, { id });
    const limits = { requestsPerMinute: undefined, concurrency: undefined };
    return { id: `${id}/m`, model, weight: 1, priority: index + 1, ...limits };
  });
  const routing: Routing = { strategy, sticky: false, hedge: true, deployments };
  const candidates = deployments.map(
    (deployment): Candidate => ({
      model: deployment.model,
      credential: { kind: 'house', apiKey: 'sk' },
      route: { routing, deployment },
    }),
  );
  const router = new UpstreamRouter({
    limits: { retries: 0, breakerFailures: 10_000, breakerSecs: 1 },
    now: () => performance.now(),
    random: () => 0.5,
  });
  const timesMs: number[] = [];
  let attempts = 0;
  const send = async () => {
    const startedAtMs = performance.now();
    const finished = Promise.withResolvers<void>();
    try {
      const order = router.order(candidates, { prefix: '', stream: false, costOf: () => 0n });
      await router.run(
        order,
        async ({ candidate, signal }) => {
          attempts += 1;
          await providers[candidate.model.provider.id]?.(signal);
        },
        {
          signal: new AbortController().signal,
          callerId: 'caller',
          stream: false,
          finished: finished.promise,
          ...(hedgeMs === undefined ? {} : { hedge: { delayMs: hedgeMs, onHedge: () => undefined } }),
        },
      );
      timesMs.push(performance.now() - startedAtMs);
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) throw error;
    } finally {
      finished.resolve();
    }
  };
  const sent: Promise<void>[] = [];
  for (let n = 0; n < requests; n += 1) {
    sent.push(send());
    await vi.advanceTimersByTimeAsync(everyMs);
  }
  await vi.advanceTimersByTimeAsync(60_000);
  await Promise.all(sent);
  const sorted = timesMs.toSorted((one, other) => one - other);
  const percentile = (share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? Infinity;
  return { answered: timesMs.length / requests, p50: percentile(0.5), p99: percentile(0.99), attempts };
}

describe('three deployments, one slow, one that fails and one with a rate limit', () => {
  const all = () => ({ limited: limited(5), failing, slow });

  it('answer every request, half of them at the speed of the quick one; none of them alone does both', async () => {
    const alone = {
      slow: await simulate({ slow }),
      failing: await simulate({ failing }),
      limited: await simulate({ limited: limited(5) }),
    };
    expect(alone.slow).toMatchObject({ answered: 1, p50: slowMs, p99: slowMs });
    expect(alone.failing.answered).toBe(0);
    expect(alone.limited.answered).toBeLessThan(0.6);

    const together = await simulate(all());
    expect(together.answered).toBe(1);
    expect(together.p50).toBeLessThanOrEqual(quickMs + failureMs);
    // The slowest take as long as at the slow one alone, and the time of a failure before it.
    expect(together.p99).toBeLessThanOrEqual(slowMs + failureMs);
    // The one that fails, and the one that asks for it, are spared: fewer than two attempts in ten are in vain.
    expect(together.attempts).toBeLessThan(requests * 1.2);
  });

  it('do so with every routing', async () => {
    for (const strategy of ['weighted', 'least_latency', 'least_cost'] as const) {
      const { answered, p99 } = await simulate(all(), { strategy });
      expect([strategy, answered]).toEqual([strategy, 1]);
      expect(p99, strategy).toBeLessThanOrEqual(slowMs + failureMs);
    }
  });
});

describe('a deployment that sometimes takes very long', () => {
  it('is no longer the slowest tenth of answers where requests are hedged, at the price of one attempt in ten', async () => {
    const plain = await simulate({ uneven: uneven(), slow });
    expect(plain).toMatchObject({ answered: 1, p99: 20 * slowMs, attempts: requests });
    const hedged = await simulate({ uneven: uneven(), slow }, { hedgeMs: 100 });
    expect(hedged.answered).toBe(1);
    expect(hedged.p50).toBe(quickMs);
    expect(hedged.p99).toBe(100 + slowMs);
    expect(hedged.attempts).toBe(requests * 1.1);
  });
});
