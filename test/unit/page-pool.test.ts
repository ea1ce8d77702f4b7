import { describe, expect, it } from 'vitest';
import { PagePool } from '../../src/engine/page-pool.ts';

const counts = ({ free, cached, owned }: PagePool) => ({ free, cached, owned });

describe('PagePool', () => {
  it('allocates every page once, then none', () => {
    const pool = new PagePool(3);
    expect([pool.take(), pool.take(), pool.take(), pool.take()]).toEqual([0, 1, 2, undefined]);
    expect(counts(pool)).toEqual({ free: 0, cached: 0, owned: 3 });
  });

  it('a page is free again when its last user releases it', () => {
    const pool = new PagePool(1);
    const page = pool.take()!;
    pool.share(page);
    expect(pool.users(page)).toBe(2);
    pool.leave(page);
    expect(pool.take()).toBeUndefined();
    pool.leave(page);
    expect(pool.take()).toBe(page);
  });

  it('a retained page stays without users, can be reused, and is free when retention ends', () => {
    const pool = new PagePool(1);
    const page = pool.take()!;
    pool.keep(page);
    pool.leave(page);
    expect(counts(pool)).toEqual({ free: 0, cached: 1, owned: 0 });
    pool.share(page);
    expect(counts(pool)).toEqual({ free: 0, cached: 0, owned: 1 });
    pool.forget(page);
    expect(counts(pool)).toEqual({ free: 0, cached: 0, owned: 1 });
    pool.leave(page);
    expect(counts(pool)).toEqual({ free: 1, cached: 0, owned: 0 });
  });

  it('throws on invalid transitions', () => {
    const pool = new PagePool(2);
    const page = pool.take()!;
    expect(() => pool.share(1)).toThrow('page 1 is free');
    expect(() => pool.keep(1)).toThrow('page 1 has no user');
    expect(() => pool.forget(page)).toThrow('not retained');
    pool.keep(page);
    expect(() => pool.keep(page)).toThrow('already retained');
    pool.forget(page);
    pool.leave(page);
    expect(() => pool.leave(page)).toThrow('released twice');
  });
});
