/** Which deployment of a model is asked, in which order, and what a failure of one means for the others. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Candidate, Deployment, Routing } from '../../src/gateway/catalog/types.ts';
import { orderCandidates, type OrderFacts } from '../../src/gateway/upstream/deployment-order.ts';
import { HostFailure } from '../../src/gateway/upstream/provider-failures.ts';
import { UpstreamRouter } from '../../src/gateway/upstream/router.ts';
import { type Attempt, type AttemptReport, UntranslatableRequest } from '../../src/gateway/upstream/types.ts';
import { WireError } from '../../src/wires/core/error.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { providerFault } from '../../src/wires/core/provider-faults.ts';
import { aCandidate, ownCandidate } from '../support/gateway/candidates.ts';
import { ManualClock } from '../support/manual-clock.ts';

interface Place
  extends Partial<Pick<Deployment, 'weight' | 'priority' | 'requestsPerMinute' | 'concurrency'>> {
  readonly id: string;
}

/** The deployments of a model, as candidates in the order of the file. */
function deployed(
  places: readonly Place[],
  { strategy = 'priority', sticky = false }: Partial<Pick<Routing, 'strategy' | 'sticky'>> = {},
): Candidate[] {
  const deployments = places.map(
    ({ id, weight = 1, priority = 1, requestsPerMinute, concurrency }): Deployment => {
      const { model } = aCandidate(`http://${id}/v1`, { id });
      return { id: `${id}/m`, model, weight, priority, requestsPerMinute, concurrency };
    },
  );
  const routing: Routing = { strategy, sticky, hedge: false, deployments };
  return deployments.map((deployment) => ({
    model: deployment.model,
    credential: { kind: 'house', apiKey: 'sk-house' },
    route: { routing, deployment },
  }));
}
const spare = (): Candidate => {
  const candidate = aCandidate('http://spare/v1', { id: 'spare' });
  return { ...candidate, model: { ...candidate.model, id: 'spare-model' } };
};
const namesOf = (candidates: readonly Candidate[]) => candidates.map(({ model }) => model.provider.id);

/** Deterministic random numbers in [0, 1). */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
const factsOf = (facts: Partial<OrderFacts> = {}): OrderFacts => ({
  prefix: '',
  costOf: () => 0n,
  cooldownMsOf: () => 0,
  latencyMsOf: () => 0,
  random: seeded(1),
  ...facts,
});
const prefixOf = (n: number) => `You are assistant number ${n}.`;

/** How often each deployment is the first of an order. */
function countFirst(candidates: readonly Candidate[], count: number, facts: (n: number) => OrderFacts) {
  const counts = new Map(namesOf(candidates).map((name) => [name, 0]));
  for (let n = 0; n < count; n += 1) {
    const [first = ''] = namesOf(orderCandidates(candidates, facts(n)));
    counts.set(first, (counts.get(first) ?? 0) + 1);
  }
  return counts;
}

const placesOf = fc
  .uniqueArray(fc.nat(1000), { minLength: 1, maxLength: 6 })
  .chain((ids) =>
    fc
      .array(fc.integer({ min: 1, max: 20 }), { minLength: ids.length, maxLength: ids.length })
      .map((weights) => ids.map((id, index) => ({ id: `p${id}`, weight: weights[index] ?? 1 }))),
  );

