import type { Usage } from '../../api.ts';
import type { Grouping } from './series.ts';

/** A report as CSV (RFC 4180), with exact amounts. */
export function toCsv({ data }: Usage, group: Grouping, nameOf: (id: string) => string): string {
  const withName = group === 'key' || group === 'account';
  const head = [
    group,
    ...(withName ? [`${group}_name`] : []),
    'requests',
    'prompt_tokens',
    'cached_tokens',
    'completion_tokens',
    'spend_usd',
  ];
  const rows = data.map((line) => {
    const id = line[group] ?? '';
    return [
      id,
      ...(withName ? [nameOf(id)] : []),
      line.requests,
      line.prompt_tokens,
      line.cached_tokens,
      line.completion_tokens,
      line.spend_usd,
    ];
  });
  return [head, ...rows].map((row) => `${row.map((cell) => quote(String(cell))).join(',')}\r\n`).join('');
}

/** Spreadsheets run cells that begin so as formulas, `-2+3` too; names of end users come from callers. */
const quote = (cell: string): string => {
  const isNumber = /^-?\d+(?:\.\d+)?$/.test(cell);
  const safe = !isNumber && /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Saves a text as a file of the browser. */
export function saveText(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  const link = Object.assign(document.createElement('a'), { href: url, download: name });
  link.click();
  // The download has begun, and needs the URL a moment longer.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
