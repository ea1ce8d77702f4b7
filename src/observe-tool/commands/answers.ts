import { readFile } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import { UsageError } from '../../config/usage.ts';
import type { ObserveEnvelope } from '../../observe/types.ts';
import { fileError } from '../../terminal/file-error.ts';
import { isRecord } from '../../util/json.ts';
import { AnswerTable } from '../answer-table.ts';
import { closingLines } from '../closing.ts';
import type { Context, Run } from '../context.ts';
import { parametersOf, queryOf } from '../query-flags.ts';
import type { Answered } from '../source.ts';

type Ask = (body: object) => Promise<Answered<ObserveEnvelope>>;
/** Rows per page with `--all`. */
const pageRows = 1000;

export const query: Run = async (context) => {
  const { source, flags } = context;
  const body = flags.file === undefined ? await typed(context) : await written(flags.file, context);
  await answer(context, body, (page) => source.query(page));
};

export const ask: Run = async (context) => {
  const { source, word, flags } = context;
  const body = {
    parameters: parametersOf(flags.param),
    ...(flags.limit === undefined ? {} : { limit: flags.limit }),
  };
  await answer(context, body, (page) => source.ask(word, page));
};

async function typed({ source, word, flags }: Context): Promise<object> {
  if (word === '') throw new UsageError(['query takes SURFACE, or --file FILE']);
  return queryOf((await source.schema(word)).document, flags);
}

/** Reads a query from a file. The observe plane validates it. */
async function written(file: string, { word, flags, world }: Context): Promise<object> {
  const beside = ['select', 'where', 'group-by', 'aggregate', 'order-by', 'limit'] as const;
  const faults = [
    ...(word === '' ? [] : [`--file has the whole query: leave '${word}' out`]),
    ...beside
      .filter((flag) => flags[flag] !== undefined)
      .map((flag) => `--file has the whole query: leave --${flag} out`),
  ];
  if (faults.length > 0) throw new UsageError(faults);
  const name = file === '-' ? 'stdin' : file;
  const text = await (file === '-' ? textOf(world.stdin) : readFile(file, 'utf8')).catch((error: unknown) => {
    throw fileError(name, error);
  });
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new UsageError([`${name} is not JSON: ${(error as Error).message}`]);
  }
  if (isRecord(body)) return body;
  throw new UsageError([`${name}: expected a query, for example {"surface": "completions"}`]);
}

async function answer(context: Context, body: object, askFor: Ask): Promise<void> {
  const { flags, look, world, print, printJson } = context;
  const first = flags.all && !('limit' in body) ? { ...body, limit: pageRows } : body;
  const table = new AnswerTable(look);
  let rows = 0;
  for (let cursor: string | undefined; ; ) {
    const { document, text } = await askFor(cursor === undefined ? first : { ...first, cursor });
    rows += document.rows.length;
    if (flags.json) printJson(text);
    else print(table.lines(document.columns, document.rows, document.as_of));
    cursor = document.next;
    if (flags.all && cursor !== undefined && !world.over.aborted) continue;
    if (!flags.json)
      print(closingLines({ rows, more: document.truncated, hidden: table.hidden }, document, look));
    return;
  }
}
