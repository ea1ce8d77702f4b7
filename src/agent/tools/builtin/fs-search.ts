import { basename, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ReadTool, ToolContext, ToolOutput } from '../../tool.ts';
import { compileExpression, compilePathGlob } from '../expression.ts';
import { type AllowedPath, type Confinement, retryWhenSwapped } from '../paths/confinement.ts';
import { type Folder, PathSwapped } from '../paths/folder.ts';
import { decodeText, readWholeFile, withFile } from '../paths/files.ts';
import { withRefusalAsOutput, systemErrorCode, escapeLine, Refusal } from '../refusal.ts';
import { type Level, visitSubfolder } from './fs-list.ts';
import { mergeStaged, readStaged, type StagedPaths } from './staged-view.ts';
import { flagSchema, integerSchema, pathSchema, textSchema, objectSchema } from './schema.ts';

const maxMatches = 200;
const maxDepth = 32;
const maxEntries = 10_000;
const maxFileBytes = 4 * 1024 * 1024;
const maxBytes = 256 * 1024 * 1024;
const maxMs = 20_000;
/** Maximum characters of a line that are searched, and shown. */
const maxLine = 2000;
const maxLineShown = 300;
/** Time after which the search yields to other work of the host. */
const yieldIntervalMs = 20;

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
  inputSchema: objectSchema(
    {
      query: textSchema('What to search for.', 500),
      path: pathSchema,
      regex: flagSchema('Whether the query is a regular expression (RE2); default false.'),
      ignore_case: flagSchema('Default false.'),
      files: textSchema('Only files that fit this glob, for example `*.ts` or `src/**/*.md`.', 200),
      limit: integerSchema(1, maxMatches, 'Matches at most; default 50.'),
    },
    ['query'],
  ),
  run: (args, context) =>
    withRefusalAsOutput(async (): Promise<ToolOutput> => {
      const { path: argument = '.', limit = 50, files, ...query } = args as unknown as Args;
      if (query.query === '') throw new Refusal('query: expected a text to search for, got an empty one.');
      const allowed = await confinement.resolveAllowed(argument, context, 'read');
      const search = new Search({
        matchesLine: compileLineTest(query),
        matchesPath: files === undefined ? () => true : compilePathGlob(files),
        limit,
        context,
        staged: (await context.staged?.listBelow(allowed.path)) ?? [],
      });
      await retryWhenSwapped(allowed.shown, () => search.start(confinement, allowed));
      return search.output();
    }),
});

function compileLineTest({
  query,
  regex = false,
  ignore_case: ignoreCase = false,
}: Args): (line: string) => boolean {
  if (regex) return compileExpression(query, ignoreCase);
  if (!ignoreCase) return (line) => line.includes(query);
  const lowerQuery = query.toLowerCase();
  return (line) => line.toLowerCase().includes(lowerQuery);
}

interface SearchOptions {
  readonly matchesLine: (line: string) => boolean;
  readonly matchesPath: (path: string) => boolean;
  readonly limit: number;
  readonly context: Pick<ToolContext, 'staged' | 'signal'>;
  readonly staged: StagedPaths;
}

class Search {
  readonly #options: SearchOptions;
  readonly #started = performance.now();
  #lastYieldAt = performance.now();
  #lines: string[] = [];
  #searchedBytes = 0;
  #skippedFiles = 0;
  #stopReason: string | undefined;

  constructor(options: SearchOptions) {
    this.#options = options;
  }

