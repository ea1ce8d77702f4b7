/** A number from a response. JSON has no NaN and infinity: the host sends null for them. */
type Figure = number | null | undefined;

const missing = '-';
const isFigure = (value: Figure): value is number => typeof value === 'number' && Number.isFinite(value);

/** Formats an error measure: `1.2e-14`. The host may send infinity as the largest number. */
export const error = (value: Figure): string => {
  if (!isFigure(value) || value === Number.MAX_VALUE) return 'not finite';
  return value === 0 ? '0' : value.toExponential(1);
};

/**
 * Formats with three significant digits, and an exponent only for very small and very large numbers: `41.2`, `0.0123`.
 */
export function short(value: Figure): string {
  if (!isFigure(value)) return missing;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
  const digits = size >= 100 || size === 0 ? 0 : Math.min(6, 2 - Math.floor(Math.log10(size)));
  return value.toFixed(digits);
}

/** `1.068` */
export const ratio = (value: Figure): string => (isFigure(value) ? value.toFixed(3) : missing);
/** `+6.8%` */
export const change = (value: Figure): string =>
  isFigure(value) ? `${value >= 0 ? '+' : ''}${(value * 100).toFixed(1)}%` : missing;
/** `42%` */
export const percent = (value: Figure): string => (isFigure(value) ? `${Math.round(value * 100)}%` : missing);
/** `212 ms`, `12.3 s` */
export const time = (ms: Figure): string => {
  if (!isFigure(ms)) return missing;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
};

const counted = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
] as const;
/** `12.3M` */
export function many(value: Figure): string {
  if (!isFigure(value)) return missing;
  const unit = counted.find(([size]) => value >= size);
  return unit ? `${short(value / unit[0])}${unit[1]}` : short(value);
}

/** `1 file`, `2 files` */
export const count = (value: number, noun: string, plural = `${noun}s`): string =>
  `${value} ${value === 1 ? noun : plural}`;