describe('the order of deployments', () => {
  it.each([false, true])('is drawn in proportion to the weights; sticky: %s', (sticky) => {
    fc.assert(
      fc.property(placesOf, fc.nat(1e6), (places, seed) => {
        const count = 3000;
        const candidates = deployed(places, { strategy: 'weighted', sticky });
        const random = seeded(seed);
        const counts = countFirst(candidates, count, (n) => factsOf({ prefix: prefixOf(seed + n), random }));
        const total = places.reduce((sum, { weight }) => sum + weight, 0);
        for (const { id, weight } of places) {
          const share = weight / total;
          const deviation = Math.sqrt(count * share * (1 - share));
          expect(Math.abs((counts.get(id) ?? 0) - count * share)).toBeLessThanOrEqual(5 * deviation + 1);
        }
      }),
      { numRuns: 40, seed: 7 },
    );
  });

  it('names every deployment once, whatever the strategy and the state', () => {
    fc.assert(
      fc.property(
        placesOf,
        fc.constantFrom('priority', 'weighted', 'least_latency', 'least_cost'),
        fc.boolean(),
        fc.array(fc.constantFrom(0, 5, Infinity, -Infinity), { minLength: 6, maxLength: 6 }),
        (places, strategy, sticky, numbers) => {
          const candidates = [...deployed(places, { strategy, sticky }), spare()];
          const numberOf = (one: Candidate) => numbers[candidates.indexOf(one)] ?? 0;
          const facts = factsOf({
            latencyMsOf: numberOf,
            cooldownMsOf: (one) => Math.max(0, Math.min(numberOf(one), 9)),
          });
          const order = orderCandidates(candidates, facts);
          expect(order.at(-1)).toBe(candidates.at(-1));
          expect(new Set(order)).toEqual(new Set(candidates));
        },
      ),
    );
  });

  it('of a sticky model is that of the prefix, and a deployment less or more moves only its own share', () => {
    fc.assert(
      fc.property(
        placesOf,
        fc.nat(5),
        fc.array(fc.string({ maxLength: 2000 }), { maxLength: 20 }),
        (places, at, prefixes) => {
          const all = deployed(places, { strategy: 'weighted', sticky: true });
          const removed = places[at % places.length]?.id;
          const rest = deployed(
            places.filter(({ id }) => id !== removed),
            { strategy: 'weighted', sticky: true },
          );
          for (const prefix of prefixes) {
            const order = namesOf(orderCandidates(all, factsOf({ prefix, random: Math.random })));
            const reversed = orderCandidates(all.toReversed(), factsOf({ prefix, random: Math.random }));
            expect(namesOf(reversed)).toEqual(order);
            const without = namesOf(orderCandidates(rest, factsOf({ prefix })));
            expect(without).toEqual(order.filter((id) => id !== removed));
          }
        },
      ),
    );
  });

  it('of sticky models hashes the prefix once', () => {
    let reads = 0;
    const facts: OrderFacts = {
      ...factsOf(),
      get prefix() {
        reads += 1;
        return 'You are helpful.';
      },
    };
    const places = [{ id: 'a' }, { id: 'b' }, { id: 'c' }];
    const others = deployed(places, { sticky: true }).map((candidate) => ({
      ...candidate,
      model: { ...candidate.model, id: 'spare-model' },
    }));
    orderCandidates([...deployed(places, { sticky: true }), ...others], facts);
    expect(reads).toBe(1);
  });

  it('of a sticky model stays the same while a conversation grows', () => {
    const candidates = deployed([{ id: 'a' }, { id: 'b' }, { id: 'c' }], { sticky: true });
    const system = 'You are helpful. '.repeat(100);
    const orders = ['', 'Hi', 'x'.repeat(5000)].map((more) =>
      namesOf(orderCandidates(candidates, factsOf({ prefix: system + more }))).join(),
    );
    expect(new Set(orders).size).toBe(1);
  });

  it('is by priority, then by weight', () => {
    const candidates = deployed([
      { id: 'backup', priority: 2 },
      { id: 'a', weight: 3 },
      { id: 'b' },
      { id: 'last', priority: 9 },
    ]);
    const random = seeded(3);
    const counts = countFirst(candidates, 4000, () => factsOf({ random }));
    expect([counts.get('backup'), counts.get('last')]).toEqual([0, 0]);
    expect(Math.abs((counts.get('a') ?? 0) - 3000)).toBeLessThan(150);
    expect(namesOf(orderCandidates(candidates, factsOf())).slice(2)).toEqual(['backup', 'last']);
  });

  it('is by cost, or by latency', () => {
    const amounts = new Map([
      ['a', 3],
      ['b', 1],
      ['c', 2],
    ]);
    const amountOf = ({ model }: Candidate) => amounts.get(model.provider.id) ?? 0;
    const places = [...amounts.keys()].map((id) => ({ id }));
    const byCost = orderCandidates(
      deployed(places, { strategy: 'least_cost' }),
      factsOf({ costOf: (one) => BigInt(amountOf(one)) }),
    );
    const byLatency = orderCandidates(
      deployed(places, { strategy: 'least_latency' }),
      factsOf({ latencyMsOf: amountOf }),
    );
    for (const order of [byCost, byLatency]) expect(namesOf(order)).toEqual(['b', 'c', 'a']);
  });

  it('has those that cool down last, the soonest first', () => {
    const candidates = deployed([{ id: 'a' }, { id: 'b', priority: 2 }, { id: 'c' }]);
    const cooldowns = new Map([
      ['a', 200],
      ['c', 100],
    ]);
    const facts = factsOf({ cooldownMsOf: ({ model }) => cooldowns.get(model.provider.id) ?? 0 });
    expect(namesOf(orderCandidates(candidates, facts))).toEqual(['b', 'c', 'a']);
  });
});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** What a provider's answer of this status means. */
const fault = (status: number, headers: Record<string, string> = {}, message = '') =>
  new UpstreamFailure(providerFault(status, { message }, headers));
