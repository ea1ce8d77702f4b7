const unitMs: Readonly<Record<string, number>> = { m: 60e3, h: 3600e3, d: 86_400e3, w: 7 * 86_400e3 };

/** Whether the date exists: JavaScript parses February 31 as a day in March. */
function isExistingDate(dateText: string): boolean {
  const day = new Date(`${dateText}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(dateText);
}

/** Parses an expiry: a duration (`90d`, `12h`) or a date (`2030-01-31`). @throws RangeError */
export function parseExpiry(value: string): (now: Date) => Date {
  const [, number, unit = ''] = /^([1-9]\d{0,4})([mhdw])$/.exec(value) ?? [];
  if (number !== undefined) return (now) => new Date(now.getTime() + Number(number) * (unitMs[unit] ?? 0));
  const dated = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(value);
  const date = new Date(value);
  if (dated && !Number.isNaN(date.getTime()) && isExistingDate(value.slice(0, 10))) return () => date;
  throw new RangeError(
    `expected a duration such as 90d (m, h, d, w) or a date such as 2030-01-31, got '${value}'`,
  );
}
