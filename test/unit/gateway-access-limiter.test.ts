import type { WireError } from '../../src/wires/core/error.ts';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { KeyLimits } from '../../src/gateway/access/limits.ts';
import { createMemoryLimiter } from '../../src/gateway/access/memory-limiter.ts';
import { takeRequest, requestRateOf } from '../../src/gateway/access/request-rate.ts';
import { SharedLimiter } from '../../src/gateway/access/shared-limiter.ts';
import type { Caller, Limiter } from '../../src/gateway/access/types.ts';
import { GatewayStore } from '../../src/gateway/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { ManualClock } from '../support/manual-clock.ts';

const caller = (id: string, own: Partial<KeyLimits> = {}) =>
  ({ accountId: 'a_1', key: { id, ...own } }) as Caller;

/** The decision of a limiter: `in`, or the first words of its error. */
async function entering(limiter: Limiter, id = 'k_1') {
  try {
    return { outcome: 'in', ...(await limiter.acquire(caller(id))) };
  } catch (error) {
    const { message } = error as Error;
    const outcome = /requests? running/.test(message)
      ? 'concurrency'
      : /in a minute/.test(message)
        ? 'rate'
        : message;
    return { outcome, release: () => undefined };
  }
}
const outcomeOf = async (limiter: Limiter, id = 'k_1') => (await entering(limiter, id)).outcome;
const rounds = <T>(count: number, work: () => Promise<T>) => Promise.all(Array.from({ length: count }, work));
const counted = (outcomes: readonly string[]) => ({
  in: outcomes.filter((one) => one === 'in').length,
  out: outcomes.filter((one) => one !== 'in').length,
});

describe('the request rate of a key', () => {
  it('admits, in any period, one bucket plus the refill of that period, and refuses nothing below that', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.nat(8_000_000), { minLength: 1, maxLength: 200 }),
        (perMinute, pauses) => {
          const pace = requestRateOf(perMinute);
          const admitted: number[] = [];
          let [now, fullAt] = [1_000_000_000, 0];
          for (const pause of pauses) {
            now += pause;
            // From every earlier request on: what came since then and this one fit into what the bucket then had and got.
            const fits = admitted.every(
              (from, index) =>
                admitted.length - index + 1 <= perMinute + Math.floor((now - from) / pace.intervalMicros),
            );
            const after = takeRequest(pace, fullAt, now);
            expect(after !== undefined).toBe(fits || admitted.length < perMinute);
            if (after === undefined) continue;
            fullAt = after;
            admitted.push(now);
          }
        },
      ),
    );
  });

  it('refills a whole bucket within a minute', () => {
    for (const perMinute of [1, 7, 60, 6000, 10_000_000]) {
      const pace = requestRateOf(perMinute);
      expect(pace.depthMicros).toBeGreaterThanOrEqual(60e6);
      expect(pace.depthMicros).toBeLessThan(60e6 + perMinute);
    }
  });

  it('recovers when a clock that was far ahead is corrected', () => {
    const pace = requestRateOf(10);
    const wrong = takeRequest(pace, 0, 3600e6) ?? 0;
    expect(takeRequest(pace, wrong, 1000e6)).toBe(1000e6 + pace.intervalMicros);
  });
});

