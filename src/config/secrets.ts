import { readFile, stat } from 'node:fs/promises';
import type { McpServerConfig } from '../agent/mcp/config.ts';
import type { WebhookConfig } from '../agent/webhooks/config.ts';
import { webhookKey, webhookSecretRule } from '../webhooks/sign.ts';
import { UsageError } from './options.ts';
import { headerValuePattern, type McpTable, type WebhookTable } from './tables.ts';
import type { Settings } from './toml.ts';

/** A gateway that serves models for agents, with its API key. */
export interface AgentGatewayConfig {
  readonly url: string;
  readonly key?: string;
  /** Ids of the models that agents may use; undefined: all. */
  readonly models?: readonly string[];
  readonly timeoutMs?: number;
}

/** The secrets that the settings refer to. Messages never contain them. */
export interface Secrets {
  /** Content of `--bearer-token-file`; without that flag the host generates a token. */
  readonly bearerToken?: string;
  readonly gateway?: AgentGatewayConfig;
  /** The enabled MCP servers. */
  readonly mcp: readonly McpServerConfig[];
  readonly webhooks: readonly WebhookConfig[];
  /** All secrets that were read, and the headers in the settings: texts that must be redacted everywhere. */
  readonly redactedTexts: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

const defaultTimeoutSecs = 60;
const maxSecretBytes = 65_536;
/** Environment variables that programs need and that hold no secrets. */
const inheritedVariables = [
  'HOME LANG LC_ALL LOGNAME PATH SHELL TERM TMPDIR TZ USER',
  // Windows.
  'APPDATA COMSPEC LOCALAPPDATA PATHEXT SYSTEMDRIVE SYSTEMROOT TEMP USERPROFILE',
].flatMap((names) => names.split(' '));

/** Reads the files and variables that the settings name. Throws `UsageError` with every fault. */
export async function resolveSecrets(settings: Settings, env: Environment): Promise<Secrets> {
  const reader = new SecretReader(env);
  const { bearer_token_file: bearerFile, gateway } = settings;
  const bearerToken = bearerFile && (await reader.readFileSecret('--bearer-token-file', bearerFile));
  const key =
    gateway?.key_file === undefined
      ? gateway?.key_env && reader.readVariable('gateway.key_env', gateway.key_env)
      : await reader.readFileSecret('gateway.key_file', gateway.key_file);
  const mcp: McpServerConfig[] = [];
  for (const [name, table] of Object.entries(settings.mcp ?? {}))
    if (table.enabled !== false) mcp.push(await toMcpServerConfig(name, table, reader));
  const webhooks: WebhookConfig[] = [];
  for (const [index, table] of (settings.agent?.webhooks ?? []).entries())
    webhooks.push(await toWebhookConfig(`agent.webhooks[${index}]`, table, reader));
  if (reader.faults.length > 0) throw new UsageError(reader.faults);
  return {
    ...(bearerToken ? { bearerToken } : {}),
    ...(gateway && {
      gateway: {
        url: gateway.url,
        ...(gateway.wire && { wire: gateway.wire }),
        ...(key ? { key } : {}),
        ...(gateway.models && { models: gateway.models }),
        ...(gateway.timeout_secs === undefined ? {} : { timeoutMs: gateway.timeout_secs * 1000 }),
      },
    }),
    mcp,
    webhooks,
    redactedTexts: [
      ...reader.secretsRead,
      ...webhooks.flatMap(({ secret, headers }) => [
        secret,
        secret.replace(/^whsec_/, ''),
        ...Object.values(headers),
      ]),
      ...mcp.flatMap(({ transport }) => (transport.kind === 'http' ? Object.values(transport.headers) : [])),
    ],
  };
}

async function toMcpServerConfig(
  name: string,
  table: McpTable,
  reader: SecretReader,
): Promise<McpServerConfig> {
  const shared = {
    name,
    timeoutMs: (table.timeout_secs ?? defaultTimeoutSecs) * 1000,
    pins: new Map(Object.entries(table.pins ?? {})),
  };
  const keyPath = `mcp.${name}`;
  if (table.command !== undefined) {
    const [program = '', ...args] = table.command;
    const env: Record<string, string> = {};
    for (const variable of table.env_from ?? [])
      env[variable] = reader.readEnvironment(`${keyPath}.env_from`, variable) ?? '';
    Object.assign(env, table.env);
    const transport = {
      kind: 'stdio',
      program,
      args,
      inherited: reader.inheritedEnvironment(),
      env,
      cwd: table.cwd,
    } as const;
    return { ...shared, transport };
  }
  const headers = await readHeaders(keyPath, table, reader);
  return { ...shared, transport: { kind: 'http', url: table.url ?? '', headers } };
}

async function readHeaders(
  keyPath: string,
  table: Pick<McpTable, 'headers' | 'header_env' | 'header_files'>,
  reader: SecretReader,
): Promise<Record<string, string>> {
  const headers: Record<string, string> = { ...table.headers };
  for (const [header, variable] of Object.entries(table.header_env ?? {}))
    headers[header] = reader.readVariable(`${keyPath}.header_env.${header}`, variable) ?? '';
  for (const [header, path] of Object.entries(table.header_files ?? {}))
    headers[header] = (await reader.readFileSecret(`${keyPath}.header_files.${header}`, path)) ?? '';
  return headers;
}

async function toWebhookConfig(
  keyPath: string,
  table: WebhookTable,
  reader: SecretReader,
): Promise<WebhookConfig> {
  const { url, types, secret_env: variable, secret_file: file } = table;
  const secret =
    variable !== undefined
      ? reader.readVariable(`${keyPath}.secret_env`, variable)
      : file === undefined
        ? table.secret
        : await reader.readFileSecret(`${keyPath}.secret_file`, file);
  if (secret !== undefined && webhookKey(secret) === undefined)
    reader.faults.push(`${keyPath}: its secret is invalid: ${webhookSecretRule}`);
  const headers = await readHeaders(keyPath, table, reader);
  return { url, secret: secret ?? '', headers, ...(types ? { types } : {}) };
}

class SecretReader {
  readonly faults: string[] = [];
  /** The secrets that were read. */
  readonly secretsRead: string[] = [];
  readonly #env: Environment;
  constructor(env: Environment) {
    this.#env = env;
  }

