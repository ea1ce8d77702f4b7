import { setTimeout as pause } from 'node:timers/promises';
import { UsageError } from '../../config/usage.ts';
import { HostError } from '../../host-client/errors.ts';
import { ObserveError } from '../../observe/errors.ts';
import { splitList } from '../../terminal/arguments.ts';
import { ResultTable } from '../result-table.ts';
import type { Flags } from '../arguments.ts';
import type { CommandContext, CommandHandler } from '../command-context.ts';
import { buildQuery } from '../query-flags.ts';
import { type NewRows, TailWindow } from '../tail-window.ts';

const maxRetryDelayMs = 30_000;
const maxLast = 1000;

/** Prints new rows until interrupted. */
export const tail: CommandHandler = async (context) => {
  const { source, argument, flags, cli } = context;
  const { every: intervalMs, last } = parseTimes(flags);
  const { document: schema } = await source.schema(argument);
  const { where = [] } = buildQuery(schema, flags);
  const window = new TailWindow(source, schema, {
    where,
    select: flags.select === undefined ? undefined : splitList(flags.select),
  });
  const printRows = createPrinter(context);
  printRows(await withShrinkingWindow(context, window, () => window.readInitial(last)));
  let failures = 0;
  while (!cli.stopping.aborted) {
    await pause(Math.min(maxRetryDelayMs, intervalMs * 2 ** failures), undefined, { signal: cli.stopping });
    try {
      printRows(await withShrinkingWindow(context, window, () => window.readNext()));
      if (failures > 0) context.printNote('connected again; no rows were missed');
      failures = 0;
    } catch (error) {
      if (!isTransient(error)) throw error;
      if (failures === 0) context.printNote(`${(error as Error).message}; retrying`);
      failures += 1;
    }
  }
};

/** Narrows the window while queries exceed the time limit. */
async function withShrinkingWindow(
  { printNote: note }: CommandContext,
  window: TailWindow,
  readWindow: () => Promise<NewRows>,
): Promise<NewRows> {
  for (;;) {
    try {
      return await readWindow();
    } catch (error) {
      const isLong =
        (error instanceof HostError || error instanceof ObserveError) && error.code === 'query_over_budget';
      const length = isLong ? window.shrink() : undefined;
      if (length === undefined) throw error;
      note(
        `there are many rows: a row that arrives more than ${Math.round(length / 60_000)} minutes after its time is not shown`,
      );
    }
  }
}

function createPrinter({ flags, style, print, printJson }: CommandContext): (found: NewRows) => void {
  const table = new ResultTable(style);
  return ({ columns, rows, asOf }) => {
    if (!flags.json) return print(table.lines(columns, rows, asOf));
    for (const row of rows)
      printJson(JSON.stringify(Object.fromEntries(columns.map(({ name }, at) => [name, row[at]]))));
  };
}

function parseTimes({ every = '1s', last = 0 }: Flags): { readonly every: number; readonly last: number } {
  const [, count, unit] = /^(\d{1,6})(ms|s|m)$/.exec(every) ?? [];
  const ms = Number(count) * ({ ms: 1, s: 1000, m: 60_000 }[unit ?? ''] ?? Number.NaN);
  const faults = [
    ...(ms >= 100 && ms <= 86_400_000
      ? []
      : [`--every: expected 100ms or more, for example 500ms, 2s or 1m, got '${every}'`]),
    ...(Number.isInteger(last) && last >= 0 && last <= maxLast
      ? []
      : [`--last: expected a whole number from 0 to ${maxLast}, got ${last}`]),
  ];
  if (faults.length > 0) throw new UsageError(faults);
  return { every: ms, last };
}

/** Whether an error is transient: the host is restarting or busy. */
const isTransient = (error: unknown): boolean =>
  (error instanceof HostError && error.isTransient) ||
  (error instanceof ObserveError && error.code === 'observe_busy');
