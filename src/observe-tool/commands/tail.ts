import { setTimeout as pause } from 'node:timers/promises';
import { UsageError } from '../../config/usage.ts';
import { HostError } from '../../host-client/errors.ts';
import { ObserveError } from '../../observe/errors.ts';
import { listOf } from '../../terminal/arguments.ts';
import { AnswerTable } from '../answer-table.ts';
import type { Flags } from '../arguments.ts';
import type { Context, Run } from '../context.ts';
import { queryOf } from '../query-flags.ts';
import { type NewRows, TailWindow } from '../tail-window.ts';

const longestPauseMs = 30_000;
const mostLast = 1000;

/** Prints new rows until interrupted. */
export const tail: Run = async (context) => {
  const { source, word, flags, world } = context;
  const { every, last } = timesOf(flags);
  const { document: schema } = await source.schema(word);
  const { where = [] } = queryOf(schema, flags);
  const window = new TailWindow(source, schema, {
    where,
    select: flags.select === undefined ? undefined : listOf(flags.select),
  });
  const show = shower(context);
  show(await narrowing(context, window, () => window.begin(last)));
  let failures = 0;
  while (!world.over.aborted) {
    await pause(Math.min(longestPauseMs, every * 2 ** failures), undefined, { signal: world.over });
    try {
      show(await narrowing(context, window, () => window.next()));
      if (failures > 0) context.note('connected again; no rows were missed');
      failures = 0;
    } catch (error) {
      if (!isPassing(error)) throw error;
      if (failures === 0) context.note(`${(error as Error).message}; retrying`);
      failures += 1;
    }
  }
};

/** Narrows the window while queries exceed the time limit. */
async function narrowing(
  { note }: Context,
  window: TailWindow,
  look: () => Promise<NewRows>,
): Promise<NewRows> {
  for (;;) {
    try {
      return await look();
    } catch (error) {
      const isLong =
        (error instanceof HostError || error instanceof ObserveError) && error.code === 'query_over_budget';
      const length = isLong ? window.narrow() : undefined;
      if (length === undefined) throw error;
      note(
        `there are many rows: a row that arrives more than ${Math.round(length / 60_000)} minutes after its time is not shown`,
      );
    }
  }
}

function shower({ flags, look, print, printJson }: Context): (found: NewRows) => void {
  const table = new AnswerTable(look);
  return ({ columns, rows, asOf }) => {
    if (!flags.json) return print(table.lines(columns, rows, asOf));
    for (const row of rows)
      printJson(JSON.stringify(Object.fromEntries(columns.map(({ name }, at) => [name, row[at]]))));
  };
}

function timesOf({ every = '1s', last = 0 }: Flags): { readonly every: number; readonly last: number } {
  const [, count, unit] = /^(\d{1,6})(ms|s|m)$/.exec(every) ?? [];
  const ms = Number(count) * ({ ms: 1, s: 1000, m: 60_000 }[unit ?? ''] ?? Number.NaN);
  const faults = [
    ...(ms >= 100 && ms <= 86_400_000
      ? []
      : [`--every: expected 100ms or more, for example 500ms, 2s or 1m, got '${every}'`]),
    ...(Number.isInteger(last) && last >= 0 && last <= mostLast
      ? []
      : [`--last: expected a whole number from 0 to ${mostLast}, got ${last}`]),
  ];
  if (faults.length > 0) throw new UsageError(faults);
  return { every: ms, last };
}

/** Whether an error is transient: the host is restarting or busy. */
const isPassing = (error: unknown): boolean =>
  (error instanceof HostError && error.passing) ||
  (error instanceof ObserveError && error.code === 'observe_busy');
