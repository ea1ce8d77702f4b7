import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { isLoopback } from '../addresses/address-ranges.ts';
import { eventSelectors } from '../agent/shapes/agent-event.ts';
import { webhookKey, webhookSecretRule } from '../webhooks/sign.ts';
import { isRecord, type Json } from '../util/json.ts';
import { formatValue } from './options.ts';
import { wireNames } from '../wires/providers.ts';
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

const headerMembers = {
  headers: textRecord(
    headerName,
    textSchema.regex(headerValuePattern, 'expected one line'),
    'headers and texts',
  ).optional(),
  header_files: textRecord(headerName, nonEmptyText, 'headers and paths').optional(),
  header_env: textRecord(headerName, variableName, 'headers and names of environment variables').optional(),
};

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
  ...headerMembers,
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

const gatewayWires = wireNames.filter((wire) => wire !== 'lathe');
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

const webhookShape = {
  url: webUrl,
  secret: textSchema.refine((text) => webhookKey(text) !== undefined, webhookSecretRule).optional(),
  secret_env: variableName.optional(),
  secret_file: nonEmptyText.optional(),
  types: z
    .array(z.enum(eventSelectors, { error: `expected one of ${eventSelectors.join(', ')}` }), {
      error: 'expected a list of types of events',
    })
    .min(1, 'expected a list of types of events; leave it out for all')
    .optional(),
  ...headerMembers,
  allow_http: z.boolean({ error: 'expected true or false' }).optional(),
};
const webhookTable = z.strictObject(webhookShape, { error: 'expected a table [[agent.webhooks]]' });
export type WebhookTable = z.infer<typeof webhookTable>;
/** Headers that the host sets itself. */
const webhookHeaderNames =
  /^(webhook-.*|content-(type|length|encoding)|user-agent|host|connection|transfer-encoding|expect)$/i;

/** Tables that only the configuration file can have; they have no flags. */
export interface ConfigTables {
  readonly mcp?: Readonly<Record<string, McpTable>>;
  readonly gateway?: GatewayTable;
  readonly agent?: { readonly webhooks: readonly WebhookTable[] };
}
export const tableNames = ['mcp', 'gateway', 'agent'] as const;

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
  const agent = raw['agent'] === undefined ? undefined : parseAgent(raw['agent'], folder, faults);
  return { tables: { ...(mcp && { mcp }), ...(gateway && { gateway }), ...(agent && { agent }) }, faults };
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

/** Makes the paths of `header_files` absolute. */
function resolveHeaderFiles({ header_files: files }: Pick<McpTable, 'header_files'>, folder: string) {
  const paths = files && Object.entries(files).map(([name, path]) => [name, resolve(folder, path)] as const);
  return paths && { header_files: Object.fromEntries(paths) };
}

function resolvePaths(table: McpTable, folder: string): McpTable {
  const { command, header_files: _, ...rest } = table;
  if (command === undefined) return { ...rest, ...resolveHeaderFiles(table, folder) };
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

function parseAgent(raw: unknown, folder: string, faults: TableFault[]): ConfigTables['agent'] {
  const { webhooks: list = [], ...others } = isTable(raw) ? raw : {};
  if (!isTable(raw) || !Array.isArray(list)) {
    faults.push({ path: ['agent'], message: 'expected tables [[agent.webhooks]]' });
    return undefined;
  }
  for (const key of Object.keys(others))
    faults.push({
      path: ['agent', key],
      message: `unknown key${didYouMean(key, ['webhooks'], (near) => near)}`,
    });
  const urls = new Set<unknown>();
  const webhooks = list.flatMap((value: unknown, index): WebhookTable[] => {
    const path = ['agent', 'webhooks', index];
    faults.push(...schemaFaults(webhookTable, value, path));
    if (isTable(value)) faults.push(...webhookFaults(value, path, urls));
    const parsed = webhookTable.safeParse(value);
    if (!parsed.success) return [];
    const { secret_file: file, ...rest } = parsed.data;
    const files = resolveHeaderFiles(rest, folder);
    return [{ ...rest, ...files, ...(file === undefined ? {} : { secret_file: resolve(folder, file) }) }];
  });
  return { webhooks };
}

/** @param urls those of the tables before; this table's is added */
function webhookFaults(
  table: Readonly<Record<string, unknown>>,
  path: KeyPath,
  urls: Set<unknown>,
): TableFault[] {
  const faults: TableFault[] = [];
  const { url, allow_http: allowsHttp } = table;
  const [first, ...others] = ['secret', 'secret_env', 'secret_file'].filter(
    (member) => table[member] !== undefined,
  );
  if (first === undefined)
    faults.push({ path, message: 'needs a secret: secret_env = "VARIABLE", secret_file or secret' });
  for (const member of others)
    faults.push({ path: [...path, member], message: `${first} is set too; keep one of the two` });
  for (const member of ['headers', 'header_files', 'header_env'])
    for (const name of isTable(table[member]) ? Object.keys(table[member]) : [])
      if (webhookHeaderNames.test(name))
        faults.push({ path: [...path, member, name], message: 'the host sets this header itself' });
  if (typeof url !== 'string' || !URL.canParse(url)) return faults;
  const { protocol, hostname, href } = new URL(url);
  if (urls.has(href)) faults.push({ path: [...path, 'url'], message: 'another table has the same URL' });
  urls.add(href);
  const isLocal = hostname === 'localhost' || isLoopback(hostname.replace(/^\[|\]$/g, ''));
  if (protocol === 'http:' && !isLocal && allowsHttp !== true)
    faults.push({
      path: [...path, 'url'],
      message: 'expected https:// beyond this machine; allow_http = true sends the events unencrypted',
    });
  return faults;
}

/** Members whose values may be secrets; messages do not repeat them. */
const secretMembers = ['env', 'headers', 'url', 'secret'];

function schemaFaults(
  schema: typeof mcpTable | typeof gatewayTable | typeof webhookTable,
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
