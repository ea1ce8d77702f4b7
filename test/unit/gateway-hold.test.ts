import { describe, expect, it } from 'vitest';
import type { Candidate, Model } from '../../src/gateway/catalog/types.ts';
import { Hold, totalTokens } from '../../src/gateway/serve/hold.ts';
import { createMemoryLimiter } from '../../src/gateway/access/memory-limiter.ts';
import { UsageReader } from '../../src/wires/google/usage.ts';
import { freshSqlite } from '../support/databases.ts';
import { ledgerOn, newRequest, payerOf } from '../support/ledger.ts';

const price = (rate: bigint) => ({
  input: rate,
  output: rate,
  cacheRead: rate,
  cacheWrite: rate,
  cacheWrite1h: rate,
  identity: String(rate),
});
const candidate = (id: string, provider: string, rate: bigint): Candidate => ({
  model: {
    id,
    provider: { id: provider },
    family: 'x',
    contextWindow: 100_000,
    price: price(rate),
  } as unknown as Model,
  credential: { kind: 'house', apiKey: undefined },
});

/** A hold for one of the candidates, and who is left. */
async function world(credit: bigint) {
  const books = await ledgerOn(freshSqlite());
  const payer = await payerOf(books.ledger, { credit });
  const place = async (candidates: readonly Candidate[]) => {
    const hold = await Hold.place(
      books.ledger,
      {
        receipt: { requestId: newRequest(), reason: 'as_requested' },
        header: () => undefined,
        arrivedAt: 0,
      } as unknown as Parameters<typeof Hold.place>[1],
      {
        caller: { accountId: payer.accountId, key: { id: payer.keyId, revision: 0n } },
        facts: {
          model: candidates[0]?.model.id,
          textBytes: 400,
          parts: 1,
          images: 0,
          fileBytes: 0,
          answers: 1,
        },
        wire: 'chat',
        candidates,
        maxTokensOf: () => 100,
        idempotency: undefined,
        tag: '',
        onTokens() {},
      } as unknown as Parameters<typeof Hold.place>[2],
    );
    return (hold as Hold).candidates.map(({ model }) => model.provider.id);
  };
  return { books, payer, place };
}
const deployments = [
  candidate('m', 'dear', 1_000_000n),
  candidate('m', 'middle', 500_000n),
  candidate('m', 'cheap', 100_000n),
];

describe('a hold', () => {
  it('keeps every deployment that the balance covers, and not only the cheapest one', async () => {
    // The dearest one costs at most 820,000, the others 410,000 and 82,000.
    const { place, books } = await world(600_000n);
    expect(await place(deployments)).toEqual(['middle', 'cheap']);
    await books.close();
  });

  it('gives no notice that a budget refused a request which it admits at another deployment', async () => {
    const { books, payer, place } = await world(10n ** 12n);
    const { ledger, notices } = books;
    await ledger.setBudget({ owner: { kind: 'key', id: payer.keyId }, period: 'day', amount: 100_000n });
    expect(await place(deployments)).toEqual(['cheap']);
    expect(notices).toEqual([]);
    // Now nothing is left for another one.
    await expect(place(deployments)).rejects.toMatchObject({ status: 402 });
    expect(notices.map(({ reason }) => reason)).toEqual(['refused']);
    await books.close();
  });
});

describe('tokens that a provider reports', () => {
  it('count only where they are numbers of tokens', () => {
    const usage = { cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0 };
    expect(totalTokens({ ...usage, fresh: Number.NaN, output: 5 })).toBe(5);
    expect(totalTokens({ ...usage, fresh: -3, output: Number.POSITIVE_INFINITY })).toBe(0);
    expect(totalTokens({ ...usage, fresh: 1e300, output: 1 })).toBe(1e9 + 1);
    const read = new UsageReader().read(JSON.parse('{"promptTokenCount": 1e999, "candidatesTokenCount": 3}'));
    expect(read).toMatchObject({ fresh: 0, output: 3 });
  });

  it('limit a key also after an absurd report', async () => {
    const limiter = createMemoryLimiter(
      { concurrency: 100, requestsPerMinute: 1e6, tokensPerMinute: 10 },
      () => 0,
    );
    const key = { id: 'k' } as Parameters<typeof limiter.acquire>[0]['key'];
    const caller = { accountId: 'a', key } as Parameters<typeof limiter.acquire>[0];
    const permit = await limiter.acquire(caller, 1);
    permit.countTokens(
      totalTokens({ fresh: Number.NaN, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 20 }),
    );
    await expect(limiter.acquire(caller, 1)).rejects.toMatchObject({ status: 429 });
  });
});
