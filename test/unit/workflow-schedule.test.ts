import { describe, expect, it } from 'vitest';
import {
  findCronFault,
  findNextFiring,
  findTimeZoneFault,
} from '../../src/agent/workflows/definition/schedule.ts';

const firings = (cron: string, tz: string, after: string, count: number) => {
  const found: string[] = [];
  let at = new Date(after);
  for (let n = 0; n < count; n++) {
    const next = findNextFiring(cron, tz, at);
    if (next === undefined) break;
    found.push(next.toISOString());
    at = next;
  }
  return found;
};

describe('nextFiring', () => {
  it.each([
    ['0 3 * * *', 'UTC', '2026-01-01T03:00:00.000Z', '2026-01-02T03:00:00.000Z'],
    ['0 3 * * *', 'UTC', '2026-01-01T02:59:59.999Z', '2026-01-01T03:00:00.000Z'],
    ['0 3 * * *', 'Europe/Berlin', '2026-01-01T00:00:00.000Z', '2026-01-01T02:00:00.000Z'],
    ['0 3 * * *', 'Europe/Berlin', '2026-07-01T00:00:00.000Z', '2026-07-01T01:00:00.000Z'],
    ['30 9 * * 1-5', 'America/New_York', '2026-01-02T20:00:00.000Z', '2026-01-05T14:30:00.000Z'],
    ['0 0 29 2 *', 'UTC', '2026-03-01T00:00:00.000Z', '2028-02-29T00:00:00.000Z'],
    ['*/15 * * * *', 'Asia/Kathmandu', '2026-01-01T00:00:00.500Z', '2026-01-01T00:15:00.000Z'],
    ['0 0 1 1 *', 'Pacific/Kiritimati', '2026-01-01T00:00:00.000Z', '2026-12-31T10:00:00.000Z'],
    ['@daily', 'UTC', '2026-01-01T12:00:00.000Z', '2026-01-02T00:00:00.000Z'],
  ])('%s in %s after %s is %s', (cron, tz, after, expected) => {
    expect(findNextFiring(cron, tz, new Date(after))?.toISOString()).toBe(expected);
  });

  it('fires once on the day when the clock skips its time, and on the days around it', () => {
    // 2026-03-29 02:00 becomes 03:00 in Berlin.
    expect(firings('30 2 * * *', 'Europe/Berlin', '2026-03-27T12:00:00Z', 3)).toEqual([
      '2026-03-28T01:30:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ]);
  });

  it('fires once on the day when its time comes twice', () => {
    // 2026-10-25 03:00 becomes 02:00 in Berlin.
    expect(firings('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 2)).toEqual([
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ]);
  });

  it('fires every half hour in both hours', () => {
    expect(firings('*/30 * * * *', 'Europe/Berlin', '2026-10-25T00:00:00Z', 4)).toEqual([
      '2026-10-25T00:30:00.000Z',
      '2026-10-25T01:00:00.000Z',
      '2026-10-25T01:30:00.000Z',
      '2026-10-25T02:00:00.000Z',
    ]);
    expect(firings('*/30 * * * *', 'Europe/Berlin', '2026-03-29T00:00:00Z', 3)).toEqual([
      '2026-03-29T00:30:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-03-29T01:30:00.000Z',
    ]);
  });

  it('is always strictly later, whatever the milliseconds', () => {
    for (const ms of [0, 1, 499, 999]) {
      const at = new Date(Date.parse('2026-01-01T00:00:00Z') + ms);
      expect(findNextFiring('* * * * *', 'UTC', at)?.toISOString()).toBe('2026-01-01T00:01:00.000Z');
    }
  });

  it('is undefined for dates that do not exist', () => {
    expect(findNextFiring('0 0 31 2 *', 'UTC', new Date())).toBeUndefined();
  });
});

describe('faults', () => {
  it.each([
    '* * * *',
    '* * * * * *',
    '60 * * * *',
    '* 24 * * *',
    'a * * * *',
    '',
    '* * 0 * *',
    '@reboot',
    '*/0 * * * *',
  ])('of cron: %s', (cron) => {
    expect(findCronFault(cron)).toMatch(/five fields/);
  });
  it.each(['0 3 * * *', '*/5 0-6,22 * * MON-FRI', '0 0 L * *', '@hourly', ' 0  3 * * * '])(
    'not of %s',
    (cron) => {
      expect(findCronFault(cron)).toBeUndefined();
    },
  );
  it.each(['Mars/Base', '', '+01:00', 'Europe/Berln'])('of a zone: %s', (tz) => {
    expect(findTimeZoneFault(tz)).toMatch(/no time zone/);
  });
  it.each(['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires'])('not of the zone %s', (tz) => {
    expect(findTimeZoneFault(tz)).toBeUndefined();
  });
});