  inheritedEnvironment(): Record<string, string> {
    return Object.fromEntries(
      inheritedVariables.flatMap((name) => {
        const value = this.#env[name];
        return value === undefined ? [] : [[name, value]];
      }),
    );
  }

  /** The value of a variable, unchanged; it may have several lines. */
  readEnvironment(key: string, name: string): string | undefined {
    const value = this.#env[name];
    if (value) {
      if (!inheritedVariables.includes(name)) this.secretsRead.push(value.trim());
      return value;
    }
    const state = value === undefined ? 'is not set' : 'is empty';
    this.faults.push(`${key}: the environment variable ${name} ${state}; set it before the host is started`);
    return undefined;
  }

  readVariable(key: string, name: string): string | undefined {
    const value = this.readEnvironment(key, name);
    return value && this.#checkSingleLine(`${key}: the environment variable ${name}`, value.trim());
  }

  async readFileSecret(key: string, path: string): Promise<string | undefined> {
    const what = `${key} ${path}`;
    try {
      const { size } = await stat(path);
      if (size > maxSecretBytes) {
        this.faults.push(
          `${what}: is ${size} bytes long, so it is not a secret; name a file that holds only the secret`,
        );
        return undefined;
      }
      const value = (await readFile(path, 'utf8')).trim();
      if (value !== '') {
        this.secretsRead.push(value);
        return this.#checkSingleLine(what, value);
      }
      this.faults.push(`${what}: is empty; write the secret into it`);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      this.faults.push(`${what}: ${readErrorMessages[code] ?? `cannot be read (${code})`}`);
    }
    return undefined;
  }

  #checkSingleLine(what: string, value: string): string | undefined {
    if (value !== '' && headerValuePattern.test(value)) return value;
    this.faults.push(`${what}: must hold one line of plain characters and nothing else`);
    return undefined;
  }
}

const readErrorMessages: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file; write the secret into it, or correct the path',
  EISDIR: 'it is a directory; name the file in it',
  EACCES: "not allowed to read it; check the file's owner and mode",
};