const refusal = (message: string) => ({
  name: 'WireError',
  status: 429,
  type: 'rate_limit_error',
  code: 'rate_limit_exceeded',
  headers: expect.objectContaining({ 'retry-after': '1' }) as object,
  body: { message, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' },
});

/** Guarantees of both limiters. */
function promises(make: (limits: KeyLimits) => Promise<{ limiter: Limiter; clock: ManualClock }>) {
  it('limits concurrency, and admits the next request when one has left', async () => {
    const { limiter } = await make({ concurrency: 2, requestsPerMinute: 1000 });
    const [first, second] = [await entering(limiter), await entering(limiter)];
    expect([first.outcome, second.outcome, await outcomeOf(limiter)]).toEqual(['in', 'in', 'concurrency']);
    await expect(limiter.acquire(caller('k_1'))).rejects.toMatchObject(
      refusal('This key has 2 requests running, which is its limit: wait for one of them to end.'),
    );
    first.release();
    first.release();
    expect([await outcomeOf(limiter), await outcomeOf(limiter)]).toEqual(['in', 'concurrency']);
  });

  it('limits the rate, refilling one request at a time', async () => {
    const { limiter, clock } = await make({ concurrency: 100, requestsPerMinute: 6 });
    const outcome = [];
    for (let n = 0; n < 8; n++) outcome.push(await outcomeOf(limiter));
    expect(outcome).toEqual([...Array.from({ length: 6 }, () => 'in'), 'rate', 'rate']);
    await expect(limiter.acquire(caller('k_1'))).rejects.toMatchObject(
      refusal('This key has sent 6 requests in a minute, which is its limit: send them more slowly.'),
    );
    const wait = () =>
      limiter.acquire(caller('k_1')).then(
        () => undefined,
        (error: unknown) => (error as WireError).headers['retry-after-ms'],
      );
    expect(await wait()).toBe('10000');
    clock.pass(9999);
    expect(await wait()).toBe('1');
    expect(await outcomeOf(limiter)).toBe('rate');
    clock.pass(1);
    expect([await outcomeOf(limiter), await outcomeOf(limiter)]).toEqual(['in', 'rate']);
    clock.pass(60_000);
    expect(counted(await rounds(10, () => outcomeOf(limiter)))).toEqual({ in: 6, out: 4 });
  });

  it('counts each key separately', async () => {
    const { limiter } = await make({ concurrency: 1, requestsPerMinute: 10 });
    expect([
      await outcomeOf(limiter, 'k_1'),
      await outcomeOf(limiter, 'k_2'),
      await outcomeOf(limiter, 'k_1'),
    ]).toEqual(['in', 'in', 'concurrency']);
  });

  it('does not count refused requests', async () => {
    const { limiter } = await make({ concurrency: 1, requestsPerMinute: 3 });
    for (let n = 0; n < 3; n++) {
      const { outcome, release: leave } = await entering(limiter);
      expect(outcome).toBe('in');
      for (let m = 0; m < 5; m++) expect(await outcomeOf(limiter)).toBe('concurrency');
      leave();
    }
    expect(await outcomeOf(limiter)).toBe('rate');
  });

  it('limits the tokens: takes an estimate first, then what was used', async () => {
    const { limiter, clock } = await make({
      concurrency: 100,
      requestsPerMinute: 1000,
      tokensPerMinute: 600,
    });
    const use = async (estimate: number) => await limiter.acquire(caller('k_1'), estimate);
    const first = await use(200);
    const second = await use(300);
    // Too much by 250, and too little by 150: 400 of 600 are used.
    first.countTokens(50);
    second.countTokens(350);
    second.countTokens(10_000);
    await Promise.resolve();
    const third = await use(199);
    await expect(use(1)).resolves.toBeDefined();
    await expect(use(1)).rejects.toMatchObject(
      refusal(
        'This key has used 600 tokens in a minute, which is its limit: send requests more slowly, or shorter ones.',
      ),
    );
    clock.pass(100);
    const late = await use(1);
    third.countTokens(0);
    late.countTokens(300);
    // 101 too many were used: as many as are refilled in 10.1 s.
    const isIn = async () =>
      await use(0).then(
        () => true,
        () => false,
      );
    await expect.poll(isIn).toBe(false);
    clock.pass(9900);
    expect(await isIn()).toBe(false);
    clock.pass(201);
    expect(await isIn()).toBe(true);
  });

  it('owes the tokens of at most ten minutes', async () => {
    const { limiter, clock } = await make({ concurrency: 9, requestsPerMinute: 100, tokensPerMinute: 10 });
    (await limiter.acquire(caller('k_1'))).countTokens(1_000_000);
    await expect
      .poll(async () =>
        limiter.acquire(caller('k_1')).then(
          () => 'in',
          () => 'out',
        ),
      )
      .toBe('out');
    clock.pass(599_999);
    await expect(limiter.acquire(caller('k_1'))).rejects.toThrow(/tokens/);
    clock.pass(2);
    await expect(limiter.acquire(caller('k_1'))).resolves.toBeDefined();
  });

  it("prefers a key's own limits, and follows their changes", async () => {
    const { limiter } = await make({ concurrency: 1, requestsPerMinute: 1000 });
    const asKey = (own: Partial<KeyLimits>, tokens = 0) => limiter.acquire(caller('k_1', own), tokens);
    await asKey({ concurrency: 3 });
    await asKey({ concurrency: 3 });
    await expect(asKey({})).rejects.toThrow(/1 request running/);
    await expect(asKey({ concurrency: 2 })).rejects.toThrow(/2 requests running/);
    await expect(
      asKey({ concurrency: 9, requestsPerMinute: 2 }).then(() =>
        asKey({ concurrency: 9, requestsPerMinute: 2 }),
      ),
    ).rejects.toThrow(/2 requests in a minute/);
    await asKey({ concurrency: 9, requestsPerMinute: 1000, tokensPerMinute: 5 }, 5);
    await expect(asKey({ concurrency: 9, tokensPerMinute: 5 })).rejects.toThrow(/5 tokens/);
    await asKey({ concurrency: 9 });
  });

  it('admits exactly the limit of simultaneous requests', async () => {
    const { limiter } = await make({ concurrency: 7, requestsPerMinute: 1000 });
    expect(counted(await rounds(50, () => outcomeOf(limiter)))).toEqual({ in: 7, out: 43 });
  });
}

describe('the limiter of one gateway', () => {
  const make = (limits: KeyLimits) => {
    const clock = new ManualClock();
    return Promise.resolve({ limiter: createMemoryLimiter(limits, clock.monotonic), clock });
  };
  promises(make);

  it('behaves like a reference model in any order of entering, leaving and waiting', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 8 }),
        fc.array(
          fc.oneof(
            fc.record({ act: fc.constant('enter' as const), key: fc.constantFrom('k_1', 'k_2', 'k_3') }),
            fc.record({ act: fc.constant('leave' as const), nth: fc.nat(20) }),
            fc.record({ act: fc.constant('pass' as const), ms: fc.nat(20_000) }),
          ),
          { maxLength: 100 },
        ),
        async (concurrency, requestsPerMinute, acts) => {
          const { limiter, clock } = await make({ concurrency, requestsPerMinute });
          const running: { key: string; leave: () => void }[] = [];
          const buckets = new Map<string, { tokens: number; at: number }>();
          const interval = Math.ceil(60e6 / requestsPerMinute);
          for (const step of acts) {
            if (step.act === 'pass') clock.pass(step.ms);
            else if (step.act === 'leave') running.splice(step.nth, 1)[0]?.leave();
            else {
              const now = clock.monotonic() * 1000;
              // In parts of a request, so that it stays whole numbers.
              const bucket = buckets.get(step.key) ?? { tokens: requestsPerMinute * interval, at: now };
              bucket.tokens = Math.min(requestsPerMinute * interval, bucket.tokens + now - bucket.at);
              bucket.at = now;
              buckets.set(step.key, bucket);
              const expected =
                running.filter(({ key }) => key === step.key).length >= concurrency
                  ? 'concurrency'
                  : bucket.tokens < interval
                    ? 'rate'
                    : 'in';
              const { outcome, release: leave } = await entering(limiter, step.key);
              expect(outcome).toBe(expected);
              if (outcome !== 'in') continue;
              bucket.tokens -= interval;
              running.push({ key: step.key, leave });
            }
          }
        },
      ),
    );
  });
});

