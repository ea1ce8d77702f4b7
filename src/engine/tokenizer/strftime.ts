const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const padTwoDigits = (value: number) => String(value).padStart(2, '0');
const dayOfYear = (now: Date) =>
  Math.round(
    (Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) - Date.UTC(now.getFullYear(), 0, 0)) /
      86_400_000,
  );

const directives: Readonly<Record<string, (now: Date) => string>> = {
  a: (now) => (days[now.getDay()] as string).slice(0, 3),
  A: (now) => days[now.getDay()] as string,
  b: (now) => (months[now.getMonth()] as string).slice(0, 3),
  B: (now) => months[now.getMonth()] as string,
  d: (now) => padTwoDigits(now.getDate()),
  e: (now) => String(now.getDate()).padStart(2, ' '),
  F: (now) => strftime(now, '%Y-%m-%d'),
  H: (now) => padTwoDigits(now.getHours()),
  I: (now) => padTwoDigits(now.getHours() % 12 || 12),
  j: (now) => String(dayOfYear(now)).padStart(3, '0'),
  m: (now) => padTwoDigits(now.getMonth() + 1),
  M: (now) => padTwoDigits(now.getMinutes()),
  p: (now) => (now.getHours() < 12 ? 'AM' : 'PM'),
  S: (now) => padTwoDigits(now.getSeconds()),
  T: (now) => strftime(now, '%H:%M:%S'),
  u: (now) => String(now.getDay() || 7),
  w: (now) => String(now.getDay()),
  y: (now) => padTwoDigits(now.getFullYear() % 100),
  Y: (now) => String(now.getFullYear()),
  Z: () => '',
  z: () => '',
  '%': () => '%',
};

/**
 * Formats a local time like Python's strftime in the C locale; `%-d` omits leading zeros.
 * @throws Error for an unknown directive
 */
export function strftime(now: Date, pattern: string): string {
  return pattern.replaceAll(/%(-?)([A-Za-z%])/g, (_, noPadding: string, name: string) => {
    const directive = Object.hasOwn(directives, name) ? directives[name] : undefined;
    if (!directive) throw new Error(`strftime_now does not support '%${noPadding}${name}'`);
    return noPadding ? directive(now).replace(/^[0 ]+(?=.)/, '') : directive(now);
  });
}
