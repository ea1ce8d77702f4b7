import type { FileHandle } from 'node:fs/promises';
import { basename } from 'node:path';
import type { ReadTool, ToolOutput } from '../../tool.ts';
import { type Confinement, undisturbed } from '../paths/confinement.ts';
import { pieces, withFile } from '../paths/files.ts';
import { answering, Refusal } from '../refusal.ts';
import { aNumber, aPath, anObject } from './schema.ts';

/** Maximum characters of one output. */
const mostShown = 32 * 1024;
/** Maximum bytes of a file that are scanned for lines. */
const mostScanned = 64 * 1024 * 1024;
const mostLines = 2000;

interface Args {
  readonly path: string;
  readonly start_line?: number;
  readonly lines?: number;
}

export const fsRead = (confinement: Confinement): ReadTool => ({
  kind: 'read',
  name: 'fs_read',
  description: 'Reads a text file, or some lines of it.',
  source: 'builtin',
  inputSchema: anObject(
    {
      path: aPath,
      start_line: aNumber(1, 10_000_000, 'First line to read; default 1.'),
      lines: aNumber(1, mostLines, `How many; default ${mostLines}.`),
    },
    ['path'],
  ),
  run: (args, context) =>
    answering(async () => {
      const { path: argument, start_line: first = 1, lines = mostLines } = args as unknown as Args;
      const allowed = await confinement.allowed(argument, context, 'read');
      const { shown } = allowed;
      const output = await undisturbed(shown, async () => {
        const folder = await confinement.openParent(allowed);
        try {
          return await withFile(folder, basename(allowed.path), (file) =>
            readLines(file, { shown, first, lines }, context.signal),
          );
        } finally {
          await folder.close();
        }
      });
      if (!output) throw new Refusal(`${shown}: there is no such file.`);
      return output;
    }),
});

interface Range {
  readonly shown: string;
  /** First line, from 1. */
  readonly first: number;
  readonly lines: number;
}

async function readLines(
  file: FileHandle,
  { shown, first, lines }: Range,
  signal: AbortSignal,
): Promise<ToolOutput> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const end = first + lines; // the first line that is not wanted
  let line = 1;
  let scanned = 0;
  let text = '';
  let cut: 'lines' | 'length' | undefined;
  const take = (piece: string) => {
    let at = 0;
    while (line < first) {
      const next = piece.indexOf('\n', at);
      if (next < 0) return;
      at = next + 1;
      line += 1;
    }
    while (at < piece.length && cut === undefined) {
      if (line === end) cut = 'lines';
      else {
        const next = piece.indexOf('\n', at);
        const stop = next < 0 ? piece.length : next + 1;
        const room = mostShown - text.length;
        text += piece.slice(at, Math.min(stop, at + room)).replace(/[\uD800-\uDBFF]$/, '');
        if (stop - at > room) cut = 'length';
        else if (next >= 0) line += 1;
        at = stop;
      }
    }
  };
  for await (const bytes of pieces(file, signal)) {
    scanned += bytes.length;
    take(decoded(decoder, bytes, shown));
    if (cut !== undefined) break;
    if (scanned > mostScanned)
      throw new Refusal(
        `${shown} is larger than the first ${mostScanned} bytes, within which lines can be read.`,
      );
  }
  if (cut === undefined) take(decoded(decoder, undefined, shown));
  if (cut === undefined && text === '') {
    return scanned === 0
      ? { ok: true, output: '[empty file]', truncated: false }
      : { ok: false, output: `${shown} has fewer than ${first} lines.`, truncated: false };
  }
  if (cut === undefined) return { ok: true, output: text, truncated: false };
  const wholeLines = text.endsWith('\n');
  const note =
    cut === 'lines' || wholeLines
      ? `[lines ${first} to ${line - 1}; there is more: start_line ${line}]`
      : `[cut after ${mostShown} characters, in line ${line}]`;
  return { ok: true, output: `${text}${wholeLines ? '' : '\n'}${note}`, truncated: true };
}

/** @param bytes undefined at the end of the file */
function decoded(decoder: TextDecoder, bytes: Uint8Array | undefined, shown: string): string {
  try {
    const text = bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode();
    if (!text.includes('\0')) return text;
  } catch {
    // Refused below, like NUL characters.
  }
  throw new Refusal(`${shown} is binary (or no UTF-8 text), so there is nothing to read in it.`);
}
