import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { formatJson } from '../../terminal/printable.ts';
import { databaseUrl, defaultDataDir, openDataDir } from '../../cli/data-dir.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import type { HostAddress } from '../../host-client/http.ts';
import { didYouMean } from '../../words/nearest.ts';
import { GatewayFile } from '../config/gateway-file.ts';
import { isPublicPlainHttp } from '../config/remarks.ts';
import { redactDatabaseUrl } from '../config/redact-database-url.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { AccountRow } from '../ledger/types.ts';
import { requestRecordSchema, toRequestRecordBody } from '../operator/request-bodies.ts';
import { adminUrlIn, adminUrlVariable, readAdminAddress } from './admin-address.ts';
import { clearedCacheSchema } from '../operator/admin-schemas.ts';
import { AdminApi, pathOf, queryOf } from './admin-api.ts';
import { AdminLedger } from './admin-ledger.ts';
import type { RunCommand } from './commands.ts';
import type { CliEnvironment, GatewayDatabase, OperatorBooks } from './types.ts';

const defaultConfig = 'gateway.toml';

/** The context of one command. */
export interface CommandContext {
  readonly environment: CliEnvironment;
  readonly command: RunCommand;
}

/** The configuration; undefined when no file is named and the working directory has none. */
export async function readConfigIfPresent({
  environment,
  command,
}: CommandContext): Promise<GatewayFile | undefined> {
  const path = command.flags.config ?? (existsSync(defaultConfig) ? defaultConfig : undefined);
  return path === undefined ? undefined : await GatewayFile.read(path, { env: environment.env });
}

/** The configuration, for commands that need one. */
export const readConfig = ({ environment, command }: CommandContext): Promise<GatewayFile> =>
  GatewayFile.read(command.flags.config ?? defaultConfig, { env: environment.env });

/** @param canCreate whether the data directory is created where it is missing */
export async function resolveDatabaseUrl(
  { environment, command }: CommandContext,
  file: GatewayFile | undefined,
  canCreate: boolean,
): Promise<string> {
  const named = command.flags.database ?? (await file?.database()) ?? environment.env['LATHE_DATABASE'];
  if (named) return named;
  const directory = resolve(defaultDataDir(environment.env, environment.home));
  if (!canCreate) return databaseUrl(undefined, directory);
  try {
    const { path } = await openDataDir(directory);
    return databaseUrl(undefined, path);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    throw new StartError(
      error.message.replace('--data-dir DIR', '$LATHE_DATA_DIR, or name a --database URL'),
    );
  }
}

/** The database of a command that needs nothing else of the configuration. @throws UsageError */
async function locateDatabase(
  context: CommandContext,
  file: GatewayFile | undefined,
  canCreate = false,
): Promise<string> {
  try {
    return await resolveDatabaseUrl(context, file, canCreate);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError([
      ...error.faults,
      '--database URL names the database in place of the configuration',
    ]);
  }
}

interface DatabaseOptions {
  readonly file?: GatewayFile | undefined;
  readonly masterKeys?: GatewayConfig['masterKeys'];
}

/** Runs work of a command that has no admin API with the database open, then closes it. @throws UsageError; StartError */
export async function withDatabase(
  context: CommandContext,
  task: (books: GatewayDatabase & Pick<OperatorBooks, 'place'>) => Promise<void>,
  { file, masterKeys = [] }: DatabaseOptions = {},
): Promise<void> {
  const { environment, command } = context;
  if (adminUrlIn(command.flags, environment.env) !== undefined)
    throw new UsageError([
      `${command.name} works on a database only, and ${adminUrlVariable} names a gateway: name the database with --database URL or --config FILE`,
    ]);
  const found = file ?? (await readConfigIfPresent(context));
  const database = await locateDatabase(context, found);
  const place = describeDatabase(database);
  await openDatabase(context, { database, masterKeys }, (books) => task({ ...books, place }));
}

async function findAdminAddress(context: CommandContext): Promise<HostAddress | undefined> {
  const address = await readAdminAddress(context.command.flags, context.environment.env);
  if (address && isPublicPlainHttp(address.url))
    writeNote(context, `the operator's token is sent to ${address.url} over plain http`);
  return address;
}

/** The admin API, for commands about what only a running gateway knows. @throws UsageError where none is named */
export async function requireAdminApi(context: CommandContext): Promise<AdminApi> {
  const address = await findAdminAddress(context);
  if (address) return new AdminApi(address);
  throw new UsageError([
    `${context.command.name} works on a running gateway only: name it with --admin-url URL, or ${adminUrlVariable} without --config and --database`,
  ]);
}