const timeout = new UpstreamFailure({
  error: new WireError(504, 'upstream_error', 'too long', { code: 'upstream_timeout' }),
  isRetryable: true,
  isUnhealthy: false,
});

function world(limits: Partial<{ retries: number; breakerFailures: number; breakerSecs: number }> = {}) {
  const clock = new ManualClock();
  const reports: AttemptReport[] = [];
  const router = new UpstreamRouter({
    limits: { retries: 0, breakerFailures: 1000, breakerSecs: 30, ...limits },
    now: clock.monotonic,
    random: () => 0.5,
  });
  const order = (candidates: readonly Candidate[], stream = false) =>
    router.order(candidates, { prefix: '', stream, costOf: () => 0n });
  const start = (
    candidates: readonly Candidate[],
    attempt: (attempt: Attempt) => Promise<string>,
    { caller = 'caller', finished = Promise.resolve(), stream = false } = {},
  ) =>
    router.run(order(candidates, stream), attempt, {
      signal: new AbortController().signal,
      callerId: caller,
      stream,
      finished,
      onAttempt: (report) => reports.push(report),
    });
  /** @param script what a provider fails with; undefined: it answers. @returns the provider that answered */
  const run = async (
    candidates: readonly Candidate[],
    script: Readonly<Record<string, Error | (() => Error | undefined)>> = {},
    options?: Parameters<typeof start>[2],
  ): Promise<string> => {
    const result = Promise.allSettled([
      start(
        candidates,
        async ({ candidate }) => {
          const name = candidate.model.provider.id;
          const scripted = script[name];
          const failure = typeof scripted === 'function' ? scripted() : scripted;
          if (failure) throw failure;
          return name;
        },
        options,
      ),
    ]);
    await vi.runAllTimersAsync();
    const [settled] = await result;
    if (settled.status === 'fulfilled') return settled.value;
    throw settled.reason;
  };
  const triedNames = () => reports.splice(0).map(({ candidate }) => candidate.model.provider.id);
  return { clock, reports, router, run, start, order, triedNames };
}
const pair = (more: Partial<Place> = {}) =>
  deployed([
    { id: 'a', ...more },
    { id: 'b', priority: 2 },
  ]);

