import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { endOfCalendarPeriod, parsePeriod, parseTimeZone } from '../../src/gateway/budgets/period.ts';
import { addSpending, advance, type BudgetRow, resetTime } from '../../src/gateway/budgets/window.ts';
import { periodName } from '../support/gateway/budget-model.ts';

/** With changes at 2:00, at midnight, by half an hour, and none. */
const zones = [
  'Europe/Berlin',
  'America/New_York',
  'Africa/Cairo',
  'America/Havana',
  'Australia/Lord_Howe',
  'UTC',
];
const row = (more: Partial<BudgetRow>): BudgetRow => ({
  id: 'b_1',
  owner_id: 'k_1',
  account_id: 'a_1',
  period: 'day',
  time_zone: 'UTC',
  amount: 1000n,
  spent: 0n,
  held: 0n,
  ends_at: null,
  slices: null,
  noticed: null,
  created_at: '2026-01-01T00:00:00.000Z',
  ...more,
});
const at = (ms: number) => new Date(ms).toISOString();

describe('a calendar period', () => {
  it('ends with the first moment of the next day, week or month of its time zone', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('day', 'week', 'month'),
        fc.constantFrom(...zones),
        fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2030, 0, 1) }),
        (unit, timeZone, ms) => {
          const period = parsePeriod(unit, timeZone);
          if (period.kind !== 'calendar') throw new Error(unit);
          const end = endOfCalendarPeriod(period, ms);
          expect(end).toBeGreaterThan(ms);
          const name = periodName(unit, ms, timeZone);
          expect(periodName(unit, end - 1, timeZone)).toBe(name);
          expect(periodName(unit, end, timeZone)).not.toBe(name);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test.each([
    ['Europe/Berlin', '2026-03-29T00:00:00+01:00', 23],
    ['Europe/Berlin', '2026-10-25T00:00:00+02:00', 25],
    ['Africa/Cairo', '2026-04-24T01:00:00+03:00', 23],
    ['Australia/Lord_Howe', '2026-04-05T00:00:00+11:00', 24.5],
  ])('of a day in %s on %s has %d hours', (timeZone, start, hours) => {
    const period = parsePeriod('day', timeZone);
    if (period.kind !== 'calendar') throw new Error('no calendar');
    expect(endOfCalendarPeriod(period, Date.parse(start)) - Date.parse(start)).toBe(hours * 3_600_000);
  });

  it('begins anew with nothing spent, and what is held stays held', () => {
    const first = addSpending(
      advance(row({ held: 40n }), '2026-01-01T23:59:59.999Z'),
      '2026-01-01T23:59:59.999Z',
      100n,
    );
    expect(first).toMatchObject({ spent: 100n, held: 40n, ends_at: '2026-01-02T00:00:00.000Z' });
    const second = advance(first, '2026-01-02T00:00:00.000Z');
    expect(second).toMatchObject({ spent: 0n, held: 40n, ends_at: '2026-01-03T00:00:00.000Z' });
    // Another gateway's clock is late.
    expect(
      addSpending(advance(second, '2026-01-01T23:59:59.990Z'), '2026-01-01T23:59:59.990Z', 7n),
    ).toMatchObject({
      spent: 7n,
      ends_at: '2026-01-03T00:00:00.000Z',
    });
  });
});

describe('a rolling period', () => {
  const hour = 3_600_000;

  it('counts everything that is younger, and nothing that is older by more than one slice of 24', () => {
    const charges = fc.array(fc.record({ wait: fc.nat(2 * hour), amount: fc.bigInt(1n, 50n) }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(charges, fc.constantFrom('1h', '12h', '3d'), (all, period) => {
        const span = Number.parseInt(period, 10) * (period.endsWith('d') ? 24 : 1) * hour;
        let budget = row({ period, time_zone: null });
        let now = Date.UTC(2026, 2, 28);
        const made: { ms: number; amount: bigint }[] = [];
        for (const { wait, amount } of all) {
          now += wait;
          budget = addSpending(advance(budget, at(now)), at(now), amount);
          made.push({ ms: now, amount });
          const younger = (age: number) =>
            made.filter(({ ms }) => now - ms < age).reduce((sum, one) => sum + one.amount, 0n);
          expect(budget.spent).toBeGreaterThanOrEqual(younger(span));
          expect(budget.spent).toBeLessThanOrEqual(younger(span + span / 24 + 1));
        }
      }),
    );
  });

  it('says when an amount will fit', () => {
    let budget = row({ period: '24h', time_zone: null });
    for (const [hours, amount] of [
      [0, 300n],
      [5, 400n],
      [7, 250n],
    ] as const)
      budget = addSpending(advance(budget, at(hours * hour)), at(hours * hour), amount);
    expect(resetTime(budget, 350n)).toBe(at(25 * hour));
    expect(resetTime(budget, 351n)).toBe(at(30 * hour));
    expect(resetTime(budget, 5000n)).toBe(at(32 * hour));
    expect(advance(budget, at(25 * hour)).spent).toBe(650n);
    expect(advance(budget, at(32 * hour))).toMatchObject({ spent: 0n, slices: null });
    expect(resetTime(row({ period: '24h', time_zone: null }), 1n)).toBeUndefined();
  });
});

test.each([
  ['fortnight', undefined, /expected day, week, month, or up to 366 days as hours or days.*got 'fortnight'/],
  ['367d', undefined, /up to 366 days/],
  ['0h', undefined, /got '0h'/],
  ['12h', 'UTC', /a budget per 12h has no time zone/],
  ['day', 'Mars/Olympus', /there is no time zone 'Mars\/Olympus'/],
  ['day', '+01:00', /there is no time zone '\+01:00'/],
])('the period %s in the time zone %s is refused', (period, timeZone, message) => {
  expect(() => parsePeriod(period, timeZone)).toThrow(message);
});

test('a time zone is stored under its own name', () => {
  expect(parseTimeZone('europe/berlin')).toBe('Europe/Berlin');
});
