import type { Column, Sql, Surface } from '../types.ts';
import {
  endpoint,
  integer,
  json,
  ms,
  othersFigure,
  ownFigure,
  required,
  text,
  time,
  tokens,
} from './columns.ts';
import { jsonInteger, literal, msBetween, nothing, tickOf, written } from './sql.ts';

/**
 * What a column is in each of the tables; the column of the same name where nothing is said. Of one type in all of them:
 * else SQLite would collect the rows of all three before it looked for the newest.
 */
type Row = readonly [column: Column, task?: Sql, run?: Sql, external?: Sql];

const claimed = (member: string): Sql =>
  written`cast(${jsonInteger('tokens_claimed', member)} as ${{ sqlite: 'integer', postgres: 'bigint' }})`;

const rows: readonly Row[] = [
  [
    text('kind', 'derived', 'task, run or external.', required),
    literal('task'),
    literal('run'),
    literal('external'),
  ],
  [text('id', 'derived', 'Of the task, the run or the external session.', required)],
  [endpoint],
  [text('name', 'derived', 'The agent of a task, the workflow of a run.'), 'agent', 'workflow', nothing.text],
  [text('title', 'derived', 'The beginning of a task’s prompt.'), 'title', nothing.text, nothing.text],
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
    text('close_reason', 'derived', 'Of external ones: ended, or heartbeat_lost where it vanished.'),
    nothing.text,
    nothing.text,
  ],
  [time('started_at', 'measured', 'When it was taken or registered.', required)],
  [time('ended_at', 'measured', 'When it ended.')],
  [
    time('heard_at', 'measured', 'Of external ones: the last heartbeat.'),
    nothing.text,
    nothing.text,
    'beat_at',
  ],
  [
    integer('prompt_tokens', 'measured', 'Of tasks and runs, as the host counted.', tokens),
    ownFigure('prompt_tokens', 'engine'),
    ownFigure('prompt_tokens', 'engine'),
    nothing.integer,
  ],
  [
    integer('completion_tokens', 'measured', 'Of tasks and runs, as the host counted.', tokens),
    ownFigure('completion_tokens', 'engine'),
    ownFigure('completion_tokens', 'engine'),
    nothing.integer,
  ],
  [
    integer(
      'prompt_tokens_claimed',
      'claimed',
      'As the external one says, or the gateway whose model answers.',
      tokens,
    ),
    othersFigure('prompt_tokens', 'engine'),
    othersFigure('prompt_tokens', 'engine'),
    claimed('prompt'),
  ],
  [
    integer(
      'completion_tokens_claimed',
      'claimed',
      'As the external one says, or the gateway whose model answers.',
      tokens,
    ),
    othersFigure('completion_tokens', 'engine'),
    othersFigure('completion_tokens', 'engine'),
    claimed('completion'),
  ],
  [text('engine', 'derived', 'resident or gateway: whose model answers.'), 'engine', 'engine', nothing.text],
  [text('model', 'derived', 'The model that answers.'), 'model', 'model', nothing.text],
  [
    text('last_event', 'derived', 'What happened last, on one line; of an external one, how it ended.'),
    'last_event',
    'last_event',
    "cast(case when close_reason = 'heartbeat_lost' then outcome || ': heartbeat_lost' else outcome end as text)",
  ],
  [
    text('last_event_claimed', 'claimed', 'What happened last in an external one, as it says.'),
    nothing.text,
    nothing.text,
    'last_event',
  ],
  [text('harness', 'claimed', 'The program of an external one.'), nothing.text, nothing.text],
  [text('client', 'claimed', 'On whose behalf, of an external one.'), nothing.text, nothing.text],
  [text('title_claimed', 'claimed', 'The title of an external one.'), nothing.text, nothing.text, 'title'],
  [text('cwd', 'claimed', 'The folder that the request named.'), 'cwd', nothing.text],
  [json('labels', 'claimed', 'Of an external one.'), nothing.text, nothing.text],
];

const tables = ['tasks', 'runs', 'external_sessions'] as const;

/** The columns of one of the tables, in the words of both databases. */
function part(table: (typeof tables)[number], place: 1 | 2 | 3): Sql {
  const list = rows
    .map((row) => written`${row[place] ?? row[0].name} as ${row[0].name}`)
    .reduce((all, one) => written`${all}, ${one}`);
  return written`select ${list}${tickOf(table)} from ${table}`;
}

/** Everything at work and everything that was: a task, a run or an external session a row. */
export const sessions: Surface = {
  name: 'sessions',
  description: 'Tasks, runs and external sessions together.',
  key: ['id', 'kind'],
  time: 'started_at',
  source: {
    from: written`(${part('tasks', 1)} union all ${part('runs', 2)} union all ${part('external_sessions', 3)})`,
    tables,
  },
  columns: [
    ...rows.map(([column]) => column),
    integer('duration_ms', 'derived', 'From its start to its end.', {
      ...ms,
      sql: msBetween('t.started_at', 't.ended_at'),
    }),
  ],
};
