import { describe, expect, it } from 'vitest';
import { PagePool } from '../../src/engine/memory/page-pool.ts';

const counts = ({ free, cached, owned }: PagePool) => ({ free, cached, owned });

describe('PagePool', () => {
  it('allocates every page once, then none', () => {
    const pool = new PagePool(3);
    expect([pool.allocate(), pool.allocate(), pool.allocate(), pool.allocate()]).toEqual([
      0,
      1,
      2,
      undefined,
    ]);
    expect(counts(pool)).toEqual({ free: 0, cached: 0, owned: 3 });
  });

  it('a page is free again when its last user releases it', () => {
    const pool = new PagePool(1);
    const page = pool.allocate()!;
    pool.addUser(page);
    expect(pool.users(page)).toBe(2);
    pool.removeUser(page);
    expect(pool.allocate()).toBeUndefined();
    pool.removeUser(page);
    expect(pool.allocate()).toBe(page);
  });

  it('a retained page stays without users, can be reused, and is free when retention ends', () => {
    const pool = new PagePool(1);
    const page = pool.allocate()!;
    pool.retain(page);
    pool.removeUser(page);
    expect(counts(pool)).toEqual({ free: 0, cached: 1, owned: 0 });
    pool.addUser(page);
    expect(counts(pool)).toEqual({ free: 0, cached: 0, owned: 1 });
    pool.release(page);
    expect(counts(pool)).toEqual({ free: 0, cached: 0, owned: 1 });
    pool.removeUser(page);
    expect(counts(pool)).toEqual({ free: 1, cached: 0, owned: 0 });
  });

  it('throws on invalid transitions', () => {
    const pool = new PagePool(2);
    const page = pool.allocate()!;
    expect(() => pool.addUser(1)).toThrow('page 1 is free');
    expect(() => pool.retain(1)).toThrow('page 1 has no user');
    expect(() => pool.release(page)).toThrow('not retained');
    pool.retain(page);
    expect(() => pool.retain(page)).toThrow('already retained');
    pool.release(page);
    pool.removeUser(page);
    expect(() => pool.removeUser(page)).toThrow('released twice');
  });
});
