import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { isRecord, type Json } from '../util/json.ts';
import { formatValue } from './options.ts';
import { didYouMean } from '../words/nearest.ts';
import type { KeyPath } from './toml-lines.ts';

const textSchema = z.string({ error: 'expected a text' });
const nonEmptyText = textSchema.min(1, 'must not be empty');
const secondsBetween = (min: number, max: number) => {
  const error = `expected seconds from ${min} to ${max}`;
  return z.number({ error }).min(min, error).max(max, error);
};
const webUrl = z.string({ error: 'expected an http:// or https:// URL' }).superRefine((value, context) => {
  const url = /^https?:\/\//i.test(value) && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined) context.addIssue('expected an http:// or https:// URL');
  else if (url.username !== '' || url.password !== '')
    context.addIssue('must not hold a user or password; name a file or a variable that holds the secret');
});
const variableName = textSchema.regex(
  /^[A-Za-z_][A-Za-z0-9_]*$/,
  'expected the name of an environment variable: letters, digits and _',
);
const headerName = nonEmptyText.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected the name of an HTTP header');
/** Valid header values: visible characters, spaces and tabs. */
export const headerValuePattern = /^[\t\x20-\x7e\x80-\xff]*$/;
const textRecord = (key: z.ZodType<string, string>, value: z.ZodType<string>, what: string) =>
  z.record(key, value, { error: `expected a table of ${what}` });

const mcpShape = {
  command: z
    .array(textSchema, { error: 'expected a list: the program and its arguments' })
    .min(1, 'expected a list: the program and its arguments')
    .refine(([program]) => program !== '', 'the program must not be empty')
    .optional(),
  env: textRecord(variableName, textSchema, 'variables and texts').optional(),
  env_from: z.array(variableName, { error: 'expected a list of names of environment variables' }).optional(),
  cwd: nonEmptyText.optional(),
  url: webUrl.optional(),
  headers: textRecord(
    headerName,
    textSchema.regex(headerValuePattern, 'expected one line'),
    'headers and texts',
  ).optional(),
  header_files: textRecord(headerName, nonEmptyText, 'headers and paths').optional(),
  header_env: textRecord(headerName, variableName, 'headers and names of environment variables').optional(),
  timeout_secs: secondsBetween(1, 3600).optional(),
  enabled: z.boolean({ error: 'expected true or false' }).optional(),
  pins: textRecord(
    nonEmptyText,
    textSchema.regex(
      /^sha256:[0-9a-f]{64}$/,
      'expected sha256: and 64 hex digits, as `mcp pins NAME` prints them',
    ),
    'tools and their hashes',
  ).optional(),
};
const mcpTable = z.strictObject(mcpShape, { error: 'expected a table [mcp.NAME]' });
export type McpTable = z.infer<typeof mcpTable>;

const gatewayWires = ['openai-chat', 'openai-responses', 'anthropic-messages', 'google'] as const;
const gatewayShape = {
  url: webUrl,
  wire: z.enum(gatewayWires, { error: `expected one of ${gatewayWires.join(', ')}` }).optional(),
  key_env: variableName.optional(),
  key_file: nonEmptyText.optional(),
  models: z.array(nonEmptyText, { error: 'expected a list of ids of models' }).optional(),
  timeout_secs: secondsBetween(1, 86_400).optional(),
};
const gatewayTable = z.strictObject(gatewayShape, { error: 'expected a table [gateway]' });
export type GatewayTable = z.infer<typeof gatewayTable>;

/** Tables that only the configuration file can have; they have no flags. */
export interface ConfigTables {
  readonly mcp?: Readonly<Record<string, McpTable>>;
  readonly gateway?: GatewayTable;
}
export const tableNames = ['mcp', 'gateway'] as const;

export interface TableFault {
  readonly path: KeyPath;
  readonly message: string;
}

/**
 * Validates the tables of a file and makes their paths absolute.
 * @param folder the folder of the file
 */
export function parseTables(
  raw: Readonly<Record<string, unknown>>,
  folder: string,
): { tables: ConfigTables; faults: TableFault[] } {
  const faults: TableFault[] = [];
  const mcp = raw['mcp'] === undefined ? undefined : parseMcpServers(raw['mcp'], folder, faults);
  const gateway = raw['gateway'] === undefined ? undefined : parseGateway(raw['gateway'], folder, faults);
  return { tables: { ...(mcp && { mcp }), ...(gateway && { gateway }) }, faults };
}

