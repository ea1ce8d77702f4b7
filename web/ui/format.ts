/** Formats numbers, sizes and times for display. */

const compact = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export const formatNumber = (value: number, digits = 1): string =>
  new Intl.NumberFormat('en', { maximumFractionDigits: digits }).format(value);

export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${compact.format(value)} ${units[unit]}`;
}

/** `3.67 million`. */
export function formatParameters(count: number): string {
  if (count >= 1e9) return `${formatNumber(count / 1e9, 2)} billion`;
  return count >= 1e6 ? `${formatNumber(count / 1e6, 1)} million` : formatNumber(count);
}

export function formatMs(ms: number): string {
  if (ms < 1) return `${formatNumber(ms * 1000, 0)} µs`;
  if (ms < 1000) return `${formatNumber(ms, ms < 10 ? 2 : 1)} ms`;
  if (ms < 60_000) return `${formatNumber(ms / 1000, 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** `12 s ago`, `in 3 min`. */
export function formatRelativeTime(time: string | number | Date, now = Date.now()): string {
  const seconds = (new Date(time).getTime() - now) / 1000;
  const absSeconds = Math.abs(seconds);
  const [value, unit] =
    absSeconds < 60
      ? [absSeconds, 's']
      : absSeconds < 3600
        ? [absSeconds / 60, 'min']
        : absSeconds < 86_400
          ? [absSeconds / 3600, 'h']
          : [absSeconds / 86_400, 'd'];
  const text = `${Math.round(value)} ${unit}`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

export const formatTime = (time: string | number | Date): string =>
  new Date(time).toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'medium' });

/** Formats nanodollars as dollars without rounding. */
export function formatNanodollars(nano: string | number | bigint): string {
  const value = BigInt(nano);
  const digits = (value < 0n ? -value : value).toString().padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0+$/, '').padEnd(2, '0');
  return `${value < 0n ? '-' : ''}$${digits.slice(0, -9)}.${fraction}`;
}

/**
 * Makes a text safe to decide by: characters that are invisible or change the display of others (direction controls,
 * zero-width characters) are shown as code points.
 */
export const escapeInvisible = (text: string): string =>
  text.replace(
    /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{115F}\u{1160}\u{3164}\u{FFA0}]/gu,
    (character) => `<U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}>`,
  );
