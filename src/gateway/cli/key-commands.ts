import { formatTable } from '../../cli/models/format-table.ts';
import { UsageError } from '../../config/usage.ts';
import { didYouMean } from '../../words/nearest.ts';
import { parseEndpointModel, parseNamespacedName } from '../catalog/model-names.ts';
import { toKeyBody } from '../ledger/bodies.ts';
import type { KeyChanges, ShownKey } from '../ledger/types.ts';
import { commands } from './commands.ts';
import { formatDollars } from '../ledger/money.ts';
import {
  findAccount,
  writeResult,
  requireFlag,
  writeNote,
  type CommandContext,
  withBooks,
  positional,
} from './command-context.ts';
import type { OperatorBooks } from './types.ts';

/** `key create`: prints only the key to stdout, so that a script can capture it. */
export async function createKey(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  const settings = readSettings(context);
  await withBooks(context, async (books) => {
    const { ledger } = books;
    await remarkUnknownModels(context, books, settings.models ?? []);
    const { id, name } = await findAccount(books, requireFlag(account, 'account'));
    const { row, secret } = await ledger.createKey({
      account: id,
      ...settings,
    });
    if (!context.command.json)
      writeNote(context, `created ${row.id} for the account ${name}; the key is shown only once`);
    writeResult(context, { ...toKeyBody(row), key: secret }, `${secret}\n`);
  });
}

/** `key update`: running gateways use the new settings for their next requests. */
export async function updateKey(context: CommandContext): Promise<void> {
  const settings = readSettings(context);
  if (Object.keys(settings).length === 0) throw new UsageError([`key update needs one of ${listSettings()}`]);
  await withBooks(context, async (books) => {
    const { ledger } = books;
    await remarkUnknownModels(context, books, settings.models ?? []);
    const row = await ledger.updateKey(positional(context, 0), settings);
    writeResult(context, toKeyBody(row), `${row.id} is changed\n`);
  });
}

const setDisabled =
  (isDisabled: boolean) =>
  (context: CommandContext): Promise<void> =>
    withBooks(context, async (books) => {
      const { ledger } = books;
      const row = await ledger.setKeyDisabled(positional(context, 0), isDisabled);
      writeResult(context, toKeyBody(row), `${row.id} is ${isDisabled ? 'disabled' : 'enabled'}\n`);
    });

export const disableKey = setDisabled(true);
export const enableKey = setDisabled(false);

export function revokeKey(context: CommandContext): Promise<void> {
  return withBooks(context, async (books) => {
    const { ledger } = books;
    const row = await ledger.revokeKey(positional(context, 0));
    writeResult(context, toKeyBody(row), `${row.id} is revoked; it spent ${formatDollars(row.spent)}\n`);
  });
}

export function listKeys(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  return withBooks(context, async (books) => {
    const { ledger } = books;
    const accountId = account === undefined ? undefined : (await findAccount(books, account)).id;
    const names = new Map((await ledger.accounts()).map(({ id, name }) => [id, name]));
    const rows = await ledger.keys(accountId);
    const cells = rows.map((row) => [
      row.id,
      names.get(row.accountId) ?? row.accountId,
      `...${row.last4}`,
      formatDollars(row.spent),
      row.cap === undefined ? '-' : formatDollars(row.cap),
      row.models?.join(',') ?? 'all',
      limitsText(row),
      keyState(row, context.environment.now()),
      row.label ?? '',
    ]);
    const headings = ['ID', 'ACCOUNT', 'KEY', 'SPENT', 'CAP', 'MODELS', 'LIMITS', 'STATE', 'LABEL'];
    writeResult(context, { data: rows.map(toKeyBody) }, formatTable(headings, cells));
  });
}

const settingFlags = commands['key update'].flags;
const listSettings = () => settingFlags.map((name) => `--${name}`).join(', ');

/** The settings that the flags name. @throws UsageError */
function readSettings({ command, environment }: CommandContext): KeyChanges {
  const { label, 'cap-usd': cap, expires, models, rpm, tpm, concurrency } = command.flags;
  const now = environment.now();
  const expiresAt = expires === null ? null : expires?.(now);
  if (expiresAt && expiresAt <= now)
    throw new UsageError([`--expires: ${expiresAt.toISOString()} is in the past`]);
  return {
    ...(label === undefined ? {} : { label }),
    ...(cap === undefined ? {} : { cap }),
    ...(expiresAt === undefined ? {} : { expiresAt: expiresAt?.toISOString() ?? null }),
    ...(models === undefined ? {} : { models }),
    ...(rpm === undefined ? {} : { requestsPerMinute: rpm }),
    ...(tpm === undefined ? {} : { tokensPerMinute: tpm }),
    ...(concurrency === undefined ? {} : { concurrency }),
  };
}

async function remarkUnknownModels(
  context: CommandContext,
  books: OperatorBooks,
  models: readonly string[],
): Promise<void> {
  if (models.length === 0) return;
  const ids = await books.modelNames();
  for (const name of models)
    if (ids.length > 0 && !ids.includes(name) && !parseEndpointModel(name) && !parseNamespacedName(name))
      writeNote(
        context,
        `the configuration has no model '${name}'${didYouMean(name, ids, (near) => `'${near}'`)}`,
      );
}

/** The key's own limits. */
function limitsText({ requestsPerMinute, tokensPerMinute, concurrency }: ShownKey): string {
  const own = Object.entries({ rpm: requestsPerMinute, tpm: tokensPerMinute, concurrency });
  const parts = own.flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`]));
  return parts.join(', ') || '-';
}

function keyState({ revokedAt, disabledAt, expiresAt }: ShownKey, now: Date): string {
  if (revokedAt !== undefined) return `revoked ${revokedAt.slice(0, 10)}`;
  if (disabledAt !== undefined) return `disabled ${disabledAt.slice(0, 10)}`;
  if (expiresAt === undefined) return 'active';
  return `${new Date(expiresAt) <= now ? 'expired' : 'until'} ${expiresAt.slice(0, 10)}`;
}
