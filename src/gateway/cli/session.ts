import { existsSync } from 'node:fs';
import { jsonText } from '../../terminal/printable.ts';
import { databaseUrl, defaultDataDir, openDataDir } from '../../cli/data-dir.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { didYouMean } from '../../words/nearest.ts';
import { GatewayFile } from '../config/file.ts';
import { shownDatabase } from '../config/shown-database.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { AccountRow, Ledger } from '../ledger/types.ts';
import type { RunCommand } from './commands.ts';
import type { GatewayWorld, OpenBooks } from './types.ts';

const defaultConfig = 'gateway.toml';

/** The context of one command. */
export interface Session {
  readonly world: GatewayWorld;
  readonly command: RunCommand;
}

/** The configuration; undefined when no file is named and the working directory has none. */
export async function fileOf({ world, command }: Session): Promise<GatewayFile | undefined> {
  const path = command.flags.config ?? (existsSync(defaultConfig) ? defaultConfig : undefined);
  return path === undefined ? undefined : await GatewayFile.read(path, { env: world.env });
}

/** The configuration, for commands that need one. */
export const neededFile = ({ world, command }: Session): Promise<GatewayFile> =>
  GatewayFile.read(command.flags.config ?? defaultConfig, { env: world.env });

export async function databaseOf(
  { world, command }: Session,
  file: GatewayFile | undefined,
): Promise<string> {
  const named = command.flags.database ?? (await file?.database()) ?? world.env['LATHE_DATABASE'];
  if (named) return named;
  try {
    const { path } = await openDataDir(defaultDataDir(world.env, world.home));
    return databaseUrl(undefined, path);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    throw new StartError(
      error.message.replace('--data-dir DIR', '$LATHE_DATA_DIR, or name a --database URL'),
    );
  }
}

/** Runs work with the database open, then closes it. */
export async function withBooks<T>(
  session: Session,
  work: (books: OpenBooks) => Promise<T>,
  {
    file,
    masterKeys = [],
  }: { file?: GatewayFile | undefined; masterKeys?: GatewayConfig['masterKeys'] } = {},
): Promise<T> {
  const { world } = session;
  const database = await databaseOf(session, file ?? (await fileOf(session)));
  const books = await world.openBooks({ database, masterKeys, onNotice: (text) => note(session, text) });
  try {
    return await work(books);
  } finally {
    await books.close();
  }
}

/** Finds an account by id or name. @throws StartError when there is none, or when several have the name */
export async function accountNamed(session: Session, ledger: Ledger, wanted: string): Promise<AccountRow> {
  const accounts = await ledger.accounts();
  const exact = accounts.find(({ id }) => id === wanted);
  const named = accounts.filter(({ name }) => name === wanted);
  const found = exact ?? named[0];
  if (named.length > 1 && !exact)
    throw new StartError(
      `there are ${named.length} accounts '${wanted}'; name one by its id: ${named.map(({ id }) => id).join(', ')}`,
    );
  if (found) return found;
  const near = didYouMean(
    wanted,
    accounts.map(({ name }) => name),
    (name) => `'${name}'`,
  );
  throw new StartError(
    accounts.length === 0
      ? `there is no account '${wanted}', nor any other ${await whereBooksAre(session)}`
      : `there is no account '${wanted}'${near}; \`account list\` shows them`,
  );
}

/**
 * Names the database, for messages about missing rows: a missing database file is created empty, so the user may have named
 * the wrong one.
 */
export async function whereBooksAre(session: Session): Promise<string> {
  const database = await databaseOf(session, await fileOf(session));
  return `in ${shownDatabase(database)}; \`account create NAME\` creates one; --config or --database selects another database`;
}

/** Writes the result to stdout, as JSON or as text. */
export function answer({ world, command }: Session, json: unknown, text: string): void {
  world.stdout.write(command.json ? `${jsonText(json)}\n` : text);
}

/** Writes a message to stderr. */
export function note({ world }: Pick<Session, 'world'>, text: string): void {
  world.stderr.write(`lathe: ${text}\n`);
}

/** A positional argument. The parser has checked that it is present. */
export const word = ({ command }: Session, place: number): string => command.words[place] ?? '';

/** A required flag. The parser has checked that it is present. */
export function neededFlag<T>(value: T | undefined, flag: string): T {
  if (value === undefined) throw new UsageError([`--${flag} is needed`]);
  return value;
}
