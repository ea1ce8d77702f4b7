/** The journal of a search: lines of JSON that are on the disk before the search goes on. */
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { z } from 'zod';
import { FileError, toFileError } from '../../terminal/file-error.ts';
import { verdicts, type Attempt, type Proposal } from './types.ts';

const header = z.object({
  type: z.literal('search'),
  id: z.string(),
  op: z.string(),
  model: z.string(),
  goal: z.enum(['decode', 'prefill']),
  at: z.string(),
});
/** Written before the lab sees a proposal. */
const begun = z.object({
  type: z.literal('begun'),
  n: z.int(),
  by: z.string(),
  idea: z.string(),
  source: z.string(),
  at: z.string(),
});
const ended = z.object({
  type: z.literal('ended'),
  n: z.int(),
  verdict: z.enum(verdicts),
  findings: z
    .array(
      z.object({
        code: z.string(),
        severity: z.enum(['error', 'warning', 'info']),
        message: z.string(),
        line: z.int().exactOptional(),
      }),
    )
    .readonly(),
  ratio: z.number().exactOptional(),
  low: z.number().exactOptional(),
  high: z.number().exactOptional(),
  elapsed_ms: z.number(),
});
const note = z.object({
  type: z.literal('note'),
  message: z.string(),
  elapsed_ms: z.number().exactOptional(),
});
const entry = z.discriminatedUnion('type', [header, begun, ended, note]);
type Entry = z.output<typeof entry>;
export type SearchHeader = Omit<z.output<typeof header>, 'type'>;

export interface Unfinished extends Proposal {
  readonly n: number;
  readonly by: string;
  /** How often it was begun. */
  readonly times: number;
}

export class Journal {
  readonly header: SearchHeader;
  readonly attempts: readonly Attempt[];
  /** The proposal that was tried when the search was killed. */
  readonly unfinished: Unfinished | undefined;
  readonly #file: FileHandle;

  private constructor(file: FileHandle, entries: readonly Entry[]) {
    this.#file = file;
    const [first] = entries;
    if (first?.type !== 'search') throw new Error('a journal without a header');
    const { type: _, ...rest } = first;
    this.header = rest;
    const begins = entries.filter((one) => one.type === 'begun');
    const byNumber = new Map(begins.map((one) => [one.n, one]));
    this.attempts = entries.flatMap((one): Attempt[] => {
      const from = one.type === 'ended' ? byNumber.get(one.n) : undefined;
      if (one.type !== 'ended' || !from) return [];
      const { type: _type, ...result } = one;
      return [{ ...result, by: from.by, idea: from.idea, source: from.source }];
    });
    const last = begins.at(-1);
    if (last && !this.attempts.some(({ n }) => n === last.n))
      this.unfinished = {
        n: last.n,
        by: last.by,
        idea: last.idea,
        source: last.source,
        times: begins.filter(({ n }) => n === last.n).length,
      };
  }

  /**
   * Opens a journal, or begins one. The last line of a killed search may be cut off.
   * @throws FileError for a file that is no journal of this search
   */
  static async open(path: string, fresh: SearchHeader): Promise<Journal> {
    let text = '';
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw toFileError(path, error);
    }
    const complete = text.slice(0, text.lastIndexOf('\n') + 1);
    const entries = complete
      .split('\n')
      .flatMap((line, index) => (line === '' ? [] : [readEntry(line, path, index + 1)]));
    let file: FileHandle;
    try {
      file = await open(path, 'a', 0o600);
      // What was cut off is cut away.
      if (complete.length < text.length) await file.truncate(Buffer.byteLength(complete));
    } catch (error) {
      throw toFileError(path, error);
    }
    const [first] = entries;
    if (first === undefined) {
      const begin: Entry = { type: 'search', ...fresh };
      await append(file, begin);
      return new Journal(file, [begin]);
    }
    const differs = (['op', 'model', 'goal'] as const).find(
      (member) => first.type !== 'search' || first[member] !== fresh[member],
    );
    if (differs === undefined) return new Journal(file, entries);
    await file.close();
    throw new FileError(
      path,
      first.type === 'search'
        ? `it is the journal of a search with another ${differs} (${first[differs]}); name another file with --journal`
        : 'it is not the journal of a search',
    );
  }

  begin(n: number, by: string, { idea, source }: Proposal): Promise<void> {
    return append(this.#file, { type: 'begun', n, by, idea, source, at: new Date().toISOString() });
  }

  end({ by: _by, idea: _idea, source: _source, ...result }: Attempt): Promise<void> {
    return append(this.#file, { type: 'ended', ...result });
  }

  note(message: string): Promise<void> {
    return append(this.#file, { type: 'note', message });
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

async function append(file: FileHandle, value: Entry): Promise<void> {
  await file.write(`${JSON.stringify(value)}\n`);
  await file.datasync();
}

function readEntry(line: string, path: string, number: number): Entry {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new FileError(path, `line ${number} is not JSON`);
  }
  const read = entry.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new FileError(
    path,
    `line ${number} is not of the journal of a search: ${issue?.path.join('.')}: ${issue?.message}`,
  );
}
