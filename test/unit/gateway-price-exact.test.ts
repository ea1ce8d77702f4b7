/** Money is exact: prices as they were written, one rounding a request, parts that add up, a bound that holds. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  maxCost,
  costOf,
  estimateMinCost,
  maxInputTokens,
  estimateOutputRoom,
} from '../../src/gateway/catalog/price.ts';
import { parsePicodollars, priceOf, formatUsdPerMtok } from '../../src/gateway/catalog/rate-card.ts';
import type { Price } from '../../src/gateway/catalog/types.ts';
import type { Usage } from '../../src/wires/core/types.ts';

const usage = (some: Partial<Usage>): Usage => ({
  fresh: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  cacheRead: 0,
  output: 0,
  ...some,
});
const sum = ({ fresh, cache_write, cache_read, output }: ReturnType<typeof costOf>['components']) =>
  fresh + cache_write + cache_read + output;

const pico = fc.oneof(fc.bigInt({ min: 0n, max: 2000n }), fc.bigInt({ min: 0n, max: 500_000_000n }));
const flat = fc.record({ input: pico, output: pico, cacheRead: pico, cacheWrite: pico, cacheWrite1h: pico });
const prices: fc.Arbitrary<Price> = fc
  .record({ flat, long: fc.option(fc.record({ over: fc.nat(50_000), flat })) })
  .map(({ flat: rates, long }) => ({
    ...rates,
    identity: '',
    ...(long ? { longContext: { over: long.over, price: { ...long.flat, identity: '' } } } : {}),
  }));
const tokens = fc.oneof(fc.nat(3), fc.nat(200_000));
const usages: fc.Arbitrary<Usage> = fc.record({
  fresh: tokens,
  cacheWrite: tokens,
  cacheWrite1h: tokens,
  cacheRead: tokens,
  output: tokens,
});

describe('prices as text', () => {
  test('every price in whole picodollars per token is parsed exactly, and formatted as short as possible', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 11n }), (price) => {
        expect(parsePicodollars(formatUsdPerMtok(price))).toBe(price);
      }),
    );
    const shown: readonly (readonly [string, bigint, string])[] = [
      ['0.075', 75_000n, '0.075'],
      ['3', 3_000_000n, '3'],
      ['2.50', 2_500_000n, '2.5'],
      ['0.000001', 1n, '0.000001'],
      ['0.0000010', 1n, '0.000001'],
      ['0', 0n, '0'],
      ['007.10', 7_100_000n, '7.1'],
    ];
    for (const [text, price, short] of shown) {
      expect(parsePicodollars(text), text).toBe(price);
      expect(formatUsdPerMtok(price)).toBe(short);
    }
  });

  test.each([
    ['-1', /negative/],
    ['1e-3', /without an exponent/],
    ['2E5', /without an exponent/],
    ['100000.000001', /at most 100000/],
    ['999999999', /at most 100000/],
    ['0.0000001', /at most 6 decimals/],
    ['1.2345678', /at most 6 decimals/],
    ['', /decimal text/],
    ['.5', /decimal text/],
    ['5.', /decimal text/],
    ['+5', /decimal text/],
    ['1,5', /decimal text/],
    ['$3', /decimal text/],
    ['NaN', /decimal text/],
    ['0x10', /decimal text/],
    [' 1', /decimal text/],
    ['1_000', /decimal text/],
    ['１', /decimal text/],
  ])('%j is not a price', (text, why) => {
    expect(parsePicodollars(text)).toMatch(why);
  });

  test('missing cache prices default to the input price; the identity covers every rate', () => {
    const card = { in_usd_per_mtok: '3', out_usd_per_mtok: '15' };
    const { price, pricing } = priceOf(card);
    expect(pricing).toEqual({
      in_usd_per_mtok: '3',
      out_usd_per_mtok: '15',
      cache_read_usd_per_mtok: '3',
      cache_write_usd_per_mtok: '3',
    });
    expect(price.identity).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(priceOf({ ...card, in_usd_per_mtok: '3.00' }).price.identity).toBe(price.identity);
    const long = { over: 10, ...card };
    const others = [
      { ...card, in_usd_per_mtok: '3.000001' },
      { ...card, out_usd_per_mtok: '16' },
      { ...card, cache_read_usd_per_mtok: '1' },
      { ...card, cache_write_usd_per_mtok: '1' },
      { ...card, cache_write_1h_usd_per_mtok: '1' },
      { ...card, long_context: long },
      { ...card, long_context: { ...long, over: 11 } },
      { ...card, long_context: { ...long, cache_write_1h_usd_per_mtok: '1' } },
    ].map((one) => priceOf(one).price.identity);
    expect(new Set([price.identity, ...others]).size).toBe(others.length + 1);
    expect(priceOf({ ...card, cache_write_usd_per_mtok: '4' }).price.cacheWrite1h).toBe(4_000_000n);
  });
});

describe('cost', () => {
  test('a million tokens at $0.075 cost 75,000,000 nanodollars, and one costs 75', () => {
    const { price } = priceOf({ in_usd_per_mtok: '0.075', out_usd_per_mtok: '0.3' });
    expect(costOf(price, usage({ fresh: 1_000_000 })).total).toBe(75_000_000n);
    expect(costOf(price, usage({ fresh: 1 })).total).toBe(75n);
    expect(costOf(price, usage({ output: 7 })).total).toBe(2100n);
  });

  test('fractions of a nanodollar are rounded up once, not for every component', () => {
    const { price } = priceOf({ in_usd_per_mtok: '0.000001', out_usd_per_mtok: '0.000001' });
    const spent = costOf(price, usage({ fresh: 1, cacheWrite: 1, cacheRead: 1, output: 2 }));
    expect(spent).toEqual({
      total: 1n,
      components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 1n },
    });
    expect(costOf(price, usage({ fresh: 1000 })).total).toBe(1n);
    expect(costOf(price, usage({ fresh: 1001 })).total).toBe(2n);
    expect(costOf(price, usage({})).total).toBe(0n);
  });

  test('the long-context threshold counts all input, caches included, and its rates apply to everything', () => {
    const { price } = priceOf({
      in_usd_per_mtok: '3',
      out_usd_per_mtok: '15',
      cache_read_usd_per_mtok: '0.3',
      long_context: {
        over: 200_000,
        in_usd_per_mtok: '6',
        out_usd_per_mtok: '22.5',
        cache_read_usd_per_mtok: '0.6',
      },
    });
    const at = costOf(price, usage({ fresh: 100_000, cacheRead: 100_000, output: 10 }));
    expect(at.components).toEqual({
      fresh: 300_000_000n,
      cache_read: 30_000_000n,
      cache_write: 0n,
      output: 150_000n,
    });
    const over = costOf(price, usage({ fresh: 100_000, cacheRead: 100_001, output: 10 }));
    expect(over.components).toEqual({
      fresh: 600_000_000n,
      cache_read: 60_000_600n,
      cache_write: 0n,
      output: 225_000n,
    });
  });

  test('the components add up to the total, each within a nanodollar of its exact cost, and never negative', () => {
    fc.assert(
      fc.property(prices, usages, (price, used) => {
        const { total, components } = costOf(price, used);
        expect(sum(components)).toBe(total);
        const input = used.fresh + used.cacheWrite + used.cacheWrite1h + used.cacheRead;
        const { longContext } = price;
        const rates = longContext && input > longContext.over ? longContext.price : price;
        const exact = {
          fresh: BigInt(used.fresh) * rates.input,
          cache_write:
            BigInt(used.cacheWrite) * rates.cacheWrite + BigInt(used.cacheWrite1h) * rates.cacheWrite1h,
          cache_read: BigInt(used.cacheRead) * rates.cacheRead,
          output: BigInt(used.output) * rates.output,
        };
        const whole = sum(exact);
        expect(total * 1000n >= whole && total * 1000n < whole + 1000n).toBe(true);
        for (const [name, amount] of Object.entries(components)) {
          const own = exact[name as keyof typeof exact];
          expect(amount >= 0n).toBe(true);
          expect(amount * 1000n > own - 1000n && amount * 1000n < own + 1000n).toBe(true);
          if (own === 0n) expect(amount).toBe(0n);
        }
      }),
    );
  });

  test('more tokens never cost less, as long as the long context is not cheaper', () => {
    fc.assert(
      fc.property(prices, usages, usages, (price, used, more) => {
        const { longContext: _, ...rates } = price;
        const both = usage({});
        const added = Object.fromEntries(
          Object.keys(both).map((name) => {
            const key = name as 'fresh';
            return [key, used[key] + more[key]];
          }),
        ) as unknown as Usage;
        expect(costOf(rates, added).total >= costOf(rates, used).total).toBe(true);
      }),
    );
  });

  test('negative or non-numeric usage counts as zero', () => {
    const { price } = priceOf({ in_usd_per_mtok: '1', out_usd_per_mtok: '1' });
    expect(costOf(price, usage({ fresh: -5, output: Number.NaN, cacheRead: 3 })).total).toBe(3000n);
    expect(costOf(price, usage({ fresh: 1.5, output: Number.POSITIVE_INFINITY })).total).toBe(2000n);
  });
});

describe('the bound', () => {
  const facts = fc.record({
    textBytes: fc.nat(300_000),
    parts: fc.nat(50),
    images: fc.nat(4),
    fileBytes: fc.oneof(fc.constant(0), fc.nat(5000)),
    answers: fc.integer({ min: 1, max: 5 }),
  });
  const family = fc.constantFrom('openai', 'anthropic', 'google', 'elsewhere');

  test('no usage within the bounds costs more', () => {
    fc.assert(
      fc.property(
        fc.record({ price: prices, contextWindow: fc.integer({ min: 1, max: 400_000 }), family }),
        facts,
        fc.nat(5000),
        fc.array(fc.nat(1_000_000), { minLength: 4, maxLength: 4 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (model, requestFacts, maxTokens, shares, share) => {
          const input = Number(maxInputTokens(model, requestFacts));
          const whole = Math.max(
            1,
            shares.reduce((a, b) => a + b, 0),
          );
          const [fresh = 0, cacheWrite = 0, cacheWrite1h = 0, cacheRead = 0] = shares.map((one) =>
            Math.floor((input * one) / whole),
          );
          const used = { fresh, cacheWrite, cacheWrite1h, cacheRead };
          const output = Math.floor(maxTokens * requestFacts.answers * share);
          const costLimit = maxCost({ model, facts: requestFacts, maxTokens });
          expect(costOf(model.price, { ...used, output }).total <= costLimit).toBe(true);
          expect(
            costOf(model.price, { ...usage({ fresh: input }), output: maxTokens * requestFacts.answers })
              .total <= costLimit,
          ).toBe(true);
          expect(estimateMinCost({ model, facts: requestFacts }) >= 0n).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });

  const { price } = priceOf({
    in_usd_per_mtok: '1',
    out_usd_per_mtok: '2',
    cache_write_1h_usd_per_mtok: '4',
  });
  const model = { price, contextWindow: 100_000, family: 'anthropic' };
  const plain = { textBytes: 1000, parts: 2, images: 0, fileBytes: 0, answers: 1 };

  test('is bytes, plus 64 a part and 256 a request, at the highest input rate, and every answer at full length', () => {
    expect(maxInputTokens(model, plain)).toBe(1384n);
    expect(maxCost({ model, facts: plain, maxTokens: 100 })).toBe(1384n * 4000n + 100n * 2000n);
    expect(maxCost({ model, facts: { ...plain, answers: 3 }, maxTokens: 100 })).toBe(
      1384n * 4000n + 300n * 2000n,
    );
  });

  test('images have their own bound, files count as a full window, a list of prompts as one window each', () => {
    expect(maxInputTokens(model, { ...plain, images: 2 })).toBe(1384n + 2n * 8192n);
    expect(maxInputTokens({ ...model, family: 'openai' }, { ...plain, images: 1 })).toBe(1384n + 49_152n);
    expect(maxInputTokens(model, { ...plain, fileBytes: 1 })).toBe(100_000n);
    expect(maxInputTokens(model, { ...plain, textBytes: 1_000_000 })).toBe(100_000n);
    expect(maxInputTokens(model, { ...plain, textBytes: 1_000_000, answers: 4 })).toBe(400_000n);
  });

  test('long-context rates apply only if the threshold can be reached', () => {
    const rates = { in_usd_per_mtok: '1', out_usd_per_mtok: '2' };
    const long = priceOf({
      ...rates,
      long_context: { over: 1384, in_usd_per_mtok: '10', out_usd_per_mtok: '20' },
    });
    const tiered = { ...model, price: long.price };
    expect(maxCost({ model: tiered, facts: plain, maxTokens: 1 })).toBe(1384n * 1000n + 2000n);
    expect(maxCost({ model: tiered, facts: { ...plain, textBytes: 1001 }, maxTokens: 1 })).toBe(
      1385n * 10_000n + 20_000n,
    );
  });

  test('the estimate is the text at four bytes a token, and no answer', () => {
    expect(estimateMinCost({ model, facts: plain })).toBe(250n * 1000n);
    expect(estimateMinCost({ model, facts: { ...plain, textBytes: 10_000_000 } })).toBe(100_000n * 1000n);
  });
});

describe('the output room after a prompt', () => {
  const facts = { textBytes: 0, parts: 1, images: 0, fileBytes: 0, answers: 1 };
  test('is what the prompt leaves of the window, and never zero', () => {
    const tiny = { contextWindow: 1024, family: 'x' };
    expect(estimateOutputRoom(tiny, { ...facts, textBytes: 100 })).toBe(1024 - 50 - 48);
    expect(estimateOutputRoom(tiny, { ...facts, textBytes: 100_000 })).toBe(128);
    expect(
      estimateOutputRoom({ contextWindow: 8192, family: 'x' }, { ...facts, textBytes: 8000 }),
    ).toBeGreaterThan(4096 - 48);
  });
});
