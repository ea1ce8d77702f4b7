import { EventEmitter } from 'node:events';
import { openGatewayDatabase } from '../../../src/gateway/cli/gateway-database.ts';
import { gatewayMain } from '../../../src/gateway/cli/main.ts';

/** Runs a command line of the gateway in this process. */
export async function gatewayCommandLine(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ out: string; err: string; code: number }> {
  const result = { out: '', err: '', code: 0 };
  await gatewayMain({
    args,
    env,
    home: '/nonexistent',
    version: () => Promise.resolve('0.0.0'),
    stdout: { write: (text: string) => (result.out += text) },
    stderr: { write: (text: string) => (result.err += text) },
    signals: new EventEmitter(),
    hasTerminal: false,
    exit: (code) => (result.code = code),
    now: () => new Date(),
    serve: () => Promise.reject(new Error('not served here')),
    openDatabase: openGatewayDatabase,
  });
  return result;
}
