/** Page accounting: on examples, and against a model that knows the contents of every page. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import type { StateCopy } from '../../src/engine/memory/retained-states.ts';
import { type BlockTable, KvCache, pagesFor } from '../../src/engine/memory/kv-cache.ts';

const run = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

/** Number of cached tokens of a text. */
function known(cache: KvCache, tokens: readonly number[]): number {
  const { blocks, partial: part } = cache.prefixes.match(tokens, tokens.length);
  return blocks.length * pageTokens + (part?.length ?? 0);
}

/** A text that was computed from its start and has ended. */
function leave(cache: KvCache, tokens: readonly number[], written = tokens.length): number[] {
  const table: BlockTable = { pages: [] };
  const { computedTokens } = cache.reusePrefix(table, tokens, 0, 1);
  expect(cache.grow(table, Math.max(computedTokens, tokens.length))).toBe(true);
  const pages = [...table.pages];
  cache.release(table, tokens, written, 0);
  return pages;
}

describe('KvCache', () => {
  it('grows completely or not at all', () => {
    const cache = new KvCache(2);
    const table: BlockTable = { pages: [] };
    expect(cache.grow(table, 33)).toBe(true);
    expect(table.pages).toEqual([0, 1]);
    expect(cache.grow(table, 65)).toBe(false);
    expect(table.pages).toEqual([0, 1]);
    expect(cache.grow({ pages: [] }, 1)).toBe(false);
  });

  it('shares whole pages and copies the page in which texts diverge', () => {
    const cache = new KvCache(8);
    const first = leave(cache, run(0, 80));
    const table: BlockTable = { pages: [] };
    const text = [...run(0, 70), 999, 998];
    const { computedTokens, copy } = cache.reusePrefix(table, text, 0, 1);
    expect(computedTokens).toBe(70);
    expect(table.pages.slice(0, 2)).toEqual(first.slice(0, 2));
    expect(copy).toEqual({ from: first[2], to: table.pages[2] });
    expect(cache.pool.users(first[0]!)).toBe(1);
    // The copy belongs to the sequence and is not cached before it ends.
    expect(cache.pool.isRetained(table.pages[2]!)).toBe(false);
  });

  it('leaves the last token of a repeated text to compute', () => {
    const cache = new KvCache(8);
    leave(cache, run(0, 64));
    const table: BlockTable = { pages: [] };
    const { computedTokens, copy } = cache.reusePrefix(table, run(0, 64), 0, 1);
    expect(computedTokens).toBe(63);
    expect(copy).toBeDefined();
    expect(cache.reusePrefix({ pages: [] }, [0], 0, 1)).toEqual({ computedTokens: 0 });
  });

  it('shares pages that the step being formed writes, but does not copy them', () => {
    const cache = new KvCache(8);
    const one: BlockTable = { pages: [] };
    cache.grow(one, 64);
    cache.publish(one, run(0, 64), { count: 64 }, 5);
    const other: BlockTable = { pages: [] };
    expect(cache.reusePrefix(other, [...run(0, 50), 7, 8, 9], 0, 5)).toEqual({ computedTokens: 32 });
    expect(other.pages).toEqual([one.pages[0]]);
    expect(cache.reusePrefix({ pages: [] }, [...run(0, 50), 7, 8, 9], 0, 6).computedTokens).toBe(50);
  });

  it('publishes only whole pages', () => {
    const cache = new KvCache(4);
    const table: BlockTable = { pages: [] };
    cache.grow(table, 40);
    cache.publish(table, run(0, 40), { count: 40 }, 1);
    expect(cache.prefixes.size).toBe(1);
  });

  it('does not cache what was never written', () => {
    const cache = new KvCache(4);
    const tokens = run(0, 70);
    leave(cache, tokens, 66);
    expect(known(cache, tokens)).toBe(66);
    leave(cache, run(500, 32), 0);
    expect(known(cache, run(500, 64))).toBe(0);
  });

  it('caches a growing text once', () => {
    const cache = new KvCache(8);
    for (const length of [10, 20, 33, 40, 70]) leave(cache, run(0, length));
    expect(cache.pool).toMatchObject({ cached: 3, owned: 0 });
    expect(cache.prefixes.size).toBe(3);
    leave(cache, run(0, 50));
    expect(cache.pool.cached).toBe(3);
  });

  it('evicts the least recently used pages, leaves first', () => {
    const cache = new KvCache(6);
    leave(cache, run(0, 96));
    leave(cache, run(1000, 96));
    // Reusing the first makes it the most recently used.
    leave(cache, run(0, 96));
    const table: BlockTable = { pages: [] };
    cache.grow(table, 64);
    expect([known(cache, run(0, 96)), known(cache, run(1000, 96))]).toEqual([96, 32]);
  });

  it('evicts unused pages even when pages in use follow them', () => {
    const cache = new KvCache(4);
    // Both compute the same first page; the second keeps its own copy, and its next page becomes a child of the first
    // one's.
    const one: BlockTable = { pages: [] };
    const two: BlockTable = { pages: [] };
    cache.grow(one, 32);
    cache.grow(two, 64);
    cache.publish(one, run(0, 32), { count: 32 }, 1);
    cache.publish(two, run(0, 64), { count: 64 }, 1);
    cache.release(one, run(0, 32), 32, 1);
    expect(cache.pool).toMatchObject({ free: 1, cached: 1, owned: 2 });
    expect(cache.grow(two, 128)).toBe(true);
    expect(cache.pool).toMatchObject({ free: 0, cached: 0, owned: 4 });
    cache.release(two, run(0, 128), 128, 1);
    expect(cache.pool).toMatchObject({ free: 0, cached: 4, owned: 0 });
  });

  it('takes over the page it would have copied when no other is left', () => {
    const cache = new KvCache(2);
    leave(cache, run(0, 64));
    const table: BlockTable = { pages: [] };
    const text = [...run(0, 40), 999];
    const { computedTokens, copy } = cache.reusePrefix(table, text, 0, 1);
    expect({ computedTokens, copy }).toEqual({ computedTokens: 40, copy: undefined });
    expect(cache.pool).toMatchObject({ free: 0, cached: 0, owned: 2 });
    expect(cache.prefixes.size).toBe(1);
  });

  it('continues from a retained state only with a page to continue in: without tokens in the step, the state would not be copied', () => {
    const cache = new KvCache(4, 2);
    leave(cache, run(0, 64));
    const other: BlockTable = { pages: [] };
    expect(cache.grow(other, 64)).toBe(true);
    const table: BlockTable = { pages: [], slot: 1 };
    const text = [...run(0, 64), 999, 998];
    expect(cache.reusePrefix(table, text, 0, 1)).toEqual({ computedTokens: 0 });
    expect(table.pages).toEqual([]);
    cache.release(other, run(500, 64), 0, 1);
    const { computedTokens, state } = cache.reusePrefix(table, text, 0, 2);
    expect({ computedTokens, state }).toMatchObject({
      computedTokens: 64,
      state: { kind: 'restore', slot: 1 },
    });
    expect(cache.grow(table, 65)).toBe(true);
  });

  it('reports the pages that a text still needs', () => {
    const cache = new KvCache(8);
    leave(cache, run(0, 80));
    expect(cache.pageDemand([...run(0, 70), 999], 72)).toEqual({ missingPages: 1, idlePages: 2 });
    expect(cache.pageDemand([5, 6], 3)).toEqual({ missingPages: 1, idlePages: 0 });
  });
});

