import { readFile, stat } from 'node:fs/promises';
import type { McpServerConfig } from '../agent/mcp/config.ts';
import { UsageError } from './options.ts';
import { headerValue, type McpTable } from './tables.ts';
import type { Settings } from './toml.ts';

/** A gateway that agents may take models from, with its key. */
export interface GatewayConfig {
  readonly url: string;
  readonly key?: string;
  /** Undefined: whatever it has. */
  readonly models?: readonly string[];
  readonly timeoutMs?: number;
}

/** What the settings name but do not hold. No message says anything of what they are. */
export interface Secrets {
  /** Of `--bearer-token-file`; without it the host has its own. */
  readonly bearerToken?: string;
  readonly gateway?: GatewayConfig;
  /** Those that are enabled, ready to be started. */
  readonly mcp: readonly McpServerConfig[];
  /** All that was read, and the headers that the settings hold themselves: what must not be written anywhere. */
  readonly texts: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

const defaultTimeoutSecs = 60;
const mostBytes = 65_536;
/** What a program needs to run at all, and that no secret is in. */
const inheritable = [
  'HOME LANG LC_ALL LOGNAME PATH SHELL TERM TMPDIR TZ USER',
  // Of Windows.
  'APPDATA COMSPEC LOCALAPPDATA PATHEXT SYSTEMDRIVE SYSTEMROOT TEMP USERPROFILE',
].flatMap((names) => names.split(' '));

/** Reads the files and variables that the settings name. Throws `UsageError` with every one that is not as it must be. */
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
  /** The secrets that were found. */
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

  /** As it is, which may be many lines. */
  environment(key: string, name: string): string | undefined {
    const value = this.#env[name];
    if (value) {
      if (!inheritable.includes(name)) this.read.push(value.trim());
      return value;
    }
    const state = value === undefined ? 'is not set' : 'is empty';
    this.faults.push(`${key}: the environment variable ${name} ${state}; set it before the host is started`);
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
          `${what}: is ${size} bytes, which is no secret; name a file with nothing else in it`,
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
    this.faults.push(`${what}: must hold one line of plain characters and nothing else`);
    return undefined;
  }
}

const whyNot: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file; write the secret into it, or correct the path',
  EISDIR: 'it is a directory; name the file in it',
  EACCES: "not allowed to read it; check the file's owner and mode",
};
