import { isUtf8 } from 'node:buffer';
import type { LintReport } from '../../shapes/lint-report.ts';

const lineFeed = 0x0a;

/** Lint report for bytes that are not UTF-8; it names the first invalid line. */
export function notUtf8Report(bytes: Uint8Array): LintReport {
  let line = 1;
  // In UTF-8 a line feed byte is never part of another character.
  for (let start = 0; start <= bytes.length; line += 1) {
    const lineEnd = bytes.indexOf(lineFeed, start);
    const end = lineEnd === -1 ? bytes.length : lineEnd;
    if (!isUtf8(bytes.subarray(start, end))) break;
    start = end + 1;
  }
  const message = `line ${line} is not UTF-8; save the workflow as UTF-8`;
  return { ok: false, errors: [{ code: 'not_utf8', path: '', message, line, column: 1 }], warnings: [] };
}
