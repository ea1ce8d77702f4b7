import { readFile } from 'node:fs/promises';
import { columns } from '../../cli/models/columns.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { errorMessage } from '../../util/error-message.ts';
import { endpointForm, endpointRule } from '../catalog/names.ts';
import { isOpenlySent } from '../config/remarks.ts';
import { accountNamed, answer, fileOf, neededFlag, note, type Session, withBooks, word } from './session.ts';

export async function addEndpoint(session: Session): Promise<void> {
  const { account, 'base-url': url, 'api-key-file': keyFile } = session.command.flags;
  const name = endpointName(session);
  const apiKey = keyFile === undefined ? undefined : await keyIn(keyFile);
  const file = await fileOf(session);
  const masterKeys = (await file?.masterKeys()) ?? [];
  await withBooks(
    session,
    async ({ ledger, credentials }) => {
      const { id, name: owner } = await accountNamed(session, ledger, neededFlag(account, 'account'));
      const baseUrl = neededFlag(url, 'base-url');
      await credentials.register(id, name, { baseUrl, ...(apiKey === undefined ? {} : { apiKey }) });
      if (isOpenlySent(baseUrl))
        note(
          session,
          'plain http is allowed for loopback and private addresses only: requests fail if this name resolves to others',
        );
      answer(
        session,
        { account: id, provider: name, base_url: baseUrl },
        `${owner} has the endpoint ${name}; its models are ${name}/MODEL\n`,
      );
    },
    { file, masterKeys },
  );
}

export function listEndpoints(session: Session): Promise<void> {
  const { account } = session.command.flags;
  return withBooks(session, async ({ ledger, credentials }) => {
    const accounts =
      account === undefined ? await ledger.accounts() : [await accountNamed(session, ledger, account)];
    const rows = [];
    for (const { id, name } of accounts)
      for (const row of await credentials.list(id)) rows.push({ name, row: { account: id, ...row } });
    const cells = rows.map(({ name, row }) => [
      name,
      row.provider,
      row.status,
      row.last4 === '' ? '-' : `...${row.last4}`,
      row.base_url ?? '-',
    ]);
    answer(
      session,
      { data: rows.map(({ row }) => row) },
      columns(['ACCOUNT', 'PROVIDER', 'STATUS', 'KEY', 'BASE URL'], cells),
    );
  });
}

export function removeEndpoint(session: Session): Promise<void> {
  const { account } = session.command.flags;
  const name = endpointName(session);
  return withBooks(session, async ({ ledger, credentials }) => {
    const { id, name: owner } = await accountNamed(session, ledger, neededFlag(account, 'account'));
    if (!(await credentials.remove(id, name)))
      throw new StartError(`${owner} has no endpoint ${name}; \`endpoint list\` shows its endpoints`);
    answer(session, { account: id, provider: name, removed: true }, `${owner} no longer has ${name}\n`);
  });
}

function endpointName(session: Session): string {
  const name = word(session, 0);
  if (endpointForm.test(name)) return name;
  throw new UsageError([`KIND:SLUG: ${endpointRule}; got '${name}'`]);
}

async function keyIn(path: string): Promise<string> {
  let text: string;
  try {
    text = (await readFile(path, 'utf8')).trim();
  } catch (error) {
    throw new UsageError([`--api-key-file ${path}: cannot be read: ${errorMessage(error)}`]);
  }
  if (/^[\x21-\x7e]{1,4096}$/.test(text)) return text;
  throw new UsageError([
    `--api-key-file ${path}: must hold the key, visible characters on one line, and nothing else`,
  ]);
}
