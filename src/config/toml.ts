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
import { didYouMean } from './suggest.ts';

/**
 * The options of a TOML file. Keys are the flags' names with `_` or `-`.
 * Paths in the file are relative to the file. Throws `UsageError` with every fault as `FILE:LINE: KEY: what`.
 * @param name how messages call the file
 * @param folder where the file lies
 */
export function readToml(source: string, name: string, folder: string): Options {
  let table: Record<string, unknown>;
  try {
    table = parse(source, { integersAsBigInt: 'asNeeded' });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = (error.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '');
    const key = keyOf(source.split('\n')[error.line - 1] ?? '')?.key;
    const where = `${name}:${error.line}:${error.column}:${key === undefined ? '' : ` ${key}:`}`;
    throw new UsageError([`${where} not valid TOML: ${what}`]);
  }
  const lines = linesOfKeys(source);
  const at = (key: string) => `${name}:${lines.get(key) ?? 1}: ${key}`;
  const faults: string[] = [];
  const values = new Map<OptionName, unknown>();
  const spelled = new Map<OptionName, string>();
  for (const [key, value] of Object.entries(table)) {
    const option = key.replaceAll('-', '_');
    if (!isOptionName(option)) {
      faults.push(`${at(key)}: unknown key${didYouMean(option, optionNames, (near) => near)}`);
    } else if (spelled.has(option)) {
      faults.push(`${at(key)}: the same option as ${spelled.get(option)}`);
    } else {
      values.set(option, value);
      spelled.set(option, key);
    }
  }
  const checked = checkOptions(values, (option) => at(spelled.get(option) ?? option));
  faults.push(...checked.faults);
  if (faults.length > 0) throw new UsageError(faults.sort(byLine));
  const { data_dir, model, ...rest } = checked.options;
  return {
    ...rest,
    ...(data_dir === undefined ? {} : { data_dir: resolve(folder, data_dir) }),
    ...(model === undefined ? {} : { model: isPath(model) ? resolve(folder, model) : model }),
  };
}

const lineOf = (fault: string): number => Number(/:(\d+): /.exec(fault)?.[1] ?? 0);
const byLine = (a: string, b: string): number => lineOf(a) - lineOf(b);

/** A model given as a path rather than a pulled name or a URL. */
const isPath = (model: string): boolean =>
  !/^([a-z]+:\/\/|hf:)/i.test(model) &&
  !isAbsolute(model) &&
  (model.startsWith('.') || (model.includes(sep) && model.endsWith('.gguf')));

/** The key, or the table, that a line begins. */
function keyOf(line: string): { key: string; table: boolean } | undefined {
  const found = /^\s*(\[{0,2})\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[.=\]]/.exec(line);
  const key = found?.[2] ?? found?.[3] ?? found?.[4];
  return found && key !== undefined ? { key, table: found[1] !== '' } : undefined;
}

/** The line of each top-level key or table, which the parser does not tell. */
function linesOfKeys(source: string): Map<string, number> {
  const lines = new Map<string, number>();
  let inside: string | undefined;
  let inTable = false;
  for (const [index, line] of source.split('\n').entries()) {
    const quotes = line.match(/"""|'''/g) ?? [];
    if (inside === undefined) {
      const found = keyOf(line);
      if (found?.table) inTable = true;
      if (found && (found.table || !inTable) && !lines.has(found.key)) lines.set(found.key, index + 1);
    }
    for (const quote of quotes) {
      if (inside === undefined) inside = quote;
      else if (inside === quote) inside = undefined;
    }
  }
  return lines;
}
