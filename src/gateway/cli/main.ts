import { printable } from '../../terminal/printable.ts';
import { UsageError } from '../../config/usage.ts';
import { errorMessage } from '../../util/error-message.ts';
import { createAccount, creditAccount, listAccounts } from './accounts.ts';
import { auditLedger, rotateSecrets } from './books.ts';
import { checkCatalog } from './catalog-check.ts';
import { type CommandName, parseGatewayArgs } from './commands.ts';
import { addEndpoint, listEndpoints, removeEndpoint } from './endpoints.ts';
import { gatewayHelp } from './help.ts';
import { createKey, listKeys, revokeKey } from './keys.ts';
import { serve } from './serve.ts';
import type { Session } from './session.ts';
import type { GatewayWorld } from './types.ts';

const doers: Readonly<Record<CommandName, (session: Session) => Promise<void>>> = {
  serve,
  'account create': createAccount,
  'account credit': creditAccount,
  'account list': listAccounts,
  'key create': createKey,
  'key revoke': revokeKey,
  'key list': listKeys,
  'ledger audit': auditLedger,
  'catalog check': checkCatalog,
  'secrets rotate': rotateSecrets,
  'endpoint add': addEndpoint,
  'endpoint list': listEndpoints,
  'endpoint remove': removeEndpoint,
};

/** Runs the command line. Writes errors to stderr, one per line; exits with 2 for wrong usage and 1 for other errors. */
export async function gatewayMain(world: GatewayWorld): Promise<void> {
  try {
    await run(world);
  } catch (error) {
    const usage = error instanceof UsageError;
    for (const line of usage ? error.faults : [errorMessage(error)])
      world.stderr.write(`lathe: ${printable(line)}\n`);
    if (usage) world.stderr.write('See: node dist/gateway.js --help\n');
    world.exit(usage ? 2 : 1);
  }
}

async function run(world: GatewayWorld): Promise<void> {
  const command = parseGatewayArgs(world.args);
  switch (command.name) {
    case 'help':
      world.stdout.write(gatewayHelp(await world.version(), command.about));
      return;
    case 'version':
      world.stdout.write(`lathe ${await world.version()}\n`);
      return;
    default:
      await doers[command.name]({ world, command });
  }
}
