import { expect, test } from 'vitest';
import type { Usage } from '../../src/wires/core/types.ts';
import { describeDatabases } from '../support/databases.ts';
import { ledgerOn, payerOf, reservation, settlement } from '../support/ledger.ts';

describeDatabases('hostile usage reports and names', (url) => {
  const cases: readonly (readonly [what: string, model: string, counts: Partial<Usage>])[] = [
    ['a count that no column holds', 'one', { output: 1e308, reasoning: 1e300 }],
    ['a count that is none', 'one', { output: Number.NaN, reasoning: -7 }],
    ['half a character', 'x:y/\ud800', {}],
    ['a character that PostgreSQL has not', 'x:y/\u0000', {}],
  ];

  test.each(cases)('%s does not affect other operations in the commit', async (_, model, counts) => {
    const books = await ledgerOn(await url());
    try {
      const { ledger } = books;
      const payer = await payerOf(ledger, { credit: 10n ** 9n });
      const names = { requestedModel: model, effectiveModel: model };
      const requests = [reservation(payer, 100n), reservation(payer, 100n, names), reservation(payer, 100n)];
      for (const { outcome } of await Promise.all(requests.map((one) => ledger.reserve(one))))
        expect(outcome).toBe('reserved');
      const usage: Usage = { fresh: 10, cacheWrite: 1, cacheWrite1h: 2, cacheRead: 3, output: 4, ...counts };
      await Promise.all(
        requests.map(({ requestId, effectiveModel }, at) =>
          ledger.settle(requestId, settlement(40n, { effectiveModel, ...(at === 1 ? { usage } : {}) })),
        ),
      );
      expect(await ledger.audit()).toMatchObject({ openHolds: 0, faults: [] });
      expect((await ledger.balance(payer.accountId)).remaining).toBe(10n ** 9n - 120n);
    } finally {
      await books.close();
    }
  });
});
