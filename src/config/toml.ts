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
import { checkTables, type Tables, tableNames } from './tables.ts';
import { KeyLines, keyText, type KeyPath } from './toml-lines.ts';

/** All that a host is told: the options, by flag or file, and what only the file can say. */
export type Settings = Options & Tables;

/**
 * The options and tables of a TOML file. Keys of options are the flags' names with `_` or `-`.
 * Paths in the file are relative to the file. Throws `UsageError` with every fault as `FILE:LINE: KEY: what`.
 * @param name how messages call the file
 * @param folder where the file lies
 */
export function readToml(source: string, name: string, folder: string): Settings {
  let table: Record<string, unknown>;
  try {
    table = parse(source, { integersAsBigInt: 'asNeeded' });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = (error.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '');
    const key = keyOf(source.split('\n')[error.line - 1] ?? '');
    const where = `${name}:${error.line}:${error.column}:${key === undefined ? '' : ` ${key}:`}`;
    throw new UsageError([`${where} not valid TOML: ${what}`]);
  }
  const lines = new KeyLines(source);
  const faults: { line: number; text: string }[] = [];
  const fault = (path: KeyPath, message: string) => {
    const line = lines.at(path);
    faults.push({ line, text: `${name}:${line}: ${keyText(path)}: ${message}` });
  };
  const values = new Map<OptionName, unknown>();
  const spelled = new Map<OptionName, string>();
  for (const [key, value] of Object.entries(table)) {
    const option = key.replaceAll('-', '_');
    if (isTableName(key)) continue;
    if (!isOptionName(option)) {
      fault([key], `unknown key${didYouMean(option, [...optionNames, ...tableNames], (near) => near)}`);
    } else if (spelled.has(option)) {
      fault([key], `the same option as ${spelled.get(option)}`);
    } else {
      values.set(option, value);
      spelled.set(option, key);
    }
  }
  const checked = checkOptions(values);
  for (const { option, message } of checked.faults) fault([spelled.get(option) ?? option], message);
  const { tables, faults: tableFaults } = checkTables(table, folder);
  for (const { path, message } of tableFaults) fault(path, message);
  if (faults.length > 0) throw new UsageError(faults.sort((a, b) => a.line - b.line).map(({ text }) => text));
  return { ...located(checked.options, folder), ...tables };
}

/** Options with their paths absolute. */
function located(options: Options, folder: string): Options {
  const { data_dir, bearer_token_file, gateway_config, model, draft, database, ...rest } = options;
  const path = /^sqlite:(.+)$/.exec(database ?? '')?.[1];
  return {
    ...rest,
    ...(data_dir === undefined ? {} : { data_dir: resolve(folder, data_dir) }),
    ...(bearer_token_file === undefined ? {} : { bearer_token_file: resolve(folder, bearer_token_file) }),
    ...(gateway_config === undefined ? {} : { gateway_config: resolve(folder, gateway_config) }),
    ...(model === undefined ? {} : { model: isPath(model) ? resolve(folder, model) : model }),
    ...(draft === undefined ? {} : { draft: isPath(draft) ? resolve(folder, draft) : draft }),
    ...(database === undefined
      ? {}
      : { database: path === undefined ? database : `sqlite:${resolve(folder, path)}` }),
  };
}

const isTableName = (key: string): boolean => (tableNames as readonly string[]).includes(key);

/** A model given as a path rather than a pulled name or a URL. */
const isPath = (model: string): boolean =>
  !/^([a-z]+:\/\/|hf:)/i.test(model) &&
  !isAbsolute(model) &&
  (model.startsWith('.') || (model.includes(sep) && model.endsWith('.gguf')));

/** The key, or the table, that a line begins. */
function keyOf(line: string): string | undefined {
  const found = /^\s*\[{0,2}\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[.=\]]/.exec(line);
  return found?.[1] ?? found?.[2] ?? found?.[3];
}
