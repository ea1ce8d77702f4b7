import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ReadTool, ToolContext, ToolOutput } from '../../tool.ts';
import { compileExpression, compilePathGlob } from '../expression.ts';
import type { AllowedPath, Confinement } from '../paths/confinement.ts';
import { type Folder, PathSwapped } from '../paths/folder.ts';
import { decodeText, readWholeFile, withFile } from '../paths/files.ts';
import { withRefusalAsOutput, systemErrorCode, escapeLine, Refusal } from '../refusal.ts';
import { type StagedView, viewOf } from './staged-view.ts';
import { goneRefusal, readEntries, type SeenFolder, ViewReader } from './view-reader.ts';
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
      const view = await viewOf(context);
      const allowed = await confinement.resolveAllowed(argument, { ...context, view }, 'read');
      const search = new Search({
        matchesLine: compileLineTest(query),
        matchesPath: files === undefined ? () => true : compilePathGlob(files),
        limit,
        context,
        view,
        reader: new ViewReader(confinement, context),
      });
      await search.start(allowed);
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
  readonly context: Pick<ToolContext, 'signal'>;
  readonly view: StagedView;
  readonly reader: ViewReader;
}

/** A folder on the way down. */
interface Level {
  /** Names of the folders above, as they are shown and matched. */
  readonly prefix: string;
  readonly depth: number;
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
  async start(allowed: AllowedPath): Promise<void> {
    const { view, reader } = this.#options;
    const { shown } = allowed;
    const found = view.find(allowed.path);
    if (found.kind === 'absent') throw goneRefusal(shown, found.reason);
    if (found.kind === 'text') {
      await this.#searchText(await view.textOf(found), shown);
      return;
    }
    const kind = found.kind === 'folder' ? 'folder' : await reader.kindAt(allowed, found.real);
    if (kind === undefined) throw goneRefusal(shown);
    if (kind === 'other') throw new Refusal(`${shown} is a device, a pipe or a socket.`);
    if (kind !== 'folder') {
      await reader.openParent(allowed, found.real ?? allowed.path, async (folder, name) => {
        this.#lines = [];
        await this.#searchFile(folder, name, shown);
      });
      return;
    }
    const staged = found.kind === 'folder' ? found : undefined;
    await reader.openFolder(allowed, found.real, async (folder) => {
      this.#lines = [];
      await this.#searchFolder({ folder, staged }, { prefix: '', depth: 0 });
    });
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

  async #searchFolder(seen: SeenFolder, { prefix, depth }: Level): Promise<void> {
    const { entries, more } = await readEntries(seen, maxEntries);
    const { view, reader } = this.#options;
    for (const { shown, name, kind } of entries) {
      if (this.#stopReason !== undefined) return;
      if (name === undefined || name === '.git') continue;
      if (kind === 'file' && this.#options.matchesPath(prefix + name)) {
        const child = seen.staged?.children.get(name);
        if (child?.kind === 'text') await this.#searchText(await view.textOf(child), prefix + shown);
        else
          await reader.visitFile(seen, name, (folder, inner) =>
            this.#searchFile(folder, inner, prefix + shown),
          );
      }
      if (kind !== 'folder') continue;
      if (depth === maxDepth) this.#skippedFiles += 1;
      else
        await reader.visitSubfolder(seen, name, (inner) =>
          this.#searchFolder(inner, { prefix: `${prefix}${shown}/`, depth: depth + 1 }),
        );
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
