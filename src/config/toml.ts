import { isAbsolute, resolve, sep } from 'node:path';
import { parse, TomlError } from 'smol-toml';
import {
  checkOptions,
  isOptionName,
  type OptionName,
  type Options,
  optionNames,
  UsageError,
} from './options.ts';
import { didYouMean } from '../words/nearest.ts';
import { parseTables, type ConfigTables, tableNames } from './tables.ts';
import { KeyLines, formatKeyPath, type KeyPath } from './toml-lines.ts';

/** The host's settings: options from flags and the file, and the tables of the file. */
export type Settings = Options & ConfigTables;

/**
 * Parses the options and tables of a TOML file. Keys of options are the flags' names with `_` or `-`.
 * Paths are relative to the file. Throws `UsageError` with every fault as `FILE:LINE: KEY: message`.
 * @param name name of the file in messages
 * @param folder the folder of the file
 */
export function parseSettings(source: string, name: string, folder: string): Settings {
  let table: Record<string, unknown>;
  try {
    table = parse(source, { integersAsBigInt: 'asNeeded' });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = (error.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '');
    const key = keyAtLineStart(source.split('\n')[error.line - 1] ?? '');
    const where = `${name}:${error.line}:${error.column}:${key === undefined ? '' : ` ${key}:`}`;
    throw new UsageError([`${where} not valid TOML: ${what}`]);
  }
  const lines = new KeyLines(source);
  const faults: { line: number; text: string }[] = [];
  const addFault = (path: KeyPath, message: string) => {
    const line = lines.lineOf(path);
    faults.push({ line, text: `${name}:${line}: ${formatKeyPath(path)}: ${message}` });
  };
  const values = new Map<OptionName, unknown>();
  const keyByOption = new Map<OptionName, string>();
  for (const [key, value] of Object.entries(table)) {
    const option = key.replaceAll('-', '_');
    if (isTableName(key)) continue;
    if (!isOptionName(option)) {
      addFault([key], `unknown key${didYouMean(option, [...optionNames, ...tableNames], (near) => near)}`);
    } else if (keyByOption.has(option)) {
      addFault([key], `the same option as ${keyByOption.get(option)}; keep one of the two`);
    } else {
      values.set(option, value);
      keyByOption.set(option, key);
    }
  }
  const validated = checkOptions(values);
  for (const { option, message } of validated.faults) addFault([keyByOption.get(option) ?? option], message);
  const { tables, faults: tableFaults } = parseTables(table, folder);
  for (const { path, message } of tableFaults) addFault(path, message);
  if (faults.length > 0) throw new UsageError(faults.sort((a, b) => a.line - b.line).map(({ text }) => text));
  return { ...resolvePaths(validated.options, folder), ...tables };
}

/** Makes the paths in options absolute. */
function resolvePaths(options: Options, folder: string): Options {
  const { data_dir, bearer_token_file, gateway_config, tls_cert, tls_key, database, ...rest } = options;
  const { model, draft, embedding_model, gateway_admin_token_file: adminTokens } = options;
  const path = /^sqlite:(.+)$/.exec(database ?? '')?.[1];
  return {
    ...rest,
    ...(data_dir === undefined ? {} : { data_dir: resolve(folder, data_dir) }),
    ...(bearer_token_file === undefined ? {} : { bearer_token_file: resolve(folder, bearer_token_file) }),
    ...(gateway_config === undefined ? {} : { gateway_config: resolve(folder, gateway_config) }),
    ...(adminTokens === undefined ? {} : { gateway_admin_token_file: resolve(folder, adminTokens) }),
    ...(tls_cert === undefined ? {} : { tls_cert: resolve(folder, tls_cert) }),
    ...(tls_key === undefined ? {} : { tls_key: resolve(folder, tls_key) }),
    ...(model === undefined ? {} : { model: resolveModelPath(folder, model) }),
    ...(draft === undefined ? {} : { draft: resolveModelPath(folder, draft) }),
    ...(embedding_model === undefined ? {} : { embedding_model: resolveModelPath(folder, embedding_model) }),
    ...(database === undefined
      ? {}
      : { database: path === undefined ? database : `sqlite:${resolve(folder, path)}` }),
  };
}

const resolveModelPath = (folder: string, model: string): string =>
  isPath(model) ? resolve(folder, model) : model;

const isTableName = (key: string): boolean => (tableNames as readonly string[]).includes(key);

/** Whether a model is given as a relative path, not as a pulled name or a URL. */
const isPath = (model: string): boolean =>
  !/^([a-z]+:\/\/|hf:)/i.test(model) &&
  !isAbsolute(model) &&
  (model.startsWith('.') || (model.includes(sep) && model.endsWith('.gguf')));

/** The key or table name at the beginning of a line. */
function keyAtLineStart(line: string): string | undefined {
  const found = /^\s*\[{0,2}\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[.=\]]/.exec(line);
  return found?.[1] ?? found?.[2] ?? found?.[3];
}