  /** Searches a folder recursively, or one file. */
  async start(confinement: Confinement, allowed: AllowedPath): Promise<void> {
    this.#lines = [];
    const staged = await readStaged(this.#options.context, allowed.path);
    if (staged !== undefined) {
      if (staged !== 'deleted') await this.#searchText(staged.text, allowed.shown);
      return;
    }
    if (allowed.missing.length > 0) {
      await this.#searchFolder(undefined, { path: allowed.path, prefix: '', depth: 0 });
      return;
    }
    const parent = await confinement.openParent(allowed);
    const name = basename(allowed.path);
    try {
      const kind = name === '' ? 'folder' : await parent.kind(name);
      if (kind === 'file') {
        await this.#searchFile(parent, name, allowed.shown);
        return;
      }
      if (kind === 'link' || kind === undefined) throw new PathSwapped(allowed.path);
      if (kind === 'other') throw new Refusal(`${allowed.shown} is a device, a pipe or a socket.`);
    } finally {
      await parent.close();
    }
    const folder = await confinement.open(allowed.path);
    try {
      await this.#searchFolder(folder, { path: allowed.path, prefix: '', depth: 0 });
    } finally {
      await folder.close();
    }
  }

  output(): ToolOutput {
    const notes = [
      ...(this.#stopReason === undefined ? [] : [this.#stopReason]),
      ...(this.#skippedFiles === 0
        ? []
        : [`${this.#skippedFiles} binary, large or closed files were skipped`]),
    ];
    const lines = this.#lines.length === 0 ? ['[no matches]'] : this.#lines;
    return {
      ok: true,
      output: [...lines, ...notes.map((note) => `[${note}]`)].join('\n'),
      truncated: this.#stopReason !== undefined,
    };
  }

  /** @param folder undefined when it is only staged */
  async #searchFolder(folder: Folder | undefined, { path, prefix, depth }: Level): Promise<void> {
    const { entries, more } = (await folder?.entries(maxEntries)) ?? { entries: [], more: false };
    const real = new Set(entries.map(({ name }) => name));
    const { staged } = this.#options;
    const changed = new Set(staged.map((one) => one.path));
    for (const { shown, name, kind } of mergeStaged(entries, path, staged)) {
      if (this.#stopReason !== undefined) return;
      if (name === undefined || name === '.git') continue;
      const inner = join(path, name);
      if (kind === 'file' && this.#options.matchesPath(prefix + name)) {
        const text = changed.has(inner) ? await readStaged(this.#options.context, inner) : undefined;
        if (text !== undefined && text !== 'deleted') await this.#searchText(text.text, prefix + shown);
        else if (folder) await this.#searchFile(folder, name, prefix + shown);
      }
      if (kind !== 'folder') continue;
      const level = { path: inner, prefix: `${prefix}${shown}/`, depth: depth + 1 };
      if (depth === maxDepth) this.#skippedFiles += 1;
      else if (folder && real.has(name))
        await visitSubfolder(folder, name, (subfolder) => this.#searchFolder(subfolder, level));
      else await this.#searchFolder(undefined, level);
    }
    if (more)
      this.#stopReason ??= `a folder has more than ${maxEntries} entries; the others were not searched`;
  }

  async #searchFile(folder: Folder, name: string, shown: string): Promise<void> {
    await this.#yieldAndCheckTime();
    try {
      const bytes = await withFile(folder, name, (file) =>
        readWholeFile(file, shown, maxFileBytes, this.#options.context.signal),
      );
      const text = bytes && decodeText(bytes);
      if (text === undefined) this.#skippedFiles += 1;
      else {
        this.#searchedBytes += bytes?.length ?? 0;
        if (this.#searchedBytes > maxBytes) this.#stopReason = `stopped after ${maxBytes} bytes`;
        await this.#searchText(text, shown);
      }
    } catch (error) {
      // Too large, replaced meanwhile, or not readable by the host.
      if (!(error instanceof Refusal || error instanceof PathSwapped) && systemErrorCode(error) === undefined)
        throw error;
      if (this.#options.context.signal.aborted) throw error;
      this.#skippedFiles += 1;
    }
  }

  async #searchText(text: string, shown: string): Promise<void> {
    let number = 0;
    for (let at = 0; at < text.length && this.#stopReason === undefined; ) {
      const next = text.indexOf('\n', at);
      const end = next < 0 ? text.length : next;
      const line = text.slice(at, Math.min(end, at + maxLine)).replace(/\r$/, '');
      at = end + 1;
      number += 1;
      if (performance.now() - this.#lastYieldAt > yieldIntervalMs) await this.#yieldAndCheckTime();
      if (!this.#options.matchesLine(line)) continue;
      if (this.#lines.length === this.#options.limit) {
        this.#stopReason = `there are more than ${this.#options.limit} matches; narrow the search`;
        return;
      }
      const cut = line.length > maxLineShown ? `${line.slice(0, maxLineShown).toWellFormed()}...` : line;
      this.#lines.push(`${shown}:${number}: ${escapeLine(cut.replaceAll('\t', '  '))}`);
    }
  }

  /** Yields to other work, and stops the search at its time limit. */
  async #yieldAndCheckTime(): Promise<void> {
    this.#options.context.signal.throwIfAborted();
    if (performance.now() - this.#started > maxMs)
      this.#stopReason ??= `stopped after ${maxMs / 1000} seconds; narrow the search`;
    if (performance.now() - this.#lastYieldAt <= yieldIntervalMs) return;
    await nextTurn();
    this.#lastYieldAt = performance.now();
  }
}
