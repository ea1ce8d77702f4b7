/** A number from a response. JSON has no NaN and infinity: the host sends null for them. */
type MaybeNumber = number | null | undefined;

const missing = '-';
const isFigure = (value: MaybeNumber): value is number => typeof value === 'number' && Number.isFinite(value);

/** Formats an error measure: `1.2e-14`. The host may send infinity as the largest number. */
export const formatError = (value: MaybeNumber): string => {
  if (!isFigure(value) || value === Number.MAX_VALUE) return 'not finite';
  return value === 0 ? '0' : value.toExponential(1);
};

/**
 * Formats with three significant digits, and an exponent only for very small and very large numbers: `41.2`, `0.0123`.
 */
export function formatNumber(value: MaybeNumber): string {
  if (!isFigure(value)) return missing;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
  const digits = size >= 100 || size === 0 ? 0 : Math.min(6, 2 - Math.floor(Math.log10(size)));
  return value.toFixed(digits);
}

/** `1.068` */
export const formatRatio = (value: MaybeNumber): string => (isFigure(value) ? value.toFixed(3) : missing);
/** `+6.8%` */
export const formatChange = (value: MaybeNumber): string =>
  isFigure(value) ? `${value >= 0 ? '+' : ''}${(value * 100).toFixed(1)}%` : missing;
/** `+6.8% (+5.6% to +8.1%)`: a ratio with its 95% interval. */
export const formatAmount = (
  ratio: number,
  { low, high }: { readonly low: number; readonly high: number },
): string => `${formatChange(ratio - 1)} (${formatChange(low - 1)} to ${formatChange(high - 1)})`;
/** `42%` */
export const formatPercent = (value: MaybeNumber): string =>
  isFigure(value) ? `${Math.round(value * 100)}%` : missing;
/** `212 ms`, `12.3 s` */
export const formatDuration = (ms: MaybeNumber): string => {
  if (!isFigure(ms)) return missing;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
};

const countUnits = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
] as const;
/** `12.3M` */
export function formatCount(value: MaybeNumber): string {
  if (!isFigure(value)) return missing;
  const unit = countUnits.find(([size]) => value >= size);
  return unit ? `${formatNumber(value / unit[0])}${unit[1]}` : formatNumber(value);
}

/** `1 file`, `2 files` */
export const pluralize = (value: number, noun: string, plural = `${noun}s`): string =>
  `${value} ${value === 1 ? noun : plural}`;
