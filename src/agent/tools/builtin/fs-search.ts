import { basename } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ReadTool, ToolOutput } from '../../tool.ts';
import { expressionTest, globTest } from '../expression.ts';
import { type Allowed, type Confinement, undisturbed } from '../paths/confinement.ts';
import { type Folder, Swapped } from '../paths/folder.ts';
import { textOf, wholeFile, withFile } from '../paths/files.ts';
import { answering, codeOf, onOneLine, Refusal } from '../refusal.ts';
import { within } from './fs-list.ts';
import { aFlag, aNumber, aPath, aText, anObject } from './schema.ts';

const mostMatches = 200;
const mostDepth = 32;
const mostEntries = 10_000;
const mostFileBytes = 4 * 1024 * 1024;
const mostBytes = 256 * 1024 * 1024;
const mostMs = 20_000;
/** Maximum characters of a line that are searched, and shown. */
const mostLine = 2000;
const mostLineShown = 300;
/** Time after which the search yields to other work of the host. */
const turnMs = 20;

interface Args {
  readonly query: string;
  readonly path?: string;
  readonly regex?: boolean;
  readonly ignore_case?: boolean;
  readonly files?: string;
  readonly limit?: number;
}

export const fsSearch = (confinement: Confinement): ReadTool => ({
  kind: 'read',
  name: 'fs_search',
  description:
    'Searches text files for a text or a regular expression, line by line. Answers `path:line: text`. Skips `.git`, links and binary files.',
  source: 'builtin',
  inputSchema: anObject(
    {
      query: aText('What to search for.', 500),
      path: aPath,
      regex: aFlag('Whether the query is a regular expression (RE2); default false.'),
      ignore_case: aFlag('Default false.'),
      files: aText('Only files that fit this glob, for example `*.ts` or `src/**/*.md`.', 200),
      limit: aNumber(1, mostMatches, 'Matches at most; default 50.'),
    },
    ['query'],
  ),
  run: (args, context) =>
    answering(async (): Promise<ToolOutput> => {
      const { path: argument = '.', limit = 50, files, ...query } = args as unknown as Args;
      if (query.query === '') throw new Refusal('query: expected a text to search for, got an empty one.');
      const allowed = await confinement.allowed(argument, context, 'read');
      const search = new Search({
        fits: lineTest(query),
        wanted: files === undefined ? () => true : globTest(files),
        limit,
        signal: context.signal,
      });
      await undisturbed(allowed.shown, () => search.start(confinement, allowed));
      return search.output();
    }),
});

function lineTest({
  query,
  regex = false,
  ignore_case: ignoreCase = false,
}: Args): (line: string) => boolean {
  if (regex) return expressionTest(query, ignoreCase);
  if (!ignoreCase) return (line) => line.includes(query);
  const low = query.toLowerCase();
  return (line) => line.toLowerCase().includes(low);
}

interface SearchOptions {
  readonly fits: (line: string) => boolean;
  readonly wanted: (path: string) => boolean;
  readonly limit: number;
  readonly signal: AbortSignal;
}

class Search {
  readonly #options: SearchOptions;
  readonly #started = performance.now();
  #turn = performance.now();
  #lines: string[] = [];
  #bytes = 0;
  #skipped = 0;
  #stopped: string | undefined;

  constructor(options: SearchOptions) {
    this.#options = options;
  }

  /** Searches a folder recursively, or one file. */
  async start(confinement: Confinement, allowed: Allowed): Promise<void> {
    this.#lines = [];
    const parent = await confinement.openParent(allowed);
    const name = basename(allowed.path);
    try {
      const kind = name === '' ? 'folder' : await parent.kind(name);
      if (kind === 'file') {
        await this.#file(parent, name, allowed.shown);
        return;
      }
      if (kind === 'link' || kind === undefined) throw new Swapped(allowed.path);
      if (kind === 'other') throw new Refusal(`${allowed.shown} is a device, a pipe or a socket.`);
    } finally {
      await parent.close();
    }
    const folder = await confinement.open(allowed.path);
    try {
      await this.#folder(folder, '', 0);
    } finally {
      await folder.close();
    }
  }

  output(): ToolOutput {
    const notes = [
      ...(this.#stopped === undefined ? [] : [this.#stopped]),
      ...(this.#skipped === 0 ? [] : [`${this.#skipped} binary, large or closed files were skipped`]),
    ];
    const lines = this.#lines.length === 0 ? ['[no matches]'] : this.#lines;
    return {
      ok: true,
      output: [...lines, ...notes.map((note) => `[${note}]`)].join('\n'),
      truncated: this.#stopped !== undefined,
    };
  }

  async #folder(folder: Folder, prefix: string, depth: number): Promise<void> {
    const { entries, more } = await folder.entries(mostEntries);
    for (const { shown, name, kind } of entries) {
      if (this.#stopped !== undefined) return;
      if (name === undefined || name === '.git') continue;
      const path = prefix + shown;
      if (kind === 'file' && this.#options.wanted(prefix + name)) await this.#file(folder, name, path);
      if (kind !== 'folder') continue;
      if (depth === mostDepth) this.#skipped += 1;
      else await within(folder, name, (inner) => this.#folder(inner, `${path}/`, depth + 1));
    }
    if (more) this.#stopped ??= `a folder has more than ${mostEntries} entries; the others were not searched`;
  }

  async #file(folder: Folder, name: string, shown: string): Promise<void> {
    await this.#breathe();
    try {
      const bytes = await withFile(folder, name, (file) =>
        wholeFile(file, shown, mostFileBytes, this.#options.signal),
      );
      const text = bytes && textOf(bytes);
      if (text === undefined) this.#skipped += 1;
      else {
        this.#bytes += bytes?.length ?? 0;
        if (this.#bytes > mostBytes) this.#stopped = `stopped after ${mostBytes} bytes`;
        await this.#text(text, shown);
      }
    } catch (error) {
      // Too large, replaced meanwhile, or not readable by the host.
      if (!(error instanceof Refusal || error instanceof Swapped) && codeOf(error) === undefined) throw error;
      if (this.#options.signal.aborted) throw error;
      this.#skipped += 1;
    }
  }

  async #text(text: string, shown: string): Promise<void> {
    let number = 0;
    for (let at = 0; at < text.length && this.#stopped === undefined; ) {
      const next = text.indexOf('\n', at);
      const end = next < 0 ? text.length : next;
      const line = text.slice(at, Math.min(end, at + mostLine)).replace(/\r$/, '');
      at = end + 1;
      number += 1;
      if (performance.now() - this.#turn > turnMs) await this.#breathe();
      if (!this.#options.fits(line)) continue;
      if (this.#lines.length === this.#options.limit) {
        this.#stopped = `there are more than ${this.#options.limit} matches; narrow the search`;
        return;
      }
      const cut = line.length > mostLineShown ? `${line.slice(0, mostLineShown).toWellFormed()}...` : line;
      this.#lines.push(`${shown}:${number}: ${onOneLine(cut.replaceAll('\t', '  '))}`);
    }
  }

  /** Yields to other work, and stops the search at its time limit. */
  async #breathe(): Promise<void> {
    this.#options.signal.throwIfAborted();
    if (performance.now() - this.#started > mostMs)
      this.#stopped ??= `stopped after ${mostMs / 1000} seconds; narrow the search`;
    if (performance.now() - this.#turn <= turnMs) return;
    await nextTurn();
    this.#turn = performance.now();
  }
}