describe('a failure of a deployment', () => {
  it.each([
    ['a rate limit', fault(429)],
    ['a rate limit of an hour', fault(429, { 'retry-after': '3600' })],
    ['a server error', fault(500)],
    ['an overloaded server', fault(503, { 'retry-after': '5' })],
    ['a timeout', timeout],
    ['a refused credential', fault(401)],
    ['a forbidden credential', fault(403)],
    ['an account without credit', fault(402)],
    ['an unknown model', fault(404)],
  ])('goes on to the next one at once: %s', async (_, failure) => {
    const { run, reports } = world({ retries: 2 });
    expect(await run(pair(), { a: failure })).toBe('b');
    expect(reports.map(({ retryDelayMs, candidateIndex }) => [retryDelayMs, candidateIndex])).toEqual([
      [undefined, 0],
      [undefined, 0],
    ]);
  });

  it.each([
    ['an invalid request', fault(400)],
    ['a prompt that is too long', fault(400, {}, 'prompt is too long: 9000 tokens')],
    ['an unprocessable request', fault(422)],
  ])('is not what the caller caused: %s', async (_, failure) => {
    const { run, triedNames, order } = world({ retries: 2 });
    await expect(run([...pair(), spare()], { a: failure })).rejects.toBe(failure);
    expect(triedNames()).toEqual(['a']);
    expect(namesOf(order(pair()))).toEqual(['a', 'b']);
  });

  it('is retried only after the other deployments, the soonest first; then a fallback is tried', async () => {
    const { run, reports, triedNames } = world({ retries: 2 });
    const candidates = [...pair(), spare()];
    expect(await run(candidates, { a: fault(429, { 'retry-after': '3' }), b: fault(500) })).toBe('spare');
    expect(reports.map(({ retryDelayMs }) => retryDelayMs)).toEqual([
      undefined,
      187.5,
      375,
      undefined,
      undefined,
    ]);
    expect(reports.at(-1)).toMatchObject({ candidateIndex: 1 });
    expect(triedNames()).toEqual(['a', 'b', 'b', 'b', 'spare']);
  });

  it('reports what a retry may resolve; a fallback is not for a model that cannot be used', async () => {
    const { run, triedNames } = world();
    const limited = fault(429);
    await expect(run(pair(), { a: limited, b: fault(401) })).rejects.toBe(limited);
    triedNames();
    const refused = fault(401);
    await expect(run([...pair(), spare()], { a: refused, b: refused })).rejects.toBe(refused);
    expect(triedNames().toSorted()).toEqual(['a', 'b']);
  });

  it('for good leaves a fallback to the model while another deployment is full or has an open breaker', async () => {
    const refused = fault(401);
    const full = world();
    const [a, b] = deployed([{ id: 'a' }, { id: 'b', concurrency: 1 }]) as [Candidate, Candidate];
    const end = Promise.withResolvers<void>();
    await full.run([b], {}, { finished: end.promise });
    full.triedNames();
    expect(await full.run([a, b, spare()], { a: refused })).toBe('spare');
    expect(full.triedNames()).toEqual(['a', 'spare']);
    await expect(full.run([a, b], { a: refused })).rejects.toBe(refused);
    end.resolve();

    const broken = world({ breakerFailures: 2 });
    for (const caller of ['x', 'y'])
      await broken.run([b], { b: fault(500) }, { caller }).catch(() => undefined);
    broken.triedNames();
    expect(await broken.run([a, b, spare()], { a: refused })).toBe('spare');
    expect(broken.triedNames()).toEqual(['a', 'spare']);

    // One that cannot express the request will not be able to later.
    const skip = new UntranslatableRequest('no seed there', { cause: refused });
    await expect(world().run([a, b, spare()], { a: refused, b: skip })).rejects.toBe(refused);
  });

  it('of one host of a pool is retried at another host of the pool', async () => {
    const { run, triedNames, order } = world({ retries: 1 });
    let failures = 1;
    const dead = () => (failures-- > 0 ? new HostFailure(fault(502)) : undefined);
    expect(await run(pair(), { a: dead })).toBe('a');
    expect(triedNames()).toEqual(['a', 'a']);
    expect(namesOf(order(pair()))).toEqual(['a', 'b']);
  });

  it('asks every deployment before any is retried, and never more than the retries allow', async () => {
    const failures = [
      undefined,
      fault(500),
      fault(429),
      fault(401),
      timeout,
      fault(429, { 'retry-after': '1' }),
    ];
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.constantFrom(...failures), { minLength: 6, maxLength: 6 }), {
          minLength: 1,
          maxLength: 5,
        }),
        fc.nat(3),
        async (scripts, retries) => {
          const { run, triedNames } = world({ retries });
          const places = scripts.map((_, index) => ({ id: `p${index}` }));
          const next = scripts.map(() => 0);
          const script = Object.fromEntries(
            scripts.map((list, index) => [
              `p${index}`,
              () => list[(next[index] = (next[index] ?? 0) + 1) - 1],
            ]),
          );
          const answer = await run(deployed(places), script).catch(() => undefined);
          const tried = triedNames();
          const firsts = tried.slice(0, places.length);
          expect(new Set(firsts).size).toBe(firsts.length);
          expect(tried.length).toBeLessThanOrEqual(places.length + retries);
          if (scripts.some(([first]) => first === undefined)) {
            expect(answer).toBe(tried.at(-1));
            expect(tried.length).toBeLessThanOrEqual(places.length);
          } else if (answer === undefined) expect(firsts.length).toBe(places.length);
        },
      ),
      { numRuns: 100 },
    );
  });
});