describe('with random requests', () => {
  const total = 24;
  interface Live {
    readonly table: BlockTable;
    readonly tokens: number[];
    /** Digest of each token and all before it. */
    readonly digests: number[];
    /** Number of tokens whose keys and values are written. */
    written: number;
  }

  function append({ tokens, digests }: Live, token: number): void {
    tokens.push(token);
    const before = digests.at(-1) ?? 7;
    digests.push((Math.imul(before ^ token, 0x7feb352d) ^ (before >>> 15)) >>> 0);
  }

  /** Models the contents of each page by position: the digest of the text up to there. */
  class World {
    readonly cache: KvCache;
    readonly contents: number[][] = Array.from({ length: total }, () => []);
    /** Models the state of each slot and each retained state: the digest of the text that led there. */
    readonly states: number[] = [];
    readonly retained: number[] = [];
    /** Tokens that did not have to be computed. */
    adopted = 0;
    live: Live[] = [];
    step = 1;
    requests = 0;

    /** @param retainedStates number of retained layer states, for models that have states */
    constructor(keptStates?: number) {
      this.cache = new KvCache(total, keptStates);
    }

    copyState({ kind, slot, retainedIndex }: StateCopy): void {
      if (kind === 'save') this.retained[retainedIndex] = this.states[slot]!;
      else this.states[slot] = this.retained[retainedIndex]!;
    }

    start(tokens: number[]): void {
      this.requests++;
      const one: Live = { table: { pages: [], slot: this.requests }, tokens: [], digests: [], written: 0 };
      for (const token of tokens) append(one, token);
      this.live.push(one);
    }

    /** Computes `count` more tokens, sampling new ones at the end of the text; preempts a sequence without room. */
    extend(one: Live, count: number, sampleNext: number): void {
      this.step++;
      const { cache, contents } = this;
      for (const state of cache.states?.takeDueCopies(this.step) ?? []) this.copyState(state);
      const { computedTokens, copy, state } = cache.reusePrefix(
        one.table,
        one.tokens,
        one.written,
        this.step,
      );
      if (state) this.copyState(state);
      this.adopted += computedTokens - one.written;
      if (copy) {
        expect(cache.pool.users(copy.to)).toBe(1);
        contents[copy.to] = [...contents[copy.from]!];
      }
      one.written = computedTokens;
      // A state of the wrong text would not show in the pages, so it is checked here.
      if (cache.states && computedTokens > 0)
        expect(this.states[one.table.slot!]).toBe(one.digests[computedTokens - 1]);
      const chunk = cache.planChunk(
        one.tokens,
        computedTokens,
        Math.min(count, one.tokens.length - computedTokens),
      );
      if (chunk.count > 0) count = chunk.count;
      for (let n = 0; n < count; n++) {
        if (one.written === one.tokens.length) append(one, (sampleNext + n) % 3);
        while (!cache.grow(one.table, one.written + 1)) {
          const youngest = this.live.at(-1)!;
          this.end(youngest);
          if (youngest === one) return;
        }
        const page = one.table.pages[Math.floor(one.written / pageTokens)]!;
        // No other sequence may use a page that is written.
        if (cache.pool.users(page) !== 1 || cache.pool.isRetained(page))
          throw new Error(`page ${page} is shared`);
        contents[page]![one.written % pageTokens] = one.digests[one.written]!;
        this.states[one.table.slot!] = one.digests[one.written]!;
        one.written++;
      }
      cache.publish(
        one.table,
        one.tokens,
        { count: one.written, shouldRetainState: chunk.shouldRetainState },
        this.step,
      );
    }

    end(one: Live): void {
      this.live = this.live.filter((other) => other !== one);
      this.cache.release(one.table, one.tokens, one.written, this.step);
      expect(one.table.pages).toEqual([]);
    }

    /** Uses plain comparisons, because it runs tens of thousands of times. */
    check(): void {
      const { pool, prefixes } = this.cache;
      const must = (holds: boolean, what: string) => {
        if (!holds) throw new Error(what);
      };
      must(pool.free + pool.cached + pool.owned === total, 'free, cached and owned make up all pages');
      const users = new Uint32Array(total);
      for (const { table, digests, written } of this.live) {
        must(table.pages.length >= pagesFor(written), 'what is written has pages');
        must(new Set(table.pages).size === table.pages.length, 'no page is twice in a table');
        for (const page of table.pages) users[page]! += 1;
        for (let computedTokens = 0; computedTokens < written; computedTokens++) {
          const page = this.contents[table.pages[Math.floor(computedTokens / pageTokens)]!]!;
          must(
            page[computedTokens % pageTokens] === digests[computedTokens],
            'every position reads the text that led there',
          );
        }
      }
      let kept = 0;
      for (let page = 0; page < total; page++) {
        must(pool.users(page) === users[page], 'users are counted');
        if (pool.isRetained(page)) kept++;
      }
      must(pool.owned === users.filter((count) => count > 0).length, 'owned pages have users');
      must(prefixes.size === kept, 'the tree keeps a page a block');
    }
  }

  const beginnings = [[], run(0, 32), run(0, 45), [...run(0, 32), ...run(7, 40)], run(50, 100)];
  const action = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('start' as const),
        begin: fc.nat(4),
        more: fc.nat(40),
        sampleNext: fc.nat(2),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant('extend' as const),
        which: fc.nat(99),
        count: fc.integer({ min: 1, max: 40 }),
        sampleNext: fc.nat(2),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('fork' as const),
        which: fc.nat(99),
        cut: fc.nat(200),
        sampleNext: fc.nat(2),
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('end' as const), which: fc.nat(99) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('evict' as const) }) },
  );

  it.each([
    ['keys and values alone', undefined],
    ['states of layers beside them', 5],
    ['states that there is no room to keep', 0],
  ])('no page is lost, owned twice, written while shared, or holds the wrong text: %s', (_, keptStates) => {
    let requests = 0;
    let adopted = 0;
    fc.assert(
      fc.property(fc.array(action, { minLength: 60, maxLength: 160 }), (actions) => {
        const world = new World(keptStates);
        for (const one of actions) {
          const chosen = 'which' in one ? world.live[one.which % Math.max(1, world.live.length)] : undefined;
          if (one.kind === 'start')
            world.start([...beginnings[one.begin]!, ...Array(one.more + 1).fill(one.sampleNext)]);
          else if (one.kind === 'extend' && chosen) world.extend(chosen, one.count, one.sampleNext);
          else if (one.kind === 'fork' && chosen)
            world.start([...chosen.tokens.slice(0, one.cut), one.sampleNext]);
          else if (one.kind === 'end' && chosen) world.end(chosen);
          else if (one.kind === 'evict') {
            const cached = world.cache.pool.cached;
            expect(world.cache.prefixes.evict()).toBe(cached > 0);
          }
          world.check();
        }
        requests += world.requests;
        adopted += world.adopted;
        while (world.live.length > 0) world.end(world.live[0]!);
        world.check();
        world.cache.clear();
        expect(world.cache.pool).toMatchObject({ free: total, cached: 0, owned: 0 });
        expect(world.cache.prefixes.size).toBe(0);
      }),
      { numRuns: 400 },
    );
    expect(requests).toBeGreaterThan(10_000);
    if (keptStates === 0) expect(adopted).toBe(0);
    else expect(adopted).toBeGreaterThan(10_000);
  });
});
