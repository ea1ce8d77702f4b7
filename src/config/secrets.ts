import { readFile, stat } from 'node:fs/promises';
import type { McpServerConfig } from '../agent/mcp/config.ts';
import { UsageError } from './options.ts';
import { headerValue, type McpTable } from './tables.ts';
import type { Settings } from './toml.ts';

/** A gateway whose models agents can use, with its API key. */
export interface GatewayConfig {
  readonly url: string;
  readonly key?: string;
  /** Model ids that agents can use. Undefined: all of the gateway's models. */
  readonly models?: readonly string[];
  readonly timeoutMs?: number;
}

/** Secrets that the settings refer to by file or variable. No message contains a secret. */
export interface Secrets {
  /** Content of `--bearer-token-file`. Without it the host creates its own token. */
  readonly bearerToken?: string;
  readonly gateway?: GatewayConfig;
  /** The enabled servers, ready to be started. */
  readonly mcp: readonly McpServerConfig[];
  /** Every secret that was read, and the headers in the settings themselves. None of them may be written anywhere. */
  readonly texts: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

const defaultTimeoutSecs = 60;
const mostBytes = 65_536;
/** Variables that every program needs and that hold no secrets. */
const inheritable = [
  'HOME LANG LC_ALL LOGNAME PATH SHELL TERM TMPDIR TZ USER',
  // Windows.
  'APPDATA COMSPEC LOCALAPPDATA PATHEXT SYSTEMDRIVE SYSTEMROOT TEMP USERPROFILE',
].flatMap((names) => names.split(' '));

/** Reads the files and variables that the settings name. Throws `UsageError` with all faults. */
export async function readSecrets(settings: Settings, env: Environment): Promise<Secrets> {
  const reader = new SecretReader(env);
  const { bearer_token_file: bearerFile, gateway } = settings;
  const bearerToken = bearerFile && (await reader.file('--bearer-token-file', bearerFile));
  const key =
    gateway?.key_file === undefined
      ? gateway?.key_env && reader.variable('gateway.key_env', gateway.key_env)
      : await reader.file('gateway.key_file', gateway.key_file);
  const mcp: McpServerConfig[] = [];
  for (const [name, table] of Object.entries(settings.mcp ?? {}))
    if (table.enabled !== false) mcp.push(await mcpServer(name, table, reader));
  if (reader.faults.length > 0) throw new UsageError(reader.faults);
  return {
    ...(bearerToken ? { bearerToken } : {}),
    ...(gateway && {
      gateway: {
        url: gateway.url,
        ...(key ? { key } : {}),
        ...(gateway.models && { models: gateway.models }),
        ...(gateway.timeout_secs === undefined ? {} : { timeoutMs: gateway.timeout_secs * 1000 }),
      },
    }),
    mcp,
    texts: [
      ...reader.read,
      ...mcp.flatMap(({ transport }) => (transport.kind === 'http' ? Object.values(transport.headers) : [])),
    ],
  };
}

async function mcpServer(name: string, table: McpTable, reader: SecretReader): Promise<McpServerConfig> {
  const shared = {
    name,
    timeoutMs: (table.timeout_secs ?? defaultTimeoutSecs) * 1000,
    pins: new Map(Object.entries(table.pins ?? {})),
  };
  const at = `mcp.${name}`;
  if (table.command !== undefined) {
    const [program = '', ...args] = table.command;
    const env: Record<string, string> = {};
    for (const variable of table.env_from ?? [])
      env[variable] = reader.environment(`${at}.env_from`, variable) ?? '';
    Object.assign(env, table.env);
    const transport = {
      kind: 'stdio',
      program,
      args,
      inherited: reader.inherited(),
      env,
      cwd: table.cwd,
    } as const;
    return { ...shared, transport };
  }
  const headers: Record<string, string> = { ...table.headers };
  for (const [header, variable] of Object.entries(table.header_env ?? {}))
    headers[header] = reader.variable(`${at}.header_env.${header}`, variable) ?? '';
  for (const [header, path] of Object.entries(table.header_files ?? {}))
    headers[header] = (await reader.file(`${at}.header_files.${header}`, path)) ?? '';
  return { ...shared, transport: { kind: 'http', url: table.url ?? '', headers } };
}

class SecretReader {
  readonly faults: string[] = [];
  /** The secrets that were read. */
  readonly read: string[] = [];
  readonly #env: Environment;
  constructor(env: Environment) {
    this.#env = env;
  }

  inherited(): Record<string, string> {
    return Object.fromEntries(
      inheritable.flatMap((name) => {
        const value = this.#env[name];
        return value === undefined ? [] : [[name, value]];
      }),
    );
  }

  /** A variable's value unchanged. It may have several lines. */
  environment(key: string, name: string): string | undefined {
    const value = this.#env[name];
    if (value) {
      if (!inheritable.includes(name)) this.read.push(value.trim());
      return value;
    }
    const state = value === undefined ? 'is not set' : 'is empty';
    this.faults.push(`${key}: the environment variable ${name} ${state}; set it before starting the host`);
    return undefined;
  }

  variable(key: string, name: string): string | undefined {
    const value = this.environment(key, name);
    return value && this.#oneLine(`${key}: the environment variable ${name}`, value.trim());
  }

  async file(key: string, path: string): Promise<string | undefined> {
    const what = `${key} ${path}`;
    try {
      const { size } = await stat(path);
      if (size > mostBytes) {
        this.faults.push(
          `${what}: has ${size} bytes, expected at most ${mostBytes}; name a file that holds only the secret`,
        );
        return undefined;
      }
      const value = (await readFile(path, 'utf8')).trim();
      if (value !== '') {
        this.read.push(value);
        return this.#oneLine(what, value);
      }
      this.faults.push(`${what}: is empty; write the secret into it`);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      this.faults.push(`${what}: ${whyNot[code] ?? `cannot be read (${code})`}`);
    }
    return undefined;
  }

  #oneLine(what: string, value: string): string | undefined {
    if (value !== '' && headerValue.test(value)) return value;
    this.faults.push(`${what}: must hold one line of printable characters and nothing else`);
    return undefined;
  }
}

const whyNot: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file; write the secret into it, or correct the path',
  EISDIR: 'it is a directory; name the file in it',
  EACCES: "not allowed to read it; check the file's owner and mode",
};
