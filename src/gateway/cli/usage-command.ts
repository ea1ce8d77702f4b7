import { formatTable } from '../../cli/models/format-table.ts';
import { UsageError } from '../../config/usage.ts';
import { toTotalsBody, toUsageBody } from '../usage/bodies.ts';
import { parseUsageSince, toDay, type UsageDimension } from '../usage/query.ts';
import { compareGroups, sumOf, type UsageLine, type UsageTotals } from '../usage/report.ts';
import { type CommandContext, findAccount, withBooks, writeResult } from './command-context.ts';
import { formatDollars } from '../ledger/money.ts';

const sumHeadings = ['REQUESTS', 'PROMPT', 'CACHED', 'COMPLETION', 'SPEND'];

/** `usage`: what was used, by day, key, account, provider, model and end user. */
export async function showUsage(context: CommandContext): Promise<void> {
  const { flags, switches } = context.command;
  const { by = ['model'], since = parseUsageSince('30d'), until, account } = flags;
  const now = context.environment.now();
  const period = { since: since(now), until: until ?? toDay(now) };
  if (period.since > period.until)
    throw new UsageError([`--since: expected a day up to ${period.until}, got ${period.since}`]);
  if (context.command.json && switches.includes('csv'))
    throw new UsageError(['--csv and --json exclude each other']);
  const withDescendants = switches.includes('with-descendants');
  if (withDescendants && account === undefined)
    throw new UsageError(['--with-descendants needs --account NAME']);
  await withBooks(context, async (books) => {
    const { ledger } = books;
    const accountId = account === undefined ? undefined : (await findAccount(books, account)).id;
    const query = { by, ...period, ...(accountId === undefined ? {} : { accountId, withDescendants }) };
    const unsorted = (await ledger.usage(query)) ?? [];
    const names = new Map(
      by.includes('account') ? (await ledger.accounts()).map(({ id, name }) => [id, name]) : [],
    );
    const nameOf = (dimension: UsageDimension, value: string): string =>
      dimension === 'account' ? (names.get(value) ?? value) : value;
    const cellsOf = ({ group }: UsageLine) =>
      by.map((dimension, index) => nameOf(dimension, group[index] ?? ''));
    // In the order of the names that are shown, not of the accounts' ids.
    const lines = [...unsorted].sort((one, other) => compareGroups(cellsOf(one), cellsOf(other)));
    if (switches.includes('csv')) {
      context.environment.stdout.write(
        toCsv(
          by,
          lines.map((line) => [...cellsOf(line), ...csvSums(line)]),
        ),
      );
      return;
    }
    const total = ['TOTAL', ...by.slice(1).map(() => ''), ...sumCells(sumOf(lines))];
    const rows = lines.map((line) => [...cellsOf(line).map((cell) => cell || '-'), ...sumCells(line)]);
    writeResult(
      context,
      toUsageBody(query, lines),
      formatTable([...by.map((name) => name.toUpperCase()), ...sumHeadings], [...rows, total]),
    );
  });
}

const sumCells = ({
  requests,
  promptTokens,
  cachedTokens,
  completionTokens,
  spent,
}: UsageTotals): string[] => [
  ...[requests, promptTokens, cachedTokens, completionTokens].map(String),
  formatDollars(spent),
];

const csvColumns = ['requests', 'prompt_tokens', 'cached_tokens', 'completion_tokens', 'spend_usd'] as const;
const csvSums = (line: UsageLine): string[] => {
  const body = toTotalsBody(line);
  return csvColumns.map((name) => String(body[name]));
};

/** CSV as in RFC 4180, with a heading. */
const toCsv = (by: readonly string[], rows: readonly (readonly string[])[]): string =>
  [[...by, ...csvColumns], ...rows].map((row) => `${row.map(csvCell).join(',')}\r\n`).join('');

/**
 * Callers choose tags and some names of models: a cell that begins like a formula gets an apostrophe, so that a spreadsheet
 * does not run it.
 */
function csvCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
