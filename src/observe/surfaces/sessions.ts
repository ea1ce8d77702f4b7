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
 * SQL of a column in each of the three tables; default: the column of the same name. The type must be the same in all
 * of them: otherwise SQLite materializes the rows of all three before it sorts them.
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
  [text('id', 'derived', 'Id of the task, run or external session.', required)],
  [endpoint],
  [text('name', 'derived', 'Agent of a task, or workflow of a run.'), 'agent', 'workflow', nothing.text],
  [text('title', 'derived', 'Beginning of a task’s prompt.'), 'title', nothing.text, nothing.text],
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
    nothing.text,
    nothing.text,
  ],
  [time('started_at', 'measured', 'When the work was accepted or registered.', required)],
  [time('ended_at', 'measured', 'When the work ended.')],
  [
    time('heard_at', 'measured', 'For external sessions: time of the last heartbeat.'),
    nothing.text,
    nothing.text,
    'beat_at',
  ],
  [
    integer('prompt_tokens', 'measured', 'For tasks and runs, counted by the host.', tokens),
    ownFigure('prompt_tokens', 'engine'),
    ownFigure('prompt_tokens', 'engine'),
    nothing.integer,
  ],
  [
    integer('completion_tokens', 'measured', 'For tasks and runs, counted by the host.', tokens),
    ownFigure('completion_tokens', 'engine'),
    ownFigure('completion_tokens', 'engine'),
    nothing.integer,
  ],
  [
    integer(
      'prompt_tokens_claimed',
      'claimed',
      'Reported by the external session, or by the gateway whose model answered.',
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
      'Reported by the external session, or by the gateway whose model answered.',
      tokens,
    ),
    othersFigure('completion_tokens', 'engine'),
    othersFigure('completion_tokens', 'engine'),
    claimed('completion'),
  ],
  [text('engine', 'derived', 'Where the model runs: resident or gateway.'), 'engine', 'engine', nothing.text],
  [text('model', 'derived', 'Model that answers.'), 'model', 'model', nothing.text],
  [
    text('last_event', 'derived', 'Last event on one line; for an external session, how it ended.'),
    'last_event',
    'last_event',
    "cast(case when close_reason = 'heartbeat_lost' then outcome || ': heartbeat_lost' else outcome end as text)",
  ],
  [
    text('last_event_claimed', 'claimed', 'Last event that an external session reported.'),
    nothing.text,
    nothing.text,
    'last_event',
  ],
  [text('harness', 'claimed', 'Program of an external session.'), nothing.text, nothing.text],
  [text('client', 'claimed', 'Client that an external session works for.'), nothing.text, nothing.text],
  [text('title_claimed', 'claimed', 'Title of an external session.'), nothing.text, nothing.text, 'title'],
  [text('cwd', 'claimed', 'Folder named in the request.'), 'cwd', nothing.text],
  [json('labels', 'claimed', 'Labels of an external session.'), nothing.text, nothing.text],
];

const tables = ['tasks', 'runs', 'external_sessions'] as const;

/** `select` of one of the tables, in both SQL dialects. */
function part(table: (typeof tables)[number], place: 1 | 2 | 3): Sql {
  const list = rows
    .map((row) => written`${row[place] ?? row[0].name} as ${row[0].name}`)
    .reduce((all, one) => written`${all}, ${one}`);
  return written`select ${list}${tickOf(table)} from ${table}`;
}

/** Running and finished tasks, runs and external sessions, one row each. */
export const sessions: Surface = {
  name: 'sessions',
  description: 'Tasks, runs and external sessions in one list.',
  key: ['id', 'kind'],
  time: 'started_at',
  source: {
    from: written`(${part('tasks', 1)} union all ${part('runs', 2)} union all ${part('external_sessions', 3)})`,
    tables,
  },
  columns: [
    ...rows.map(([column]) => column),
    integer('duration_ms', 'derived', 'From start to end.', {
      ...ms,
      sql: msBetween('t.started_at', 't.ended_at'),
    }),
  ],
};
