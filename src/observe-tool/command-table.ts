import type { CommandRow, FlagRow } from '../terminal/arguments.ts';

const flagTable = {
  url: {
    kind: 'text',
    value: 'URL',
    help: 'query the host at this URL instead of the local one (default: $LATHE_URL)',
  },
  'bearer-token-file': {
    kind: 'text',
    value: 'FILE',
    help: "file with the host's bearer token (default: $LATHE_TOKEN, or bearer.token in the data directory)",
  },
  'data-dir': {
    kind: 'text',
    value: 'DIR',
    help: 'data directory of the host (default: $LATHE_DATA_DIR or ~/.local/share/lathe)',
  },
  database: {
    kind: 'text',
    value: 'URL',
    help: 'read this database directly, without a host: postgres://... or sqlite:PATH',
  },
  json: { kind: 'flag', help: 'print each response as one line of JSON; tail: one line per row' },
  select: { kind: 'list', value: 'A,B', help: 'columns of the result (default: all)' },
  where: {
    kind: 'list',
    value: "'COLUMN OP VALUE'",
    help: "condition, for example 'total_ms > 1000', 'wire in chat,messages' or 'started_at gte -24h' (repeatable; all must hold)",
  },
  'group-by': {
    kind: 'list',
    value: 'COLUMN[:BUCKET]',
    help: 'for example model or started_at:hour (repeatable)',
  },
  aggregate: {
    kind: 'list',
    value: "'FN(COLUMN)'",
    help: "for example count or 'p95(total_ms) as p95_ms' (repeatable)",
  },
  'order-by': { kind: 'list', value: 'COLUMN[:desc]', help: 'sort by a column of the result (repeatable)' },
  limit: {
    kind: 'number',
    value: 'N',
    help: 'maximum number of rows, 1 to 1000 (default 100); with --all, rows per page',
  },
  all: { kind: 'flag', help: 'read all rows, page by page' },
  file: {
    kind: 'text',
    value: 'FILE',
    help: 'read the query as JSON, as in POST /observe/v1/query; - is stdin',
  },
  param: { kind: 'list', value: 'NAME=VALUE', help: 'parameter of the question (repeatable)' },
  every: { kind: 'text', value: 'TIME', help: 'polling interval, for example 500ms, 2s or 1m (default 1s)' },
  last: { kind: 'number', value: 'N', help: 'print the latest N rows first (default 0)' },
} as const satisfies Readonly<Record<string, FlagRow>>;

const commandTable = {
  surfaces: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: [],
    help: 'list the surfaces and the named questions',
  },
  schema: {
    placeholders: 'SURFACE',
    minWords: 1,
    maxWords: 1,
    flags: [],
    help: 'list the columns of a surface',
  },
  query: {
    placeholders: 'SURFACE',
    minWords: 0,
    maxWords: 1,
    flags: ['select', 'where', 'group-by', 'aggregate', 'order-by', 'limit', 'all', 'file'],
    help: 'print rows of a surface, or aggregates of them',
  },
  ask: {
    placeholders: 'QUESTION',
    minWords: 1,
    maxWords: 1,
    flags: ['param', 'limit', 'all'],
    help: 'answer a named question',
  },
  tail: {
    placeholders: 'SURFACE',
    minWords: 1,
    maxWords: 1,
    flags: ['select', 'where', 'every', 'last'],
    help: 'print new rows as they arrive, until Ctrl-C',
  },
} as const satisfies Readonly<Record<string, CommandRow>>;

export const observeTable = {
  flags: flagTable,
  commands: commandTable,
  shared: ['url', 'bearer-token-file', 'data-dir', 'database', 'json'],
} as const;
