import { columns } from '../../cli/models/columns.ts';
import { UsageError } from '../../config/usage.ts';
import { didYouMean } from '../../words/nearest.ts';
import { jsonNano } from '../catalog/bodies.ts';
import { endpointModel, namespaced } from '../catalog/names.ts';
import type { KeyRow } from '../ledger/types.ts';
import { dollars } from './money.ts';
import { accountNamed, answer, fileOf, neededFlag, note, type Session, withBooks, word } from './session.ts';

const keyBody = (row: KeyRow) => ({
  id: row.id,
  account: row.accountId,
  label: row.label ?? null,
  last4: row.last4,
  cap_nanodollars: row.cap === undefined ? null : jsonNano(row.cap),
  spent_nanodollars: jsonNano(row.spent),
  held_nanodollars: jsonNano(row.held),
  models: row.models ?? null,
  created_at: row.createdAt,
  expires_at: row.expiresAt ?? null,
  revoked_at: row.revokedAt ?? null,
});

/** `key create`: prints only the key to stdout, so that a script can capture it. */
export async function createKey(session: Session): Promise<void> {
  const { account, label, 'cap-usd': cap, expires, models } = session.command.flags;
  const now = session.world.now();
  const end = expires?.(now);
  if (end && end <= now) throw new UsageError([`--expires: ${end.toISOString()} is in the past`]);
  const file = await fileOf(session);
  const ids = (await file?.modelIds()) ?? [];
  for (const name of models ?? [])
    if (ids.length > 0 && !ids.includes(name) && !endpointModel(name) && !namespaced(name))
      note(
        session,
        `the configuration has no model '${name}'${didYouMean(name, ids, (near) => `'${near}'`)}`,
      );
  await withBooks(
    session,
    async ({ ledger }) => {
      const { id, name } = await accountNamed(session, ledger, neededFlag(account, 'account'));
      const { row, secret } = await ledger.createKey({
        account: id,
        ...(label === undefined ? {} : { label }),
        ...(cap === undefined ? {} : { cap }),
        ...(end === undefined ? {} : { expiresAt: end.toISOString() }),
        ...(models === undefined ? {} : { models }),
      });
      if (!session.command.json)
        note(session, `created ${row.id} for the account ${name}; the key is shown only once`);
      answer(session, { ...keyBody(row), key: secret }, `${secret}\n`);
    },
    { file },
  );
}

export function revokeKey(session: Session): Promise<void> {
  return withBooks(session, async ({ ledger }) => {
    const row = await ledger.revokeKey(word(session, 0));
    answer(session, keyBody(row), `${row.id} is revoked; it spent ${dollars(row.spent)}\n`);
  });
}

export function listKeys(session: Session): Promise<void> {
  const { account } = session.command.flags;
  return withBooks(session, async ({ ledger }) => {
    const wanted = account === undefined ? undefined : (await accountNamed(session, ledger, account)).id;
    const names = new Map((await ledger.accounts()).map(({ id, name }) => [id, name]));
    const rows = await ledger.keys(wanted);
    const cells = rows.map((row) => [
      row.id,
      names.get(row.accountId) ?? row.accountId,
      `...${row.last4}`,
      dollars(row.spent),
      row.cap === undefined ? '-' : dollars(row.cap),
      row.models?.join(',') ?? 'all',
      stateOf(row, session.world.now()),
      row.label ?? '',
    ]);
    const headings = ['ID', 'ACCOUNT', 'KEY', 'SPENT', 'CAP', 'MODELS', 'STATE', 'LABEL'];
    answer(session, { data: rows.map(keyBody) }, columns(headings, cells));
  });
}

function stateOf({ revokedAt, expiresAt }: KeyRow, now: Date): string {
  if (revokedAt !== undefined) return `revoked ${revokedAt.slice(0, 10)}`;
  if (expiresAt === undefined) return 'active';
  return `${new Date(expiresAt) <= now ? 'expired' : 'until'} ${expiresAt.slice(0, 10)}`;
}
