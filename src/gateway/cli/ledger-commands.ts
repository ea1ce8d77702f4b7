import { StartError } from '../../cli/start-error.ts';
import { printable } from '../../terminal/printable.ts';
import { pluralize } from '../../words/count.ts';
import { writeResult, readConfig, type CommandContext, withDatabase } from './command-context.ts';
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
