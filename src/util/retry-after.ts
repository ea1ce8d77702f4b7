/** The delay in ms that a response asks for: `retry-after-ms`, or `retry-after` in seconds or as a date. */
export function parseRetryAfterMs(header: (name: string) => string | null | undefined): number | undefined {
  const ms = header('retry-after-ms')?.trim() ?? '';
  if (ms !== '' && Number(ms) >= 0) return Number(ms);
  const value = header('retry-after')?.trim() ?? '';
  if (value === '') return undefined;
  if (Number(value) >= 0) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}
