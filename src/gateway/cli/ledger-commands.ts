import { stat } from 'node:fs/promises';
import { StartError } from '../../cli/start-error.ts';
import { printable } from '../../terminal/printable.ts';
import { pluralize } from '../../words/count.ts';
import type { ArchivedDay } from '../ledger/archive.ts';
import {
  type CommandContext,
  positional,
  readConfig,
  requireFlag,
  withDatabase,
  writeNote,
  writeResult,
} from './command-context.ts';
import type { GatewayDatabase } from './types.ts';

/** `ledger audit`: exits with an error if the ledger is inconsistent. */
export function auditLedger(session: CommandContext): Promise<void> {
  return withDatabase(session, async ({ ledger }) => {
    const { ok, accounts, transactions, entries, openHolds, faults } = await ledger.audit();
    const summary = [
      pluralize(accounts, 'account'),
      pluralize(transactions, 'transaction'),
      `${entries} entries`,
      pluralize(openHolds, 'open hold'),
    ].join(', ');
    const body = { ok, accounts, transactions, entries, open_holds: openHolds, faults };
    const lines = [ok ? `the ledger is consistent: ${summary}` : summary, ...faults.map(printable)];
    writeResult(session, body, `${lines.join('\n')}\n`);
    if (!ok) throw new StartError(`the ledger is inconsistent: ${pluralize(faults.length, 'fault')}`);
  });
}

/** `ledger archive`. */
export async function archiveLedger(session: CommandContext): Promise<void> {
  const folder = await existingFolder(session, 'create it first');
  const before = requireFlag(session.command.flags.before, 'before');
  await withDatabase(session, async ({ ledger }) => {
    const onDay = ({ day, file, requests }: ArchivedDay) =>
      writeNote(session, `${day}: ${pluralize(requests, 'request')} in ${file}`);
    const days = await ledger.archive({ before, folder, onDay });
    const requests = days.reduce((sum, day) => sum + day.requests, 0);
    const text =
      days.length === 0
        ? `nothing to archive: no request ended before ${before}\n`
        : `${pluralize(requests, 'request')} of ${pluralize(days.length, 'day')} archived in ${folder}; keep the files, \`ledger verify\` checks them\n`;
    writeResult(session, { days }, text);
  });
}

/** `ledger verify`: exits with an error if a file is missing or differs from the ledger. */
export async function verifyLedgerArchives(session: CommandContext): Promise<void> {
  const folder = await existingFolder(session, 'name the one that `ledger archive` wrote to');
  await withDatabase(session, async ({ ledger }) => {
    const { days, requests, faults } = await ledger.verifyArchives(folder);
    const summary = `${pluralize(days, 'archived day')}, ${pluralize(requests, 'request')}`;
    const lines = [
      faults.length === 0 ? `the archives agree with the ledger: ${summary}` : summary,
      ...faults,
    ];
    writeResult(
      session,
      { ok: faults.length === 0, days, requests, faults },
      `${lines.map(printable).join('\n')}\n`,
    );
    if (faults.length > 0)
      throw new StartError(`the archives differ from the ledger: ${pluralize(faults.length, 'fault')}`);
  });
}

/** The folder that the command names. @throws StartError when there is none */
async function existingFolder(session: CommandContext, advice: string): Promise<string> {
  const folder = positional(session, 0);
  const found = await stat(folder).catch(() => undefined);
  if (!found?.isDirectory()) throw new StartError(`there is no folder ${folder}: ${advice}`);
  return folder;
}

/** `secrets rotate`: exits with an error if a record cannot be decrypted. */
export async function rotateSecrets(session: CommandContext): Promise<void> {
  const file = await readConfig(session);
  const masterKeys = await file.masterKeys();
  const rotateAll = async ({ credentials }: GatewayDatabase) => {
    const { rewrapped, current, faults } = await credentials.rotate();
    const summary = `${pluralize(rewrapped, 'credential')} re-encrypted with ${masterKeys[0]?.id ?? ''}, ${current} unchanged`;
    const lines = [summary, ...faults.map(printable)];
    writeResult(session, { rewrapped, current, faults }, `${lines.join('\n')}\n`);
    if (faults.length > 0)
      throw new StartError(
        `${pluralize(faults.length, 'credential')} cannot be decrypted; add the master key that encrypted them to previous in [secrets], or have them stored again`,
      );
  };
  await withDatabase(session, rotateAll, { file, masterKeys });
}