/**
 * Runs work with the ledger that the command line names, then closes it: of the gateway of `--admin-url`, or else of a database.
 * @throws UsageError; StartError where there is no database, unless `canCreate`
 */
export async function withBooks(
  context: CommandContext,
  task: (books: OperatorBooks) => Promise<void>,
  { canCreate = false }: { canCreate?: boolean } = {},
): Promise<void> {
  const address = await findAdminAddress(context);
  if (address) {
    const api = new AdminApi(address);
    const ledger = new AdminLedger(api);
    const place = `in the gateway at ${address.url}; \`account create NAME\` creates one`;
    const requestRecord = (id: string) => api.send(requestRecordSchema, 'GET', pathOf('requests', id));
    const clearCache = async (account: string | undefined) =>
      (await api.send(clearedCacheSchema, 'DELETE', `/cache${queryOf({ account })}`)).removed;
    await task({ ledger, place, requestRecord, modelNames: () => ledger.modelNames(), clearCache });
    return;
  }
  const file = await readConfigIfPresent(context);
  const database = await locateDatabase(context, file, canCreate);
  const place = describeDatabase(database);
  const modelNames = async () => (await file?.modelNames()) ?? [];
  await openDatabase(context, { database, masterKeys: [], canCreate }, ({ ledger, clearCache }) =>
    task({
      ledger,
      place,
      requestRecord: async (id) => toRequestRecordBody(await ledger.requestRecord(id)),
      modelNames,
      clearCache,
    }),
  );
}

/** Names the database, for messages about missing rows: the user may have named the wrong one. */
const describeDatabase = (database: string): string =>
  `in ${redactDatabaseUrl(database)}; \`account create NAME\` creates one; --config or --database selects another database`;

async function openDatabase(
  context: CommandContext,
  {
    database,
    masterKeys,
    canCreate = false,
  }: { database: string; masterKeys: GatewayConfig['masterKeys']; canCreate?: boolean },
  task: (books: GatewayDatabase) => Promise<void>,
): Promise<void> {
  const { environment } = context;
  const [, path] = /^sqlite:(.+)$/s.exec(database) ?? [];
  if (!canCreate && path !== undefined && path !== ':memory:' && !existsSync(path))
    throw new StartError(
      `there is no database ${database}; \`account create NAME\` and \`serve\` create it, --config or --database selects another`,
    );
  const gatewayDatabase = await environment.openDatabase({
    database,
    masterKeys,
    onNotice: (text) => writeNote(context, text),
  });
  try {
    await task(gatewayDatabase);
  } finally {
    await gatewayDatabase.close();
  }
}

/** Finds an account by id or name. @throws StartError when there is none, or when several have the name */
export async function findAccount(
  {
    ledger,
    place,
  }: Pick<OperatorBooks, 'place'> & { readonly ledger: Pick<OperatorBooks['ledger'], 'accounts'> },
  idOrName: string,
): Promise<AccountRow> {
  const accounts = await ledger.accounts();
  const exact = accounts.find(({ id }) => id === idOrName);
  const named = accounts.filter(({ name }) => name === idOrName);
  const found = exact ?? named[0];
  if (named.length > 1 && !exact)
    throw new StartError(
      `there are ${named.length} accounts '${idOrName}'; name one by its id: ${named.map(({ id }) => id).join(', ')}`,
    );
  if (found) return found;
  const near = didYouMean(
    idOrName,
    accounts.map(({ name }) => name),
    (name) => `'${name}'`,
  );
  throw new StartError(
    accounts.length === 0
      ? `there is no account '${idOrName}', nor any other ${place}`
      : `there is no account '${idOrName}'${near}; \`account list\` shows them`,
  );
}

/** Writes the result to stdout, as JSON or as text. */
export function writeResult({ environment, command }: CommandContext, json: unknown, text: string): void {
  environment.stdout.write(command.json ? `${formatJson(json)}\n` : text);
}

/** Writes a message to stderr. */
export function writeNote({ environment }: Pick<CommandContext, 'environment'>, text: string): void {
  environment.stderr.write(`lathe: ${text}\n`);
}

/** A positional argument. The parser has checked that it is present. */
export const positional = ({ command }: CommandContext, index: number): string => command.words[index] ?? '';

/** A required flag. The parser has checked that it is present. */
export function requireFlag<T>(value: T | undefined, flag: string): T {
  if (value === undefined) throw new UsageError([`--${flag} is needed`]);
  return value;
}