describe('a deployment that failed', () => {
  it('is spared for as long as its provider asks, and then used again', async () => {
    const { run, clock, triedNames } = world();
    expect(await run(pair(), { a: fault(429, { 'retry-after': '20' }) })).toBe('b');
    triedNames();
    clock.pass(19_999);
    expect(await run(pair())).toBe('b');
    clock.pass(1);
    expect(await run(pair())).toBe('a');
    expect(triedNames()).toEqual(['b', 'a']);
  });

  it('is spared longer for each failure in a row, up to half a minute; an answer ends that', async () => {
    const { run, clock, order } = world();
    const cooldownMs = () => {
      for (let ms = 0; ; ms += 500) {
        if (namesOf(order(pair()))[0] === 'a') return ms;
        clock.pass(500);
      }
    };
    const cooldowns: number[] = [];
    for (let n = 0; n < 7; n += 1) {
      await run(pair(), { a: fault(500) });
      cooldowns.push(cooldownMs());
    }
    expect(cooldowns).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    expect(await run(pair())).toBe('a');
    await run(pair(), { a: fault(500) });
    expect(cooldownMs()).toBe(1000);
    await run(pair(), { a: fault(401) });
    expect(cooldownMs()).toBe(60_000);
  });

  it('is still asked when there is no other', async () => {
    const { run, triedNames } = world();
    const limited = fault(429, { 'retry-after': '60' });
    await expect(run(pair(), { a: limited, b: fault(429, { 'retry-after': '30' }) })).rejects.toThrow();
    triedNames();
    expect(await run(pair(), { b: fault(429) })).toBe('a');
    expect(triedNames()).toEqual(['b', 'a']);
  });

  it('has a breaker of its own', async () => {
    const { run, clock, triedNames, router } = world({ breakerFailures: 2 });
    for (const caller of ['x', 'y']) {
      await run(pair(), { a: fault(500) }, { caller });
      clock.pass(5000);
    }
    triedNames();
    expect(await run(pair(), {}, { caller: 'z' })).toBe('b');
    expect(triedNames()).toEqual(['b']);
    expect(router.breakers().filter(({ isOpen }) => isOpen)).toEqual([
      { provider: 'a', model: 'a-model', isOpen: true },
    ]);
    // The breaker opens for all callers; a removed deployment has none.
    router.retain([]);
    expect(router.breakers()).toEqual([]);
  });
});

