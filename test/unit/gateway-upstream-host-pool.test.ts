import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { HostPool, type PoolLease } from '../../src/gateway/upstream/host-pool.ts';

const pools: HostPool[] = [];
afterEach(() => {
  for (const pool of pools.splice(0)) pool.stopChecks();
});

const urls = (count: number) => Array.from({ length: count }, (_, n) => `http://host-${n}:8080/v1`);
/** @param well the result of a health check */
function poolOf(
  hosts: readonly string[],
  well: (url: string) => boolean | Promise<boolean> = () => true,
  everyMs = 1_000_000,
) {
  const pool = new HostPool(hosts, { checkHealth: async (url) => well(url), checkIntervalMs: everyMs });
  pool.startChecks();
  pools.push(pool);
  return pool;
}
const inFlight = (pool: HostPool) => pool.hosts.map((host) => host.inFlight);
const prefixes = (count: number) => Array.from({ length: count }, (_, n) => `You are assistant number ${n}.`);
/** The host of a prefix without other load. */
const homeOf = (pool: HostPool, prefix: string) => {
  const place = pool.acquire(prefix);
  place?.release();
  return place?.baseUrl;
};

describe('a pool of hosts', () => {
  it('sends a prefix to the same host, also from another gateway, and spreads prefixes evenly', () => {
    const [pool, other] = [poolOf(urls(4)), poolOf(urls(4).reverse())];
    const counts = new Map<string | undefined, number>();
    for (const prefix of prefixes(4000)) {
      const home = homeOf(pool, prefix);
      expect(homeOf(other, prefix)).toBe(home);
      counts.set(home, (counts.get(home) ?? 0) + 1);
    }
    expect(counts.size).toBe(4);
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });

  it('keeps a growing conversation on the same host', () => {
    const pool = poolOf(urls(8));
    const system = 'You are helpful. '.repeat(100);
    const homes = new Set(
      ['', 'Hi', 'Hi there, how', 'x'.repeat(5000)].map((more) => homeOf(pool, system + more)),
    );
    expect(homes.size).toBe(1);
  });

  it('moves only the prefixes of a host that goes down, and moves them back when it is up again', async () => {
    const down = new Set<string>();
    const pool = poolOf(urls(5), (url) => !down.has(url), 50);
    const before = new Map(prefixes(500).map((prefix) => [prefix, homeOf(pool, prefix)]));
    const victim = pool.hosts[2]?.baseUrl ?? '';
    down.add(victim.replace('/v1', '/health'));
    const places: PoolLease[] = [];
    for (let place = pool.acquire('x'); place; place = pool.acquire('x')) {
      places.push(place);
      if (place.baseUrl !== victim) continue;
      place.markFailed();
      break;
    }
    for (const place of places) place.release();
    expect(pool.hosts[2]?.isUp).toBe(false);
    for (const [prefix, home] of before) {
      const now = homeOf(pool, prefix);
      if (home === victim) expect(now).not.toBe(victim);
      else expect(now).toBe(home);
    }
    down.clear();
    await expect.poll(() => pool.hosts[2]?.isUp).toBe(true);
    for (const [prefix, home] of before) expect(homeOf(pool, prefix)).toBe(home);
  });

  it('uses the same second host for a prefix when its first host is overloaded', () => {
    const pool = poolOf(urls(3));
    const order = Array.from({ length: 5 }, () => pool.acquire('the one prefix')?.baseUrl);
    expect(new Set(order.slice(0, 4)).size).toBe(1);
    expect(order[4]).not.toBe(order[0]);
  });

  it('counts requests until they end, and never overloads one host while another is idle', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.tuple(fc.boolean(), fc.nat(5)), { maxLength: 200 }),
        (count, steps) => {
          const pool = poolOf(urls(count));
          const places: PoolLease[] = [];
          for (const [enters, which] of steps) {
            if (enters) {
              const before = Math.min(...inFlight(pool));
              const place = pool.acquire(`prefix ${which}`);
              const host = pool.hosts.find(({ baseUrl }) => baseUrl === place?.baseUrl);
              expect(host?.inFlight).toBeLessThanOrEqual(before * 1.25 + 5);
              if (place) places.push(place);
            } else places.splice(which % Math.max(1, places.length), 1)[0]?.release();
            expect(inFlight(pool).reduce((sum, n) => sum + n, 0)).toBe(places.length);
          }
        },
      ),
    );
  });

  it('returns no host when all are down', async () => {
    const pool = poolOf(urls(2), () => false);
    // Assumed until the first health check.
    expect(pool.acquire('x')).toBeDefined();
    await expect.poll(() => pool.isAnyUp()).toBe(false);
    expect(pool.acquire('x')).toBeUndefined();
  });

  it('takes a host as busy after one failed health check, and as down after two', async () => {
    let looks = 0;
    const fail = () => {
      looks += 1;
      return Promise.reject(new Error('late'));
    };
    const [busy, gone] = [poolOf(urls(1), fail), poolOf(urls(1), fail, 20)];
    await expect.poll(() => gone.isAnyUp()).toBe(false);
    expect(looks).toBeGreaterThanOrEqual(3);
    expect(busy.isAnyUp()).toBe(true);
  });

  it('checks /health next to the base URL periodically, one check at a time', async () => {
    const looks: string[] = [];
    let answer: (well: boolean) => void = () => undefined;
    const pool = new HostPool(['http://a:1/v1', 'http://b:2/deep/down/v1/', 'http://c:3'], {
      checkHealth: (url) => {
        looks.push(url);
        return url.includes('//a') ? new Promise((resolve) => (answer = resolve)) : Promise.resolve(true);
      },
      checkIntervalMs: 5,
    });
    pool.startChecks();
    pools.push(pool);
    await expect.poll(() => looks.filter((url) => url.includes('//b')).length).toBeGreaterThan(3);
    expect(new Set(looks)).toEqual(
      new Set(['http://a:1/health', 'http://b:2/deep/down/health', 'http://c:3/health']),
    );
    expect(looks.filter((url) => url.includes('//a'))).toHaveLength(1);
    answer(false);
    await expect.poll(() => pool.hosts[0]?.isUp).toBe(false);
    await expect.poll(() => looks.filter((url) => url.includes('//a')).length).toBe(2);
  });
});
