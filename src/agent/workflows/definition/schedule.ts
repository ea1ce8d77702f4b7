import { Cron } from 'croner';
import { nearMiss } from './near-miss.ts';

/**
 * The first time after `after` that a cron expression of five fields fires, by the clocks of a time zone; nothing where
 * it never does. A fixed time of day that a clock skips in spring fires when the clock has jumped; one that comes twice
 * in autumn fires at the first. Every so many minutes or hours goes on through both hours, and skips what is not there.
 * @throws Error where `cron` or `tz` is none
 */
export function nextFiring(cron: string, tz: string, after: Date): Date | undefined {
  // Whole seconds; croner drops the rest of `after`, and so finds the same second again.
  const whole = new Date(Math.floor(after.getTime() / 1000) * 1000);
  return new Cron(cron, { timezone: tz, mode: '5-part', paused: true }).nextRun(whole) ?? undefined;
}

/** What is wrong with a schedule's zone. */
export function zoneFault(tz: string): string | undefined {
  try {
    if (/^[A-Za-z]/.test(tz) && new Intl.DateTimeFormat('en', { timeZone: tz })) return undefined;
  } catch {
    // Told below.
  }
  const shown = tz.slice(0, 80);
  return `there is no time zone '${shown}': use a name such as Europe/Berlin or UTC${nearMiss(shown, Intl.supportedValuesOf('timeZone'))}`;
}

/** What is wrong with a cron expression. */
export function cronFault(cron: string): string | undefined {
  const expected = 'expected five fields: minute, hour, day of month, month, day of week';
  try {
    if (!/^\s*@/.test(cron) && cron.trim().split(/\s+/).length !== 5)
      return `${expected}; got '${cron.slice(0, 80)}'`;
    return nextFiring(cron, 'UTC', new Date(0)) === undefined
      ? `'${cron.slice(0, 80)}' never comes: no day of the calendar fits it`
      : undefined;
  } catch (error) {
    const why = (error as Error).message.replace(/^CronPattern: /, '');
    return `${expected}; ${why}`.slice(0, 300);
  }
}