describe('a deployment that a reload removes', () => {
  const modelsOf = (candidates: readonly Candidate[]) => candidates.map(({ model }) => model);

  it('keeps its places while its requests run, also when another reload adds it again', async () => {
    const { run, router } = world();
    const candidates = pair({ concurrency: 1 });
    const end = Promise.withResolvers<void>();
    expect(await run(candidates, {}, { finished: end.promise })).toBe('a');
    router.retain([]);
    router.retain(modelsOf(candidates));
    expect(await run(candidates)).toBe('b');
    end.resolve();
    await end.promise;
    expect(await run(candidates)).toBe('a');
  });

  it('is not known any more after its last request, however that ends, and whenever it starts', async () => {
    const { run, start, router, order } = world();
    const failing = Promise.withResolvers<string>();
    const underWay = start(pair(), async ({ candidate }) =>
      candidate.model.provider.id === 'a' ? await failing.promise : 'b',
    );
    await run(pair(), { a: fault(500) });
    router.retain([]);
    expect(router.breakers()).toEqual([]);
    failing.reject(fault(401));
    expect(await underWay).toBe('b');
    await Promise.resolve();
    // A request that was resolved before the reload.
    const down = fault(500);
    await expect(run(pair(), { a: down, b: down })).rejects.toBe(down);
    expect(router.breakers()).toEqual([]);
    router.retain(modelsOf(pair()));
    expect(router.breakers()).toEqual([]);
    expect(namesOf(order(pair()))).toEqual(['a', 'b']);
  });

  it('leaves what is known about the others', async () => {
    const { run, router, order } = world();
    await run(pair(), { a: fault(500) });
    router.retain(modelsOf(pair()).slice(0, 1));
    expect(namesOf(order(pair()))).toEqual(['b', 'a']);
  });
});

it.each([
  ['key', { apiKey: 'sk-corrected' }],
  ['base URL', { baseUrls: ['http://corrected/v1'] }],
])('a deployment whose %s a reload corrects is used at once, without its breaker', async (_, corrected) => {
  const { run, router, order, clock } = world({ breakerFailures: 2 });
  for (const caller of ['x', 'y']) {
    clock.pass(5000);
    await run(pair(), { a: fault(500) }, { caller });
  }
  expect(router.breakers()).toContainEqual({ provider: 'a', model: 'a-model', isOpen: true });
  const next = pair().map((candidate) => {
    const { model } = candidate;
    return model.provider.id === 'a'
      ? { ...candidate, model: { ...model, provider: { ...model.provider, ...corrected } } }
      : candidate;
  });
  router.retain(next.map(({ model }) => model));
  expect(router.breakers().some(({ isOpen }) => isOpen)).toBe(false);
  expect(namesOf(order(next))).toEqual(['a', 'b']);
  expect(await run(next)).toBe('a');
});

describe('deployments of one provider', () => {
  it('have states of their own, and one breaker in the metrics', async () => {
    const { run, router } = world({ breakerFailures: 1 });
    const [one, two] = deployed([{ id: 'a' }, { id: 'b', priority: 2 }]) as [Candidate, Candidate];
    const other: Candidate = { ...two, model: { ...one.model, upstream: 'another' } };
    for (const caller of ['x', 'y'])
      await run([one, other], { a: fault(500) }, { caller }).catch(() => undefined);
    const open = router.breakers();
    expect(open).toEqual([{ provider: 'a', model: 'a-model', isOpen: true }]);
    expect(await run([{ ...one, model: { ...one.model, upstream: 'third' } }])).toBe('a');
    expect(router.breakers()).toEqual(open);
  });
});

describe('the limits of a deployment', () => {
  it('send the next request elsewhere while its places are taken, until the answers have ended', async () => {
    const { run } = world();
    const candidates = pair({ concurrency: 2 });
    const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    for (const { promise } of ends) expect(await run(candidates, {}, { finished: promise })).toBe('a');
    expect(await run(candidates)).toBe('b');
    ends[0]?.resolve();
    await ends[0]?.promise;
    expect(await run(candidates)).toBe('a');
    // A failed attempt frees its place at once.
    expect(await run(candidates, { a: fault(500) })).toBe('b');
  });

  it('send the next request elsewhere once its requests of a minute are used up', async () => {
    const { run, clock } = world();
    const candidates = pair({ requestsPerMinute: 3 });
    const answers = [];
    for (let n = 0; n < 5; n += 1) answers.push(await run(candidates));
    expect(answers).toEqual(['a', 'a', 'a', 'b', 'b']);
    clock.pass(20_000);
    expect([await run(candidates), await run(candidates)]).toEqual(['a', 'b']);
  });

  it('are a 429 when no deployment has room, and no fallback answers', async () => {
    const { run, triedNames } = world({ retries: 2 });
    const candidates = deployed([
      { id: 'a', requestsPerMinute: 1 },
      { id: 'b', concurrency: 1 },
    ]);
    const end = Promise.withResolvers<void>();
    await run(candidates, {}, { finished: end.promise });
    await run(candidates, {}, { finished: end.promise });
    triedNames();
    await expect(run(candidates)).rejects.toMatchObject({
      error: {
        status: 429,
        type: 'rate_limit_error',
        code: 'rate_limit_exceeded',
        headers: { 'retry-after': '1' },
      },
    });
    expect(await run([...candidates, spare()])).toBe('spare');
    expect(triedNames()).toEqual(['spare']);
  });

  it("do not apply to callers' own credentials, and their failures do not spare the operator's", async () => {
    const { run, order } = world();
    const [first, second] = pair({ requestsPerMinute: 1 }) as [Candidate, Candidate];
    const { credential } = ownCandidate('a', undefined, 'sk-mine');
    const mine = [{ ...first, credential }, second];
    for (let n = 0; n < 3; n += 1) expect(await run(mine)).toBe('a');
    expect(await run(mine, { a: fault(500) })).toBe('b');
    expect(namesOf(order(mine))).toEqual(['b', 'a']);
    expect(namesOf(order([first, second]))).toEqual(['a', 'b']);
  });
});

