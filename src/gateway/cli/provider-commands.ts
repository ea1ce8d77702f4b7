import type { z } from 'zod';
import { formatTable } from '../../cli/models/format-table.ts';
import { reloadSchema } from '../operator/admin-schemas.ts';
import { credentialSchema, providerSchema } from '../operator/provider-bodies.ts';
import { listSchema, pathOf } from './admin-api.ts';
import { type CommandContext, positional, requireAdminApi, writeResult } from './command-context.ts';

type Disabled = z.infer<typeof providerSchema>['disabled'];

/** `provider list`: the providers of a running gateway, and the health of their deployments as it sees them. */
export async function listProviders(context: CommandContext): Promise<void> {
  const api = await requireAdminApi(context);
  const list = await api.send(listSchema(providerSchema), 'GET', '/providers');
  const rows = list.data.flatMap(({ id, disabled, deployments }) =>
    deployments.map((one) => [
      id,
      one.model,
      stateText(disabled ?? one.disabled),
      one.breaker_open ? 'open' : 'closed',
      one.cooldown_ms === 0 ? '-' : `${Math.ceil(one.cooldown_ms / 1000)} s`,
      String(one.requests_in_flight),
      one.last_error ? `${one.last_error.status} ${one.last_error.code} ${one.last_error.at}` : '-',
      one.last_request_at ?? '-',
    ]),
  );
  const headings = [
    'PROVIDER',
    'MODEL',
    'STATE',
    'BREAKER',
    'COOLDOWN',
    'RUNNING',
    'LAST ERROR',
    'LAST REQUEST',
  ];
  writeResult(context, list, formatTable(headings, rows));
}

const stateText = (disabled: Disabled): string =>
  disabled
    ? `disabled ${disabled.at.slice(0, 10)} by ${disabled.by}${disabled.note === null ? '' : `: ${disabled.note}`}`
    : 'active';

const setDisabled =
  (isDisabled: boolean) =>
  async (context: CommandContext): Promise<void> => {
    const { model, note } = context.command.flags;
    const id = positional(context, 0);
    const api = await requireAdminApi(context);
    // Members that are undefined are not in the JSON.
    const body = { disabled: isDisabled, model, note };
    const provider = await api.send(providerSchema, 'PATCH', pathOf('providers', id), body);
    const what = model === undefined ? id : `${model} at ${id}`;
    writeResult(context, provider, `${what} is ${isDisabled ? 'disabled' : 'enabled'}\n`);
  };

export const disableProvider = setDisabled(true);
export const enableProvider = setDisabled(false);

/** `credential list`: where providers' keys come from, never the keys. */
export async function listCredentials(context: CommandContext): Promise<void> {
  const api = await requireAdminApi(context);
  const list = await api.send(listSchema(credentialSchema), 'GET', '/credentials');
  const rows = list.data.map(({ provider, source, name, fingerprint, last_used_at: usedAt }) => [
    provider,
    source ?? '-',
    name ?? '-',
    fingerprint ?? '-',
    usedAt ?? '-',
  ]);
  writeResult(context, list, formatTable(['PROVIDER', 'SOURCE', 'NAME', 'FINGERPRINT', 'LAST USED'], rows));
}

/** `reload`: has a running gateway read its configuration. */
export async function reloadGateway(context: CommandContext): Promise<void> {
  const api = await requireAdminApi(context);
  const result = await api.send(reloadSchema, 'POST', '/reload', {});
  const text =
    result.outcome === 'replaced'
      ? `version ${result.version} of the configuration is in force\n`
      : `the configuration has not changed; version ${result.version} is in force\n`;
  writeResult(context, result, text);
}
