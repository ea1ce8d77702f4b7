/** After how long a budget's spending no longer counts. */
export type Period =
  /** Starts anew with each day, week (on Monday) or month of a time zone. */
  | { readonly kind: 'calendar'; readonly unit: CalendarUnit; readonly timeZone: string }
  /** Counts the spending of the last hours or days. */
  | { readonly kind: 'rolling'; readonly spanMs: number };

const calendarUnits = ['day', 'week', 'month'] as const;
type CalendarUnit = (typeof calendarUnits)[number];

const hourMs = 3_600_000;
const maxDays = 366;

/**
 * Parses a period: `day`, `week`, `month`, or hours or days such as `12h` and `30d`.
 * @param timeZone of a calendar period; UTC where it is not given
 * @throws RangeError with a message for the user
 */
export function parsePeriod(text: string, timeZone?: string): Period {
  const unit = calendarUnits.find((one) => one === text);
  if (unit) return { kind: 'calendar', unit, timeZone: parseTimeZone(timeZone ?? 'UTC') };
  const [, number = '', letter] = /^([1-9]\d{0,4})([hd])$/.exec(text) ?? [];
  const hours = Number(number) * (letter === 'd' ? 24 : 1);
  if (letter === undefined || hours > maxDays * 24)
    throw new RangeError(
      `expected day, week, month, or up to ${maxDays} days as hours or days, such as 12h or 30d, got '${text}'`,
    );
  if (timeZone !== undefined)
    throw new RangeError(`a budget per ${text} has no time zone; use day, week or month`);
  return { kind: 'rolling', spanMs: hours * hourMs };
}

/** @returns the name as the system spells it @throws RangeError */
export function parseTimeZone(name: string): string {
  try {
    // Offsets such as +01:00 are no time zones: they have no daylight saving time.
    if (/^[A-Za-z]/.test(name))
      return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    // Reported below.
  }
  throw new RangeError(
    `there is no time zone '${name.slice(0, 80)}': use a name such as Europe/Berlin or UTC`,
  );
}

/** The first moment of the next day, week or month, in ms since 1970. A day without midnight starts with its first hour. */
export function endOfCalendarPeriod(
  { unit, timeZone }: Extract<Period, { kind: 'calendar' }>,
  atMs: number,
): number {
  const at = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timeZone).toPlainDate();
  const next =
    unit === 'day'
      ? at.add({ days: 1 })
      : unit === 'week'
        ? at.add({ days: 8 - at.dayOfWeek })
        : at.with({ day: 1 }).add({ months: 1 });
  return next.toZonedDateTime(timeZone).epochMilliseconds;
}