describe('the deployment with the least latency', () => {
  const three = () => deployed([{ id: 'a' }, { id: 'b' }, { id: 'c' }], { strategy: 'least_latency' });

  it('is the one with the lowest moving average; each is measured first, and again after a minute', async () => {
    const { start, clock, order } = world();
    const delays: Record<string, number> = { a: 300, b: 100, c: 200 };
    const answer = (stream = false) =>
      start(
        three(),
        async ({ candidate }) => {
          const name = candidate.model.provider.id;
          clock.pass(delays[name] ?? 0);
          return name;
        },
        { stream },
      );
    const measured = [await answer(), await answer(), await answer()];
    expect(measured.toSorted()).toEqual(['a', 'b', 'c']);
    expect(namesOf(order(three()))).toEqual(['b', 'c', 'a']);
    // The average follows the delay: 100, 160, 202, 231.4.
    delays['b'] = 300;
    expect([await answer(), await answer(), await answer()]).toEqual(['b', 'b', 'c']);
    // Streams are measured on their own.
    expect((await answer(true)).length).toBe(1);
    clock.pass(60_001);
    delays['b'] = 50;
    expect([await answer(), await answer(), await answer()].toSorted()).toEqual(['a', 'b', 'c']);
  });

  it('is not waited for: requests that come during a first measurement go to others', async () => {
    const { start } = world();
    const held = Promise.withResolvers<string>();
    const asked: string[] = [];
    const end = Promise.withResolvers<void>();
    const running = [1, 2, 3].map(() =>
      start(
        three(),
        ({ candidate }) => {
          asked.push(candidate.model.provider.id);
          return held.promise;
        },
        { finished: end.promise },
      ),
    );
    await vi.waitFor(() => expect(asked).toHaveLength(3));
    expect(asked.toSorted()).toEqual(['a', 'b', 'c']);
    held.resolve('');
    end.resolve();
    await Promise.all(running);
  });
});

describe('a request that the wire of a deployment cannot express', () => {
  const refusal = new WireError(400, 'invalid_request_error', 'no seed there');
  const skip = new UntranslatableRequest(refusal.message, { cause: refusal });

  it('goes to another deployment, and is the error of the caller when there is none', async () => {
    const { run, triedNames } = world();
    expect(await run(pair(), { a: skip })).toBe('b');
    await expect(run([...pair(), spare()], { a: skip, b: skip })).rejects.toBe(refusal);
    const down = fault(500);
    await expect(run(pair(), { a: skip, b: down })).rejects.toBe(down);
    expect(triedNames()).toEqual(['b', 'b']);
  });

  it('leaves the retries to the others', async () => {
    const { run, triedNames } = world({ retries: 1 });
    const down = fault(500);
    await expect(run(pair(), { a: down, b: skip })).rejects.toBe(down);
    expect(triedNames()).toEqual(['a', 'a']);
  });
});
