import { StartError } from '../../cli/start-error.ts';
import { printable } from '../../terminal/printable.ts';
import { counted } from '../../words/count.ts';
import { answer, neededFile, type Session, withBooks } from './session.ts';
import type { OpenBooks } from './types.ts';

/** `ledger audit`: exits with an error if the ledger is inconsistent. */
export function auditLedger(session: Session): Promise<void> {
  return withBooks(session, async ({ ledger }) => {
    const { ok, accounts, transactions, entries, openHolds, faults } = await ledger.audit();
    const sums = [
      counted(accounts, 'account'),
      counted(transactions, 'transaction'),
      `${entries} entries`,
      counted(openHolds, 'open hold'),
    ].join(', ');
    const body = { ok, accounts, transactions, entries, open_holds: openHolds, faults };
    const lines = [ok ? `the ledger is consistent: ${sums}` : sums, ...faults.map(printable)];
    answer(session, body, `${lines.join('\n')}\n`);
    if (!ok) throw new StartError(`the ledger is inconsistent: ${counted(faults.length, 'fault')}`);
  });
}

/** `secrets rotate`: exits with an error if a record cannot be decrypted. */
export async function rotateSecrets(session: Session): Promise<void> {
  const file = await neededFile(session);
  const masterKeys = await file.masterKeys();
  const work = async ({ credentials }: OpenBooks) => {
    const { rewrapped, current, faults } = await credentials.rotate();
    const sums = `${counted(rewrapped, 'credential')} re-encrypted with ${masterKeys[0]?.id ?? ''}, ${current} unchanged`;
    const lines = [sums, ...faults.map(printable)];
    answer(session, { rewrapped, current, faults }, `${lines.join('\n')}\n`);
    if (faults.length > 0)
      throw new StartError(
        `${counted(faults.length, 'credential')} cannot be decrypted; add the master key that encrypted them to previous in [secrets], or have them stored again`,
      );
  };
  await withBooks(session, work, { file, masterKeys });
}
