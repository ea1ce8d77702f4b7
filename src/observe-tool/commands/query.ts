import { readFile } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import { UsageError } from '../../config/usage.ts';
import type { ObserveEnvelope } from '../../observe/types.ts';
import { toFileError } from '../../terminal/file-error.ts';
import { isRecord } from '../../util/json.ts';
import { ResultTable } from '../result-table.ts';
import { summaryLines } from '../summary-lines.ts';
import type { CommandContext, CommandHandler } from '../command-context.ts';
import { parseParameters, buildQuery } from '../query-flags.ts';
import type { SourceResponse } from '../source.ts';

type FetchPage = (body: object) => Promise<SourceResponse<ObserveEnvelope>>;
/** Rows per page with `--all`. */
const pageRows = 1000;

export const query: CommandHandler = async (context) => {
  const { source, flags } = context;
  const body =
    flags.file === undefined ? await queryFromFlags(context) : await queryFromFile(flags.file, context);
  await printResults(context, body, (page) => source.query(page));
};

export const ask: CommandHandler = async (context) => {
  const { source, argument, flags } = context;
  const body = {
    parameters: parseParameters(flags.param),
    ...(flags.limit === undefined ? {} : { limit: flags.limit }),
  };
  await printResults(context, body, (page) => source.ask(argument, page));
};

async function queryFromFlags({ source, argument, flags }: CommandContext): Promise<object> {
  if (argument === '') throw new UsageError(['query takes SURFACE, or --file FILE']);
  return buildQuery((await source.schema(argument)).document, flags);
}

/** Reads a query from a file. The observe plane validates it. */
async function queryFromFile(file: string, { argument, flags, cli }: CommandContext): Promise<object> {
  const queryFlags = ['select', 'where', 'group-by', 'aggregate', 'order-by', 'limit'] as const;
  const faults = [
    ...(argument === '' ? [] : [`--file has the whole query: leave '${argument}' out`]),
    ...queryFlags
      .filter((flag) => flags[flag] !== undefined)
      .map((flag) => `--file has the whole query: leave --${flag} out`),
  ];
  if (faults.length > 0) throw new UsageError(faults);
  const name = file === '-' ? 'stdin' : file;
  const text = await (file === '-' ? textOf(cli.stdin) : readFile(file, 'utf8')).catch((error: unknown) => {
    throw toFileError(name, error);
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

async function printResults(context: CommandContext, body: object, fetchPage: FetchPage): Promise<void> {
  const { flags, style, cli, print, printJson } = context;
  const first = flags.all && !('limit' in body) ? { ...body, limit: pageRows } : body;
  const table = new ResultTable(style);
  let rows = 0;
  for (let cursor: string | undefined; ; ) {
    const { document, text } = await fetchPage(cursor === undefined ? first : { ...first, cursor });
    rows += document.rows.length;
    if (flags.json) printJson(text);
    else print(table.lines(document.columns, document.rows, document.as_of));
    cursor = document.next;
    if (flags.all && cursor !== undefined && !cli.stopping.aborted) continue;
    if (!flags.json)
      print(summaryLines({ rows, hasMore: document.truncated, hidden: table.hidden }, document, style));
    return;
  }
}
