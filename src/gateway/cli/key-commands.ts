import { formatTable } from '../../cli/models/format-table.ts';
import { UsageError } from '../../config/usage.ts';
import { didYouMean } from '../../words/nearest.ts';
import { parseEndpointModel, parseNamespacedName } from '../catalog/model-names.ts';
import { toKeyBody } from '../ledger/bodies.ts';
import type { KeyChanges, KeyRow } from '../ledger/types.ts';
import type { GatewayFile } from '../config/gateway-file.ts';
import { commands } from './commands.ts';
import { formatDollars } from '../ledger/money.ts';
import {
  findAccount,
  writeResult,
  readConfigIfPresent,
  requireFlag,
  writeNote,
  type CommandContext,
  withDatabase,
  positional,
} from './command-context.ts';

/** `key create`: prints only the key to stdout, so that a script can capture it. */
export async function createKey(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  const settings = readSettings(context);
  const file = await readConfigIfPresent(context);
  await remarkUnknownModels(context, file, settings.models ?? []);
  await withDatabase(
    context,
    async ({ ledger }) => {
      const { id, name } = await findAccount(context, ledger, requireFlag(account, 'account'));
      const { row, secret } = await ledger.createKey({
        account: id,
        ...settings,
      });
      if (!context.command.json)
        writeNote(context, `created ${row.id} for the account ${name}; the key is shown only once`);
      writeResult(context, { ...toKeyBody(row), key: secret }, `${secret}\n`);
    },
    { file },
  );
}

/** `key update`: running gateways use the new settings for their next requests. */
export async function updateKey(context: CommandContext): Promise<void> {
  const settings = readSettings(context);
  if (Object.keys(settings).length === 0) throw new UsageError([`key update needs one of ${listSettings()}`]);
  const file = await readConfigIfPresent(context);
  await remarkUnknownModels(context, file, settings.models ?? []);
  await withDatabase(
    context,
    async ({ ledger }) => {
      const row = await ledger.updateKey(positional(context, 0), settings);
      writeResult(context, toKeyBody(row), `${row.id} is changed\n`);
    },
    { file },
  );
}

const setDisabled =
  (isDisabled: boolean) =>
  (context: CommandContext): Promise<void> =>
    withDatabase(context, async ({ ledger }) => {
      const row = await ledger.setKeyDisabled(positional(context, 0), isDisabled);
      writeResult(context, toKeyBody(row), `${row.id} is ${isDisabled ? 'disabled' : 'enabled'}\n`);
    });

export const disableKey = setDisabled(true);
export const enableKey = setDisabled(false);

export function revokeKey(context: CommandContext): Promise<void> {
  return withDatabase(context, async ({ ledger }) => {
    const row = await ledger.revokeKey(positional(context, 0));
    writeResult(context, toKeyBody(row), `${row.id} is revoked; it spent ${formatDollars(row.spent)}\n`);
  });
}

export function listKeys(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  return withDatabase(context, async ({ ledger }) => {
    const accountId = account === undefined ? undefined : (await findAccount(context, ledger, account)).id;
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
  file: GatewayFile | undefined,
  models: readonly string[],
): Promise<void> {
  const ids = (await file?.modelIds()) ?? [];
  for (const name of models)
    if (ids.length > 0 && !ids.includes(name) && !parseEndpointModel(name) && !parseNamespacedName(name))
      writeNote(
        context,
        `the configuration has no model '${name}'${didYouMean(name, ids, (near) => `'${near}'`)}`,
      );
}

/** The key's own limits. */
function limitsText({ requestsPerMinute, tokensPerMinute, concurrency }: KeyRow): string {
  const own = Object.entries({ rpm: requestsPerMinute, tpm: tokensPerMinute, concurrency });
  const parts = own.flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`]));
  return parts.join(', ') || '-';
}

function keyState({ revokedAt, disabledAt, expiresAt }: KeyRow, now: Date): string {
  if (revokedAt !== undefined) return `revoked ${revokedAt.slice(0, 10)}`;
  if (disabledAt !== undefined) return `disabled ${disabledAt.slice(0, 10)}`;
  if (expiresAt === undefined) return 'active';
  return `${new Date(expiresAt) <= now ? 'expired' : 'until'} ${expiresAt.slice(0, 10)}`;
}
