/** The operator listener of the gateway in a host. */
import type { Settings } from '../config/toml.ts';
import { UsageError } from '../config/usage.ts';
import { type AdminTokens, readAdminTokens } from '../gateway/operator/admin-tokens.ts';
import { listenForOperator } from '../gateway/operator/listen.ts';
import type { BoundServer } from '../http/listening.ts';
import { portError } from './port-error.ts';

const [portFlag, tokenFlag] = ['--gateway-admin-port', '--gateway-admin-token-file'];
const address = '127.0.0.1';

/** Tokens of the gateway's operators; undefined: there are none. Rejects with `UsageError` with every fault. */
export async function readGatewayAdminTokens(
  { gateway_admin_port: port, gateway_admin_token_file: file }: Settings,
  env: Readonly<Record<string, string | undefined>>,
): Promise<AdminTokens | undefined> {
  if (port !== undefined) return await readAdminTokens(file, env, tokenFlag);
  if (file !== undefined) throw new UsageError([`${tokenFlag} needs ${portFlag}`]);
  return undefined;
}

/** Opens the listener on loopback. Rejects with `StartError` where the port cannot be bound. */
export const listenForGatewayOperator = (
  port: number,
  options: Parameters<typeof listenForOperator>[1],
): Promise<BoundServer> =>
  listenForOperator({ host: address, port }, options).catch((error: unknown) => {
    throw portError(error, address, port, portFlag);
  });