function parseMcpServers(raw: unknown, folder: string, faults: TableFault[]): Record<string, McpTable> {
  const servers: Record<string, McpTable> = {};
  if (!isTable(raw)) {
    faults.push({ path: ['mcp'], message: `expected tables [mcp.NAME], got ${formatValue(raw)}` });
    return servers;
  }
  for (const [name, value] of Object.entries(raw)) {
    const path = ['mcp', name];
    // No underscores, so that `mcp_NAME_TOOL` is unambiguous.
    if (!/^[A-Za-z][A-Za-z0-9-]{0,31}$/.test(name))
      faults.push({
        path,
        message: 'expected a name of a letter and up to 31 letters, digits and dashes',
      });
    faults.push(...schemaFaults(mcpTable, value, path));
    if (isTable(value)) faults.push(...transportFaults(value, path));
    const parsed = mcpTable.safeParse(value);
    if (parsed.success) servers[name] = resolvePaths(parsed.data, folder);
  }
  return servers;
}

/** A server has one transport (`command` or `url`); members of the other transport are faults. */
function transportFaults(table: Readonly<Record<string, unknown>>, path: KeyPath): TableFault[] {
  const isSet = (member: string) => table[member] !== undefined;
  if (isSet('command') && isSet('url'))
    return [{ path: [...path, 'url'], message: 'command is set too; keep one of command and url' }];
  if (!isSet('command') && !isSet('url'))
    return [{ path, message: 'needs command = ["program", "argument"] or url = "https://..."' }];
  const [otherTransport, others] = isSet('command')
    ? ['url', ['headers', 'header_files', 'header_env']]
    : ['command', ['env', 'env_from', 'cwd']];
  return others
    .filter(isSet)
    .map((member) => ({ path: [...path, member], message: `belongs to a server with ${otherTransport}` }));
}

function resolvePaths(table: McpTable, folder: string): McpTable {
  const { command, header_files: files, ...rest } = table;
  if (command === undefined) {
    const paths =
      files && Object.entries(files).map(([name, path]) => [name, resolve(folder, path)] as const);
    return { ...rest, ...(paths && { header_files: Object.fromEntries(paths) }) };
  }
  const [program = '', ...args] = command;
  // A bare name is searched on the PATH.
  const resolvedProgram = /[/\\]/.test(program) && !isAbsolute(program) ? resolve(folder, program) : program;
  return { ...rest, command: [resolvedProgram, ...args], cwd: resolve(folder, table.cwd ?? '.') };
}

function parseGateway(raw: unknown, folder: string, faults: TableFault[]): GatewayTable | undefined {
  faults.push(...schemaFaults(gatewayTable, raw, ['gateway']));
  if (isTable(raw) && raw['key_env'] !== undefined && raw['key_file'] !== undefined)
    faults.push({
      path: ['gateway', 'key_file'],
      message: 'key_env is set too; keep one of key_env and key_file',
    });
  const parsed = gatewayTable.safeParse(raw);
  if (!parsed.success) return undefined;
  const { key_file: file, ...rest } = parsed.data;
  return { ...rest, ...(file === undefined ? {} : { key_file: resolve(folder, file) }) };
}

/** Members whose values may be secrets; messages do not repeat them. */
const secretMembers = ['env', 'headers', 'url'];

function schemaFaults(
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
    // zod nests the issues of a record's key in an issue without a useful message.
    const message =
      issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
    const received = valueAt(value, inside);
    if (received === undefined) return [{ path: at, message: `is missing; ${message}` }];
    const hidden = issue.code === 'invalid_key' || secretMembers.includes(String(inside[0]));
    return [{ path: at, message: hidden ? message : `${message}, got ${formatValue(received)}` }];
  });
}

function valueAt(value: unknown, path: KeyPath): unknown {
  let at = value;
  for (const part of path) at = (at as Record<string | number, unknown> | undefined)?.[part];
  return at;
}

const isTable = (value: unknown): value is Json => isRecord(value) && !(value instanceof Date);
