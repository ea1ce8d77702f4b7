import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Merger, type MergePairs, PairTable } from '../../src/engine/tokenizer/merge.ts';

/** Some pairs of the symbols 0 to 5 merge, also into each other; several have the same rank. */
const rules = fc.uniqueArray(
  fc.record({
    left: fc.nat(5),
    right: fc.nat(5),
    rank: fc.nat(9),
    merged: fc.nat(5),
  }),
  { selector: (rule) => rule.left * 8 + rule.right, maxLength: 30, size: 'max' },
);

function pairsOf(list: readonly { left: number; right: number; rank: number; merged: number }[]): MergePairs {
  const table = new PairTable(list.length);
  for (const rule of list) table.add(rule.left, rule.right, rule.rank, rule.merged);
  return {
    rankOf(left, right) {
      const entry = table.find(left, right);
      return entry < 0 ? -1 : (table.ranks[entry] as number);
    },
    mergedSymbolOf: (left, right) => table.mergedSymbols[table.find(left, right)] as number,
  };
}

/** The definition: merge the leftmost pair with the lowest rank until no pair merges. */
function mergeByDefinition(pairs: MergePairs, symbols: readonly number[]): number[] {
  const left = [...symbols];
  for (;;) {
    let best = Number.POSITIVE_INFINITY;
    let at = -1;
    for (let i = 0; i + 1 < left.length; i++) {
      const rank = pairs.rankOf(left[i] as number, left[i + 1] as number);
      if (rank >= 0 && rank < best) {
        best = rank;
        at = i;
      }
    }
    if (at < 0) return left;
    left.splice(at, 2, pairs.mergedSymbolOf(left[at] as number, left[at + 1] as number));
  }
}

it.each([
  ['words', 1, 64],
  ['long runs', 65, 300],
])(
  '%s of symbols merge in the order of their ranks, the leftmost of equal ranks first',
  (_, minCount, maxCount) => {
    const words = fc.array(fc.nat(5), { minLength: minCount, maxLength: maxCount });
    fc.assert(
      fc.property(rules, words, (list, symbols) => {
        const pairs = pairsOf(list);
        const work = Int32Array.from(symbols);
        const count = new Merger(pairs).merge(work, symbols.length);
        expect([...work.subarray(0, count)]).toEqual(mergeByDefinition(pairs, symbols));
      }),
      { numRuns: 500 },
    );
  },
);

it('a pair table finds exactly the added pairs, and keeps the first entry of a pair', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(300_000), fc.nat(300_000)), { maxLength: 200 }), (added) => {
      const table = new PairTable(added.length);
      const expected = new Map<string, number>();
      added.forEach(([left, right], rank) => {
        table.add(left, right, rank, rank + 1);
        if (!expected.has(`${left} ${right}`)) expected.set(`${left} ${right}`, rank);
      });
      for (const [left, right] of added) {
        const entry = table.find(left, right);
        expect(table.ranks[entry]).toBe(expected.get(`${left} ${right}`));
        expect(table.mergedSymbols[entry]).toBe((table.ranks[entry] as number) + 1);
        if (!expected.has(`${right} ${left}`)) expect(table.find(right, left)).toBe(-1);
      }
      table.clear();
      for (const [left, right] of added) expect(table.find(left, right)).toBe(-1);
    }),
  );
});
