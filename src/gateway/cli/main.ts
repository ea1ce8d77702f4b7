import { printable } from '../../terminal/printable.ts';
import { UsageError } from '../../config/usage.ts';
import { HostError } from '../../host-client/errors.ts';
import { errorMessage } from '../../util/error-message.ts';
import {
  createAccount,
  creditAccount,
  disableAccount,
  enableAccount,
  listAccounts,
  updateAccount,
} from './account-commands.ts';
import { listBudgets, removeBudget, setBudget } from './budget-commands.ts';
import { listChanges } from './changes-command.ts';
import { archiveLedger, auditLedger, rotateSecrets, verifyLedgerArchives } from './ledger-commands.ts';
import { clearStoredAnswers } from './cache-command.ts';
import { checkCatalog } from './catalog-commands.ts';
import { testWebhook } from './webhook-command.ts';
import { commandNamed, type CommandName, parseGatewayArgs } from './commands.ts';
import { addEndpoint, listEndpoints, removeEndpoint } from './endpoint-commands.ts';
import { gatewayHelp } from './help.ts';
import { createKey, disableKey, enableKey, listKeys, revokeKey, updateKey } from './key-commands.ts';
import { diffCatalog, importCatalog } from './price-commands.ts';
import {
  disableProvider,
  enableProvider,
  listCredentials,
  listProviders,
  reloadGateway,
} from './provider-commands.ts';
import { showReceipt } from './receipt-command.ts';
import { serve } from './serve-command.ts';
import { showUsage } from './usage-command.ts';
import type { CommandContext } from './command-context.ts';
import type { CliEnvironment } from './types.ts';
import { commandOf } from '../../terminal/program.ts';

const commandHandlers: Readonly<Record<CommandName, (session: CommandContext) => Promise<void>>> = {
  serve,
  'account create': createAccount,
  'account credit': creditAccount,
  'account update': updateAccount,
  'account disable': disableAccount,
  'account enable': enableAccount,
  'account list': listAccounts,
  'key create': createKey,
  'key update': updateKey,
  'key disable': disableKey,
  'key enable': enableKey,
  'key revoke': revokeKey,
  'key list': listKeys,
  'budget set': setBudget,
  'budget remove': removeBudget,
  'budget list': listBudgets,
  receipt: showReceipt,
  changes: listChanges,
  usage: showUsage,
  'ledger audit': auditLedger,
  'ledger archive': archiveLedger,
  'ledger verify': verifyLedgerArchives,
  'provider list': listProviders,
  'provider disable': disableProvider,
  'provider enable': enableProvider,
  'credential list': listCredentials,
  reload: reloadGateway,
  'cache clear': clearStoredAnswers,
  'webhook test': testWebhook,
  'catalog check': checkCatalog,
  'catalog import': importCatalog,
  'catalog diff': diffCatalog,
  'secrets rotate': rotateSecrets,
  'endpoint add': addEndpoint,
  'endpoint list': listEndpoints,
  'endpoint remove': removeEndpoint,
};

/** Whether the gateway of `--admin-url` did not take the request: it is unreachable, none, not ready, or refuses the token. */
const isNoAnswer = (error: unknown): boolean =>
  error instanceof HostError && (error.isTransient || error.status === 401 || error.status === 403);

/**
 * Runs the command line. Writes errors to stderr, one per line. Exits with 2 for wrong usage, 3 where the gateway of
 * `--admin-url` cannot be asked, and 1 for other errors.
 */
export async function gatewayMain(environment: CliEnvironment): Promise<void> {
  try {
    await run(environment);
  } catch (error) {
    const usage = error instanceof UsageError;
    for (const line of usage ? error.faults : [errorMessage(error)])
      environment.stderr.write(`lathe: ${printable(line)}\n`);
    if (usage) {
      const words = [commandOf('gateway'), commandNamed(environment.args), '--help'];
      environment.stderr.write(`See: ${words.filter((word) => word !== undefined).join(' ')}\n`);
    }
    environment.exit(usage ? 2 : isNoAnswer(error) ? 3 : 1);
  }
}

async function run(environment: CliEnvironment): Promise<void> {
  const command = parseGatewayArgs(environment.args);
  switch (command.name) {
    case 'help':
      environment.stdout.write(gatewayHelp(await environment.version(), command.topics));
      return;
    case 'version':
      environment.stdout.write(`lathe ${await environment.version()}\n`);
      return;
    default:
      await commandHandlers[command.name]({ environment, command });
  }
}
