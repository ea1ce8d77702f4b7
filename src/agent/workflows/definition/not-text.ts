import { isUtf8 } from 'node:buffer';
import type { LintReport } from '../../shapes/lint-report.ts';

const lineFeed = 0x0a;

/** What is wrong with bytes that are no UTF-8: the first line that cannot be read. */
export function notText(bytes: Uint8Array): LintReport {
  let line = 1;
  // A line feed is never a part of another character.
  for (let start = 0; start <= bytes.length; line += 1) {
    const feed = bytes.indexOf(lineFeed, start);
    const end = feed === -1 ? bytes.length : feed;
    if (!isUtf8(bytes.subarray(start, end))) break;
    start = end + 1;
  }
  const message = `line ${line} is not UTF-8; save the workflow as UTF-8`;
  return { ok: false, errors: [{ code: 'not_utf8', path: '', message, line, column: 1 }], warnings: [] };
}
