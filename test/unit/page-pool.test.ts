import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PagePool } from '../../src/engine/page-pool.ts';

describe('PagePool', () => {
  it('gives all or nothing', () => {
    const pool = new PagePool(4);
    expect(pool.take(0)).toEqual([]);
    expect(pool.take(5)).toBeUndefined();
    expect(pool.free).toBe(4);
    expect(pool.take(3)).toHaveLength(3);
    expect(pool.take(2)).toBeUndefined();
    expect(pool.take(1)).toHaveLength(1);
    expect(pool.take(1)).toBeUndefined();
  });

  it('notices pages that are given back twice', () => {
    const pool = new PagePool(2);
    const pages = pool.take(2) ?? [];
    pool.give(pages);
    expect(() => pool.give(pages)).toThrow('given back twice');
  });

  it('no page has two holders and none is lost, whatever is taken and given', () => {
    const commands = fc.array(fc.record({ take: fc.boolean(), count: fc.nat(9), which: fc.nat(99) }), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), commands, (total, list) => {
        const pool = new PagePool(total);
        const held: number[][] = [];
        for (const { take, count, which } of list) {
          if (take) {
            const free = pool.free;
            const pages = pool.take(count);
            expect(pages === undefined).toBe(count > free);
            if (pages) held.push(pages);
          } else if (held.length > 0) {
            const [pages = []] = held.splice(which % held.length, 1);
            pool.give(pages);
          }
          const all = held.flat();
          expect(new Set(all).size).toBe(all.length);
          expect(all.every((page) => page >= 0 && page < total)).toBe(true);
          expect(pool.free).toBe(total - all.length);
        }
      }),
    );
  });
});
