import type { Column, Sql, Surface } from '../types.ts';
import {
  endpointColumn,
  integer,
  json,
  ms,
  claimedValue,
  measuredValue,
  required,
  text,
  time,
  tokens,
} from './columns.ts';
import { jsonInteger, textLiteral, msBetween, nullLiterals, rowNumberColumn, sqlTemplate } from './sql.ts';

/**
 * SQL of a column in each of the three tables; default: the column of the same name. The type must be the same in all
 * of them: otherwise SQLite materializes the rows of all three before it sorts them.
 */
type SessionColumn = readonly [column: Column, task?: Sql, run?: Sql, external?: Sql];

const claimed = (member: string): Sql =>
  sqlTemplate`cast(${jsonInteger('tokens_claimed', member)} as ${{ sqlite: 'integer', postgres: 'bigint' }})`;

const sessionColumns: readonly SessionColumn[] = [
  [
    text('kind', 'derived', 'task, run or external.', required),
    textLiteral('task'),
    textLiteral('run'),
    textLiteral('external'),
  ],
  [text('id', 'derived', 'Id of the task, run or external session.', required)],
  [endpointColumn],
  [text('name', 'derived', 'Agent of a task, or workflow of a run.'), 'agent', 'workflow', nullLiterals.text],
  [text('title', 'derived', 'Beginning of a task’s prompt.'), 'title', nullLiterals.text, nullLiterals.text],
  [
    text(
      'state',
      'derived',
      'running, paused, suspended, waiting, completed, failed or cancelled.',
      required,
    ),
    'state',
    'state',
    'cast(case when ended_at is null then status else coalesce(outcome, status) end as text)',
  ],
  [
    text('close_reason', 'derived', 'For external sessions: ended, or heartbeat_lost.'),
    nullLiterals.text,
    nullLiterals.text,
  ],
  [time('started_at', 'measured', 'When the work was accepted or registered.', required)],
  [time('ended_at', 'measured', 'When the work ended.')],
  [
    time('heard_at', 'measured', 'For external sessions: time of the last heartbeat.'),
    nullLiterals.text,
    nullLiterals.text,
    'beat_at',
  ],
  [
    integer('prompt_tokens', 'measured', 'For tasks and runs, counted by the host.', tokens),
    measuredValue('prompt_tokens', 'engine'),
    measuredValue('prompt_tokens', 'engine'),
    nullLiterals.integer,
  ],
  [
    integer('completion_tokens', 'measured', 'For tasks and runs, counted by the host.', tokens),
    measuredValue('completion_tokens', 'engine'),
    measuredValue('completion_tokens', 'engine'),
    nullLiterals.integer,
  ],
  [
    integer(
      'prompt_tokens_claimed',
      'claimed',
      'Reported by the external session, or by the gateway whose model answered.',
      tokens,
    ),
    claimedValue('prompt_tokens', 'engine'),
    claimedValue('prompt_tokens', 'engine'),
    claimed('prompt'),
  ],
  [
    integer(
      'completion_tokens_claimed',
      'claimed',
      'Reported by the external session, or by the gateway whose model answered.',
      tokens,
    ),
    claimedValue('completion_tokens', 'engine'),
    claimedValue('completion_tokens', 'engine'),
    claimed('completion'),
  ],
  [
    text('engine', 'derived', 'Where the model runs: resident or gateway.'),
    'engine',
    'engine',
    nullLiterals.text,
  ],
  [text('model', 'derived', 'Model that answers.'), 'model', 'model', nullLiterals.text],
  [
    text('last_event', 'derived', 'Last event on one line; for an external session, how it ended.'),
    'last_event',
    'last_event',
    "cast(case when close_reason = 'heartbeat_lost' then outcome || ': heartbeat_lost' else outcome end as text)",
  ],
  [
    text('last_event_claimed', 'claimed', 'Last event that an external session reported.'),
    nullLiterals.text,
    nullLiterals.text,
    'last_event',
  ],
  [text('harness', 'claimed', 'Program of an external session.'), nullLiterals.text, nullLiterals.text],
  [
    text('client', 'claimed', 'Client that an external session works for.'),
    nullLiterals.text,
    nullLiterals.text,
  ],
  [
    text('title_claimed', 'claimed', 'Title of an external session.'),
    nullLiterals.text,
    nullLiterals.text,
    'title',
  ],
  [text('cwd', 'claimed', 'Folder named in the request.'), 'cwd', nullLiterals.text],
  [json('labels', 'claimed', 'Labels of an external session.'), nullLiterals.text, nullLiterals.text],
];

const tables = ['tasks', 'runs', 'external_sessions'] as const;

/** `select` of one of the tables, in both SQL dialects. */
function tableSql(table: (typeof tables)[number], tableIndex: 1 | 2 | 3): Sql {
  const list = sessionColumns
    .map((row) => sqlTemplate`${row[tableIndex] ?? row[0].name} as ${row[0].name}`)
    .reduce((all, one) => sqlTemplate`${all}, ${one}`);
  return sqlTemplate`select ${list}${rowNumberColumn(table)} from ${table}`;
}

/** Running and finished tasks, runs and external sessions, one row each. */
export const sessions: Surface = {
  name: 'sessions',
  description: 'Tasks, runs and external sessions in one list.',
  key: ['id', 'kind'],
  time: 'started_at',
  source: {
    from: sqlTemplate`(${tableSql('tasks', 1)} union all ${tableSql('runs', 2)} union all ${tableSql('external_sessions', 3)})`,
    tables,
  },
  columns: [
    ...sessionColumns.map(([column]) => column),
    integer('duration_ms', 'derived', 'From start to end.', {
      ...ms,
      sql: msBetween('t.started_at', 't.ended_at'),
    }),
  ],
};
