import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { isRecord, type Json } from '../util/json.ts';
import { show } from './options.ts';
import { didYouMean } from '../words/nearest.ts';
import type { KeyPath } from './toml-lines.ts';

const text = z.string({ error: 'expected a text' });
const filled = text.min(1, 'must not be empty');
const seconds = (least: number, most: number) => {
  const error = `expected seconds from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error);
};
const webUrl = z.string({ error: 'expected an http:// or https:// URL' }).superRefine((value, context) => {
  const url = /^https?:\/\//i.test(value) && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined) context.addIssue('expected an http:// or https:// URL');
  else if (url.username !== '' || url.password !== '')
    context.addIssue('must not hold a user or password; name a file or a variable that holds the secret');
});
const variable = text.regex(
  /^[A-Za-z_][A-Za-z0-9_]*$/,
  'expected the name of an environment variable: letters, digits and _',
);
const headerName = filled.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected the name of an HTTP header');
/** Visible characters, spaces and tabs: what a header may carry. */
export const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;
const texts = (key: z.ZodType<string, string>, value: z.ZodType<string>, what: string) =>
  z.record(key, value, { error: `expected a table of ${what}` });

const mcpShape = {
  command: z
    .array(text, { error: 'expected a list: the program and its arguments' })
    .min(1, 'expected a list: the program and its arguments')
    .refine(([program]) => program !== '', 'the program must not be empty')
    .optional(),
  env: texts(variable, text, 'variables and texts').optional(),
  env_from: z.array(variable, { error: 'expected a list of names of environment variables' }).optional(),
  cwd: filled.optional(),
  url: webUrl.optional(),
  headers: texts(headerName, text.regex(headerValue, 'expected one line'), 'headers and texts').optional(),
  header_files: texts(headerName, filled, 'headers and paths').optional(),
  header_env: texts(headerName, variable, 'headers and names of environment variables').optional(),
  timeout_secs: seconds(1, 3600).optional(),
  enabled: z.boolean({ error: 'expected true or false' }).optional(),
  pins: texts(
    filled,
    text.regex(/^sha256:[0-9a-f]{64}$/, 'expected sha256: and 64 hex digits, as `mcp pins NAME` prints them'),
    'tools and their hashes',
  ).optional(),
};
const mcpTable = z.strictObject(mcpShape, { error: 'expected a table [mcp.NAME]' });
export type McpTable = z.infer<typeof mcpTable>;

const gatewayShape = {
  url: webUrl,
  key_env: variable.optional(),
  key_file: filled.optional(),
  models: z.array(filled, { error: 'expected a list of ids of models' }).optional(),
  timeout_secs: seconds(1, 86_400).optional(),
};
const gatewayTable = z.strictObject(gatewayShape, { error: 'expected a table [gateway]' });
export type GatewayTable = z.infer<typeof gatewayTable>;

/** What only the file can say, besides the options. */
export interface Tables {
  readonly mcp?: Readonly<Record<string, McpTable>>;
  readonly gateway?: GatewayTable;
}
export const tableNames = ['mcp', 'gateway'] as const;

export interface TableFault {
  readonly path: KeyPath;
  readonly message: string;
}

/**
 * Checks the tables of a file. Paths in them become absolute.
 * @param folder where the file lies
 */
export function checkTables(
  raw: Readonly<Record<string, unknown>>,
  folder: string,
): { tables: Tables; faults: TableFault[] } {
  const faults: TableFault[] = [];
  const mcp = raw['mcp'] === undefined ? undefined : mcpServers(raw['mcp'], folder, faults);
  const gateway = raw['gateway'] === undefined ? undefined : gatewayOf(raw['gateway'], folder, faults);
  return { tables: { ...(mcp && { mcp }), ...(gateway && { gateway }) }, faults };
}

function mcpServers(raw: unknown, folder: string, faults: TableFault[]): Record<string, McpTable> {
  const servers: Record<string, McpTable> = {};
  if (!isTable(raw)) {
    faults.push({ path: ['mcp'], message: `expected tables [mcp.NAME], got ${show(raw)}` });
    return servers;
  }
  for (const [name, value] of Object.entries(raw)) {
    const path = ['mcp', name];
    // No underscore: `mcp_NAME_TOOL` is to be read one way only.
    if (!/^[A-Za-z][A-Za-z0-9-]{0,31}$/.test(name))
      faults.push({
        path,
        message: 'expected as the name a letter and up to 31 letters, digits and dashes',
      });
    faults.push(...faultsOf(mcpTable, value, path));
    if (isTable(value)) faults.push(...wayFaults(value, path));
    const parsed = mcpTable.safeParse(value);
    if (parsed.success) servers[name] = located(parsed.data, folder);
  }
  return servers;
}

/** A server is reached one way, and a member of the other way would do nothing. */
function wayFaults(table: Readonly<Record<string, unknown>>, path: KeyPath): TableFault[] {
  const has = (member: string) => table[member] !== undefined;
  if (has('command') && has('url'))
    return [{ path: [...path, 'url'], message: 'has a command, too; keep one of command and url' }];
  if (!has('command') && !has('url'))
    return [{ path, message: 'needs command = ["program", "argument"] or url = "https://..."' }];
  const [way, others] = has('command')
    ? ['url', ['headers', 'header_files', 'header_env']]
    : ['command', ['env', 'env_from', 'cwd']];
  return others
    .filter(has)
    .map((member) => ({ path: [...path, member], message: `belongs to a server with ${way}` }));
}

function located(table: McpTable, folder: string): McpTable {
  const { command, header_files: files, ...rest } = table;
  if (command === undefined) {
    const paths =
      files && Object.entries(files).map(([name, path]) => [name, resolve(folder, path)] as const);
    return { ...rest, ...(paths && { header_files: Object.fromEntries(paths) }) };
  }
  const [program = '', ...args] = command;
  // A bare name is looked for on the PATH.
  const found = /[/\\]/.test(program) && !isAbsolute(program) ? resolve(folder, program) : program;
  return { ...rest, command: [found, ...args], cwd: resolve(folder, table.cwd ?? '.') };
}

function gatewayOf(raw: unknown, folder: string, faults: TableFault[]): GatewayTable | undefined {
  faults.push(...faultsOf(gatewayTable, raw, ['gateway']));
  if (isTable(raw) && raw['key_env'] !== undefined && raw['key_file'] !== undefined)
    faults.push({
      path: ['gateway', 'key_file'],
      message: 'there is a key_env, too; keep one of key_env and key_file',
    });
  const parsed = gatewayTable.safeParse(raw);
  if (!parsed.success) return undefined;
  const { key_file: file, ...rest } = parsed.data;
  return { ...rest, ...(file === undefined ? {} : { key_file: resolve(folder, file) }) };
}

/** Members whose values may be secrets: what they are is not repeated. */
const secretMembers = ['env', 'headers', 'url'];

function faultsOf(
  schema: typeof mcpTable | typeof gatewayTable,
  value: unknown,
  path: KeyPath,
): TableFault[] {
  const result = schema.safeParse(value);
  if (result.success) return [];
  return result.error.issues.flatMap((issue): TableFault[] => {
    const inside = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
    const at = [...path, ...inside];
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => ({
        path: [...at, key],
        message: `unknown key${didYouMean(key.replaceAll('-', '_'), Object.keys(schema.shape), (near) => near)}`,
      }));
    // The key of a record has its issues inside of one that says nothing.
    const message =
      issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
    const got = valueAt(value, inside);
    if (got === undefined) return [{ path: at, message: `is missing; ${message}` }];
    const hidden = issue.code === 'invalid_key' || secretMembers.includes(String(inside[0]));
    return [{ path: at, message: hidden ? message : `${message}, got ${show(got)}` }];
  });
}

function valueAt(value: unknown, path: KeyPath): unknown {
  let at = value;
  for (const part of path) at = (at as Record<string | number, unknown> | undefined)?.[part];
  return at;
}

const isTable = (value: unknown): value is Json => isRecord(value) && !(value instanceof Date);
