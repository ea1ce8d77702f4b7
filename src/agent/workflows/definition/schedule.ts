import { Cron } from 'croner';
import { suggestName } from './near-miss.ts';

/**
 * The first time after `after` at which a cron expression of five fields fires in a time zone; undefined when it never
 * fires. A fixed time that daylight saving time skips fires after the jump; one that occurs twice fires at the first.
 * Intervals of minutes or hours fire in both hours, and do not fire at skipped times.
 * @throws Error when `cron` or `tz` is invalid
 */
export function findNextFiring(cron: string, tz: string, after: Date): Date | undefined {
  // Croner ignores the milliseconds of `after`, so they are dropped to not find the same second again.
  const wholeSecond = new Date(Math.floor(after.getTime() / 1000) * 1000);
  return new Cron(cron, { timezone: tz, mode: '5-part', paused: true }).nextRun(wholeSecond) ?? undefined;
}

/** Fault of a schedule's time zone; undefined when it is valid. */
export function findTimeZoneFault(tz: string): string | undefined {
  try {
    if (/^[A-Za-z]/.test(tz) && new Intl.DateTimeFormat('en', { timeZone: tz })) return undefined;
  } catch {
    // Reported below.
  }
  const shortened = tz.slice(0, 80);
  return `there is no time zone '${shortened}': use a name such as Europe/Berlin or UTC${suggestName(shortened, Intl.supportedValuesOf('timeZone'))}`;
}

/** Fault of a cron expression; undefined when it is valid. */
export function findCronFault(cron: string): string | undefined {
  const expected = 'expected five fields: minute, hour, day of month, month, day of week';
  try {
    if (!/^\s*@/.test(cron) && cron.trim().split(/\s+/).length !== 5)
      return `${expected}; got '${cron.slice(0, 80)}'`;
    return findNextFiring(cron, 'UTC', new Date(0)) === undefined
      ? `'${cron.slice(0, 80)}' never comes: no day of the calendar fits it`
      : undefined;
  } catch (error) {
    const reason = (error as Error).message.replace(/^CronPattern: /, '');
    return `${expected}; ${reason}`.slice(0, 300);
  }
}
