import type { FileHandle } from 'node:fs/promises';
import type { ReadTool, ToolOutput } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import { hashBytes, readChunks, readWholeFile, withFile } from '../paths/files.ts';
import { readImageHeader, signatureBytes } from '../image-header.ts';
import { stripEscapes } from '../sandbox/command-output.ts';
import { SavedOutputs } from '../sandbox/saved-outputs.ts';
import { escapeLine, okOutput, withRefusalAsOutput, Refusal } from '../refusal.ts';
import { fitBytes, maxOutputBytes } from '../../turns/truncate-output.ts';
import { isFolderRefusal, openFound } from './staged-file.ts';
import { viewOf } from './staged-view.ts';
import { integerSchema, pathSchema, objectSchema } from './schema.ts';

/** Maximum bytes of the text of one output, to which a note is added. */
const maxShown = maxOutputBytes - 200;
/** Maximum bytes of a file that are scanned for lines. */
const maxScanned = 64 * 1024 * 1024;
const maxLines = 2000;
/** Maximum bytes of an image. Some providers take 5 MB of base64. */
const maxImageBytes = 3.5 * 1024 * 1024;
/** Maximum width and height of an image, which some providers have. */
const maxImagePixels = 8000;
/** Bytes in which the size of an image must be found; a JPEG may have a preview before it. */
const maxImageHeadBytes = 256 * 1024;

interface Args {
  readonly path: string;
  readonly start_line?: number;
  readonly lines?: number;
}

export const fsRead = (confinement: Confinement, outputs: SavedOutputs): ReadTool => ({
  kind: 'read',
  name: 'fs_read',
  description: 'Reads a text file, or some lines of it, or shows an image (PNG, JPEG, GIF, WebP).',
  source: 'builtin',
  inputSchema: objectSchema(
    {
      path: pathSchema,
      start_line: integerSchema(1, 10_000_000, 'First line to read; default 1.'),
      lines: integerSchema(1, maxLines, `How many; default ${maxLines}.`),
    },
    ['path'],
  ),
  run: (args, context) =>
    withRefusalAsOutput(async () => {
      const { path: argument, start_line: first = 1, lines = maxLines } = args as unknown as Args;
      if (SavedOutputs.isName(argument)) {
        const file = await outputs.open(argument, context);
        if (!file)
          throw new Refusal(`${escapeLine(argument.slice(0, 200))}: there is no such output of this task.`);
        try {
          const range = { shown: argument, first, lines, isOutput: true };
          return await readLines(readChunks(file, context.signal), range);
        } finally {
          await file.close();
        }
      }
      const view = await viewOf(context);
      const allowed = await confinement.resolveAllowed(argument, { ...context, view }, 'read');
      const { shown } = allowed;
      const found = view.find(allowed.path);
      if (found.kind === 'folder') throw isFolderRefusal(shown);
      if (found.kind === 'text')
        return await readLines([Buffer.from(await view.textOf(found))], { shown, first, lines });
      if (found.kind === 'absent')
        throw new Refusal(
          `${shown}: there is no such file${found.reason === undefined ? '' : ` any more, ${found.reason}`}.`,
        );
      const output = await openFound(confinement, { allowed, real: found.real }, context, (folder, name) =>
        withFile(
          folder,
          name,
          async (file) =>
            (await readImage(file, { shown, path: allowed.path }, context.signal)) ??
            (await readLines(readChunks(file, context.signal), { shown, first, lines })),
        ),
      );
      if (!output) throw new Refusal(`${shown}: there is no such file.`);
      return output;
    }),
});

/** As an output; undefined where the file is no image. What it is shows in its content, not in its name. */
async function readImage(
  file: FileHandle,
  { shown, path }: { readonly shown: string; readonly path: string },
  signal: AbortSignal,
): Promise<ToolOutput | undefined> {
  const head = Buffer.alloc(maxImageHeadBytes);
  const { bytesRead } = await file.read(head, 0, signatureBytes, 0);
  if (!readImageHeader(head.subarray(0, bytesRead))) return undefined;
  const { bytesRead: headBytes } = await file.read(head, 0, maxImageHeadBytes, 0);
  const header = readImageHeader(head.subarray(0, headBytes));
  if (!header?.size)
    throw new Refusal(`${shown} begins as ${header?.mediaType ?? 'an image'}, but is broken.`);
  const { mediaType, size } = header;
  const { size: fileBytes } = await file.stat();
  const described = `an image (${mediaType}) of ${size.width} x ${size.height} pixels, ${fileBytes} bytes`;
  if (fileBytes > maxImageBytes)
    throw new Refusal(`${shown} is ${described}; images of more than ${maxImageBytes} bytes are not shown.`);
  if (Math.max(size.width, size.height) > maxImagePixels)
    throw new Refusal(
      `${shown} is ${described}; images of more than ${maxImagePixels} pixels a side are not shown.`,
    );
  const bytes = await readWholeFile(file, shown, maxImageBytes, signal);
  const image = {
    path,
    mediaType,
    ...size,
    sizeBytes: bytes.length,
    digest: hashBytes(bytes),
    data: bytes.toString('base64'),
  };
  return { ...okOutput(`[${escapeLine(shown)}: ${described}]`), image };
}

interface LineRange {
  readonly shown: string;
  /** First line, from 1. */
  readonly first: number;
  readonly lines: number;
  /** Output of a command, which may print anything. */
  readonly isOutput?: boolean;
}

async function readLines(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { shown, first, lines, isOutput = false }: LineRange,
): Promise<ToolOutput> {
  const decoder = new TextDecoder('utf-8', { fatal: !isOutput, ignoreBOM: true });
  const decode = (bytes: Uint8Array | undefined) =>
    isOutput
      ? decoder.decode(bytes, { stream: bytes !== undefined }).replaceAll('\0', '')
      : decodeText(decoder, bytes, shown);
  const end = first + lines; // the first line that is not wanted
  let line = 1;
  let scanned = 0;
  let text = '';
  let shownBytes = 0;
  let cut: 'lines' | 'length' | undefined;
  const takeLines = (piece: string) => {
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
        const fitting = fitBytes(piece.slice(at, stop), maxShown - shownBytes);
        text += fitting;
        shownBytes += Buffer.byteLength(fitting);
        if (fitting.length < stop - at) cut = 'length';
        else if (next >= 0) line += 1;
        at = stop;
      }
    }
  };
  for await (const bytes of chunks) {
    scanned += bytes.length;
    takeLines(decode(bytes));
    if (cut !== undefined) break;
    if (scanned > maxScanned)
      throw new Refusal(
        `${shown} is larger than the first ${maxScanned} bytes, within which lines can be read.`,
      );
  }
  if (cut === undefined) takeLines(decode(undefined));
  if (isOutput) text = stripEscapes(text);
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
      : `[cut after ${shownBytes} bytes, in line ${line}]`;
  return { ok: true, output: `${text}${wholeLines ? '' : '\n'}${note}`, truncated: true };
}

/** @param bytes undefined at the end of the file */
function decodeText(decoder: TextDecoder, bytes: Uint8Array | undefined, shown: string): string {
  try {
    const text = bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode();
    if (!text.includes('\0')) return text;
  } catch {
    // Refused below, like NUL characters.
  }
  throw new Refusal(`${shown} is binary (or no UTF-8 text), so there is nothing to read in it.`);
}
