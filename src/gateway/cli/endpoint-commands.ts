import { readFile } from 'node:fs/promises';
import { formatTable } from '../../cli/models/format-table.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { errorMessage } from '../../util/error-message.ts';
import { endpointPattern, endpointRule } from '../catalog/model-names.ts';
import { isPublicPlainHttp } from '../config/remarks.ts';
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

export async function addEndpoint(context: CommandContext): Promise<void> {
  const { account, 'base-url': url, 'api-key-file': keyFile } = context.command.flags;
  const name = parseEndpointName(context);
  const apiKey = keyFile === undefined ? undefined : await readKeyFile(keyFile);
  const file = await readConfigIfPresent(context);
  const masterKeys = (await file?.masterKeys()) ?? [];
  await withDatabase(
    context,
    async ({ ledger, credentials, place }) => {
      const { id, name: owner } = await findAccount({ ledger, place }, requireFlag(account, 'account'));
      const baseUrl = requireFlag(url, 'base-url');
      await credentials.register(id, name, { baseUrl, ...(apiKey === undefined ? {} : { apiKey }) });
      if (isPublicPlainHttp(baseUrl))
        writeNote(
          context,
          'plain http is allowed for loopback and private addresses only: requests fail if this name resolves to others',
        );
      writeResult(
        context,
        { account: id, provider: name, base_url: baseUrl },
        `${owner} has the endpoint ${name}; its models are ${name}/MODEL\n`,
      );
    },
    { file, masterKeys },
  );
}

export function listEndpoints(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  return withDatabase(context, async ({ ledger, credentials, place }) => {
    const accounts =
      account === undefined ? await ledger.accounts() : [await findAccount({ ledger, place }, account)];
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
    writeResult(
      context,
      { data: rows.map(({ row }) => row) },
      formatTable(['ACCOUNT', 'PROVIDER', 'STATUS', 'KEY', 'BASE URL'], cells),
    );
  });
}

export function removeEndpoint(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  const name = parseEndpointName(context);
  return withDatabase(context, async ({ ledger, credentials, place }) => {
    const { id, name: owner } = await findAccount({ ledger, place }, requireFlag(account, 'account'));
    if (!(await credentials.remove(id, name)))
      throw new StartError(`${owner} has no endpoint ${name}; \`endpoint list\` shows its endpoints`);
    writeResult(context, { account: id, provider: name, removed: true }, `${owner} no longer has ${name}\n`);
  });
}

function parseEndpointName(context: CommandContext): string {
  const name = positional(context, 0);
  if (endpointPattern.test(name)) return name;
  throw new UsageError([`KIND:SLUG: ${endpointRule}; got '${name}'`]);
}

async function readKeyFile(path: string): Promise<string> {
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
