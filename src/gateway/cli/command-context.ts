import { existsSync } from 'node:fs';
import { formatJson } from '../../terminal/printable.ts';
import { databaseUrl, defaultDataDir, openDataDir } from '../../cli/data-dir.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { didYouMean } from '../../words/nearest.ts';
import { GatewayFile } from '../config/gateway-file.ts';
import { redactDatabaseUrl } from '../config/redact-database-url.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { AccountRow, Ledger } from '../ledger/types.ts';
import type { RunCommand } from './commands.ts';
import type { CliEnvironment, GatewayDatabase } from './types.ts';

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

export async function resolveDatabaseUrl(
  { environment, command }: CommandContext,
  file: GatewayFile | undefined,
): Promise<string> {
  const named = command.flags.database ?? (await file?.database()) ?? environment.env['LATHE_DATABASE'];
  if (named) return named;
  try {
    const { path } = await openDataDir(defaultDataDir(environment.env, environment.home));
    return databaseUrl(undefined, path);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    throw new StartError(
      error.message.replace('--data-dir DIR', '$LATHE_DATA_DIR, or name a --database URL'),
    );
  }
}

/** Runs work with the database open, then closes it. */
export async function withDatabase<T>(
  context: CommandContext,
  task: (books: GatewayDatabase) => Promise<T>,
  {
    file,
    masterKeys = [],
  }: { file?: GatewayFile | undefined; masterKeys?: GatewayConfig['masterKeys'] } = {},
): Promise<T> {
  const { environment } = context;
  const database = await resolveDatabaseUrl(context, file ?? (await readConfigIfPresent(context)));
  const gatewayDatabase = await environment.openDatabase({
    database,
    masterKeys,
    onNotice: (text) => writeNote(context, text),
  });
  try {
    return await task(gatewayDatabase);
  } finally {
    await gatewayDatabase.close();
  }
}

/** Finds an account by id or name. @throws StartError when there is none, or when several have the name */
export async function findAccount(
  context: CommandContext,
  ledger: Ledger,
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
      ? `there is no account '${idOrName}', nor any other ${await describeDatabase(context)}`
      : `there is no account '${idOrName}'${near}; \`account list\` shows them`,
  );
}

/**
 * Names the database, for messages about missing rows: a missing database file is created empty, so the user may have named
 * the wrong one.
 */
export async function describeDatabase(context: CommandContext): Promise<string> {
  const database = await resolveDatabaseUrl(context, await readConfigIfPresent(context));
  return `in ${redactDatabaseUrl(database)}; \`account create NAME\` creates one; --config or --database selects another database`;
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
