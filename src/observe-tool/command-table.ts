import type { CommandRow, FlagRow } from '../terminal/arguments.ts';

const flagTable = {
  url: {
    kind: 'text',
    value: 'URL',
    help: 'ask the host there, whatever is on this machine (or $LATHE_URL)',
  },
  'bearer-token-file': {
    kind: 'text',
    value: 'FILE',
    help: "the host's bearer token (default: $LATHE_TOKEN, or bearer.token in the data directory)",
  },
  'data-dir': {
    kind: 'text',
    value: 'DIR',
    help: 'where a host keeps its data (default: $LATHE_DATA_DIR or ~/.local/share/lathe)',
  },
  database: {
    kind: 'text',
    value: 'URL',
    help: 'read this database and ask no host: postgres://... or sqlite:PATH',
  },
  json: { kind: 'flag', help: 'print what was answered, a JSON document a line; tail: a row a line' },
  select: { kind: 'list', value: 'A,B', help: 'the columns of the answer (default: all)' },
  where: {
    kind: 'list',
    value: "'COLUMN OP VALUE'",
    help: "a condition, as 'total_ms > 1000', 'wire in chat,messages', 'started_at gte -24h' (repeatable: all hold)",
  },
  'group-by': { kind: 'list', value: 'COLUMN[:BUCKET]', help: 'as model, or started_at:hour (repeatable)' },
  aggregate: {
    kind: 'list',
    value: "'FN(COLUMN)'",
    help: "as count, or 'p95(total_ms) as p95_ms' (repeatable)",
  },
  'order-by': { kind: 'list', value: 'COLUMN[:desc]', help: 'a column of the answer (repeatable)' },
  limit: {
    kind: 'number',
    value: 'N',
    help: 'rows at most, 1 to 1000 (default 100); with --all, rows a page',
  },
  all: { kind: 'flag', help: 'all rows, page by page' },
  file: { kind: 'text', value: 'FILE', help: 'a query in JSON, as the HTTP route takes it; - is stdin' },
  param: { kind: 'list', value: 'NAME=VALUE', help: 'a parameter of the question (repeatable)' },
  every: { kind: 'text', value: 'TIME', help: 'how often to look, as 500ms, 2s, 1m (default 1s)' },
  last: { kind: 'number', value: 'N', help: 'begin with the latest N rows (default 0)' },
} as const satisfies Readonly<Record<string, FlagRow>>;

const commandTable = {
  surfaces: { words: '', least: 0, most: 0, flags: [], help: 'what can be queried, and the named questions' },
  schema: { words: 'SURFACE', least: 1, most: 1, flags: [], help: 'the columns of a surface' },
  query: {
    words: 'SURFACE',
    least: 0,
    most: 1,
    flags: ['select', 'where', 'group-by', 'aggregate', 'order-by', 'limit', 'all', 'file'],
    help: 'rows of a surface, or figures about them',
  },
  ask: { words: 'QUESTION', least: 1, most: 1, flags: ['param', 'limit', 'all'], help: 'a named question' },
  tail: {
    words: 'SURFACE',
    least: 1,
    most: 1,
    flags: ['select', 'where', 'every', 'last'],
    help: 'rows as they come, until Ctrl-C',
  },
} as const satisfies Readonly<Record<string, CommandRow>>;

export const observeTable = {
  flags: flagTable,
  commands: commandTable,
  shared: ['url', 'bearer-token-file', 'data-dir', 'database', 'json'],
} as const;