describeDatabases('the limiter of all gateways on a database', (url) => {
  const opened: { limiter: SharedLimiter; store: GatewayStore }[] = [];
  const faults: unknown[] = [];
  afterEach(async () => {
    for (const { limiter, store } of opened.splice(0)) {
      await limiter.close();
      await store.close();
    }
    expect(faults.splice(0)).toEqual([]);
  });
  async function gateway(at: string, replicaId: string, limits: KeyLimits, clock: ManualClock) {
    const store = await GatewayStore.open({ url: at, replicaId, now: clock.now });
    const limiter = new SharedLimiter({ store, limits, onFault: (error) => faults.push(error) });
    opened.push({ limiter, store });
    return limiter;
  }
  const several = async (limits: KeyLimits, count = 3) => {
    const [at, clock] = [await url(), new ManualClock()];
    const limiters: SharedLimiter[] = [];
    for (let n = 0; n < count; n++) limiters.push(await gateway(at, `replica_${n}`, limits, clock));
    const [first, second, third] = limiters as [SharedLimiter, SharedLimiter, SharedLimiter];
    return { at, clock, limiters, first, second, third };
  };

  promises(async (limits) => {
    const { first, clock } = await several(limits, 1);
    return { limiter: first, clock };
  });

  it('limits concurrency over all of them', async () => {
    const { first, second } = await several({ concurrency: 3, requestsPerMinute: 1000 }, 2);
    const places = [await entering(first), await entering(first), await entering(second)];
    expect([await outcomeOf(first), await outcomeOf(second)]).toEqual(['concurrency', 'concurrency']);
    places[0]?.release();
    // Ended requests are reported to the others with the next write.
    await first.heartbeat();
    expect([await outcomeOf(second), await outcomeOf(first)]).toEqual(['in', 'concurrency']);
  });

  it('limits the rate over all of them', async () => {
    const { first, second, clock } = await several({ concurrency: 100, requestsPerMinute: 6 }, 2);
    const outcome = [];
    for (let n = 0; n < 4; n++) outcome.push(await outcomeOf(first), await outcomeOf(second));
    expect(counted(outcome)).toEqual({ in: 6, out: 2 });
    clock.pass(10_000);
    expect([await outcomeOf(first), await outcomeOf(second)]).toEqual(['in', 'rate']);
  });

  it('counts the tokens of all of them', async () => {
    const limits = { concurrency: 100, requestsPerMinute: 1000, tokensPerMinute: 100 };
    const { first, second } = await several(limits, 2);
    await first.acquire(caller('k_1'), 60);
    const { countTokens } = await second.acquire(caller('k_1'), 30);
    countTokens(40);
    await second.heartbeat();
    await expect(first.acquire(caller('k_1'))).rejects.toThrow(/100 tokens in a minute/);
    await expect(second.acquire(caller('k_1'))).rejects.toThrow(/100 tokens in a minute/);
    await expect(first.acquire(caller('k_2'))).resolves.toBeDefined();
  });

  it('admits exactly the limit of simultaneous requests over all gateways', async () => {
    const { limiters } = await several({ concurrency: 10, requestsPerMinute: 1000 });
    const attempts = limiters.flatMap((limiter) => Array.from({ length: 20 }, () => outcomeOf(limiter)));
    expect(counted(await Promise.all(attempts))).toEqual({ in: 10, out: 50 });
    const rate = await several({ concurrency: 1000, requestsPerMinute: 10 });
    const others = rate.limiters.flatMap((limiter) =>
      Array.from({ length: 40 }, (_, n) => outcomeOf(limiter, `k_${n % 2}`)),
    );
    expect(counted(await Promise.all(others))).toEqual({ in: 20, out: 100 });
  });

  it('counts the requests of a dead gateway until their lease expires', async () => {
    const limits = { concurrency: 2, requestsPerMinute: 1000 };
    const { first, second, clock } = await several(limits, 2);
    await entering(first);
    await entering(first);
    expect(await outcomeOf(second)).toBe('concurrency');
    clock.pass(29_999);
    expect(await outcomeOf(second)).toBe('concurrency');
    clock.pass(1);
    expect(counted(await rounds(3, () => outcomeOf(second)))).toEqual({ in: 2, out: 1 });
  });

  it('keeps counting the requests of a living gateway, however long they take', async () => {
    const { first, second, clock } = await several({ concurrency: 1, requestsPerMinute: 1000 }, 2);
    const { release: leave } = await entering(first);
    for (let n = 0; n < 12; n++) {
      clock.pass(10_000);
      await first.heartbeat();
      expect(await outcomeOf(second)).toBe('concurrency');
    }
    leave();
    await first.heartbeat();
    expect(await outcomeOf(second)).toBe('in');
  });

  it('deletes the rows of dead gateways', async () => {
    const { at, first, second, clock } = await several({ concurrency: 5, requestsPerMinute: 1000 }, 2);
    await entering(first, 'k_1');
    await entering(second, 'k_2');
    clock.pass(30_001);
    await second.heartbeat();
    const store = await GatewayStore.open({ url: at, replicaId: 'looking' });
    const rows = await store.read((db) =>
      db
        .withTables<{ gateway_running: { key_id: string; replica_id: string } }>()
        .selectFrom('gateway_running')
        .select(['key_id', 'replica_id'])
        .execute(),
    );
    await store.close();
    expect(rows).toEqual([{ key_id: 'k_2', replica_id: 'replica_1' }]);
  });

  it('in any order over three gateways, never exceeds the limit and loses no place', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ gateway: fc.nat(2), key: fc.constantFrom('k_1', 'k_2'), leaves: fc.boolean() }),
          { minLength: 1, maxLength: 60 },
        ),
        async (acts) => {
          const { limiters } = await several({ concurrency: 4, requestsPerMinute: 100_000 });
          const running = new Map([
            ['k_1', 0],
            ['k_2', 0],
          ]);
          const change = (key: string, by: number) => running.set(key, (running.get(key) ?? 0) + by);
          let maxRunning = 0;
          await Promise.all(
            acts.map(async ({ gateway: nth, key, leaves }) => {
              const { outcome, release: leave } = await entering(limiters[nth] as SharedLimiter, key);
              if (outcome !== 'in') return;
              change(key, 1);
              maxRunning = Math.max(maxRunning, running.get(key) ?? 0);
              await new Promise((resolve) => setImmediate(resolve));
              if (!leaves) return;
              change(key, -1);
              leave();
            }),
          );
          expect(maxRunning).toBeLessThanOrEqual(4);
          for (const limiter of limiters) await limiter.heartbeat();
          for (const key of running.keys())
            expect(counted(await rounds(6, () => outcomeOf(limiters[0] as SharedLimiter, key))).in).toBe(
              4 - (running.get(key) ?? 0),
            );
          for (const { limiter, store } of opened.splice(0)) {
            await limiter.close();
            await store.close();
          }
        },
      ),
      { numRuns: 8 },
    );
  });

  it('handles every request, at whatever moment of a transaction it arrives', async () => {
    const { first } = await several({ concurrency: 1000, requestsPerMinute: 1000 }, 1);
    // No more heartbeats, which would handle a forgotten request.
    await first.close();
    for (let moments = 0; moments < 40; moments++) {
      const places = await first.acquire(caller('k_1')).then(async (place) => {
        for (let n = 0; n < moments; n++) await Promise.resolve();
        return [place, await first.acquire(caller('k_1'))];
      });
      for (const { release: leave } of places) leave();
    }
  });

  it('passes database errors on, and is correct again after the next heartbeat', async () => {
    const [at, clock] = [await url(), new ManualClock()];
    const store = await GatewayStore.open({ url: at, replicaId: 'one', now: clock.now });
    const heard: string[] = [];
    const limits = { concurrency: 3, requestsPerMinute: 1000 };
    const limiter = new SharedLimiter({ store, limits, onFault: (error) => heard.push(String(error)) });
    opened.push({ limiter, store });
    const other = await gateway(at, 'two', limits, clock);
    const roomElsewhere = async () => {
      const places = await rounds(4, () => entering(other));
      for (const { release: leave } of places) leave();
      await other.heartbeat();
      return counted(places.map(({ outcome }) => outcome)).in;
    };
    const places = [await entering(limiter), await entering(limiter)];
    expect(await roomElsewhere()).toBe(1);

    const batch = store.batch.bind(store);
    store.batch = () => Promise.reject(new Error('the database is away'));
    expect(await outcomeOf(limiter)).toBe('the database is away');
    places[0]?.release();
    await limiter.heartbeat();
    expect(heard).toContain('Error: the database is away');
    store.batch = batch;
    await limiter.heartbeat();
    expect(await roomElsewhere()).toBe(2);

    places[1]?.release();
    await limiter.heartbeat();
    store.batch = async (work) => {
      await batch(work);
      store.batch = batch;
      throw new Error('saved, but nobody heard');
    };
    expect(await outcomeOf(limiter)).toBe('saved, but nobody heard');
    await limiter.heartbeat();
    expect(await roomElsewhere()).toBe(3);
  });
});
