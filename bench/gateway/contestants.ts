import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sleep } from '../../src/util/sleep.ts';

/** A measured endpoint, and the headers of its requests. */
export interface Contestant {
  readonly name: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly pid: number | undefined;
  readonly close: () => Promise<void>;
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const portkeyEntry = fileURLToPath(
  new URL('node_modules/@portkey-ai/gateway/build/start-server.js', import.meta.url),
);

export const providerAlone = (url: string): Contestant => ({
  name: 'provider alone',
  url,
  headers: {},
  pid: undefined,
  close: () => Promise.resolve(),
});

/** `gateway.toml` for the mock provider, with limits that do not affect the measurement. */
export const benchConfig = (provider: string): string => `[[providers]]
id = "mock"
wire = "openai-chat"
base_url = "${provider}"
api_key_env = "MOCK_KEY"

[[models]]
id = "mock-1"
provider = "mock"
upstream = "mock-1"
family = "openai"
caps = ["chat", "tools"]
context_window = 128000
max_output_tokens = 16384
in_usd_per_mtok = "2.50"
out_usd_per_mtok = "10"

[limits]
concurrency = 10000
requests_per_minute = 10000000
`;

/**
 * Starts lathe's gateway with authentication, reservation, settlement and receipts in a database on disk.
 * @param options.checkoutFolder a built checkout; default: this one
 */
export async function startLathe(
  provider: string,
  {
    database,
    checkoutFolder = root,
    name = 'lathe',
    account = 'bench',
    launcher = [],
  }: {
    database?: string;
    checkoutFolder?: string;
    name?: string;
    /** The account that pays; created. */
    account?: string;
    /** A program and its arguments that start the gateway. */
    launcher?: readonly string[];
  } = {},
): Promise<Contestant> {
  const entry = join(checkoutFolder, 'dist/gateway.js');
  if (!existsSync(entry)) throw new Error(`${entry} is missing: npm run build`);
  const folder = mkdtempSync(join(tmpdir(), 'lathe-bench-gateway-'));
  const config = join(folder, 'gateway.toml');
  writeFileSync(config, benchConfig(provider));
  const shared = ['--config', config, '--database', database ?? `sqlite:${join(folder, 'gateway.db')}`];
  const env = { ...process.env, MOCK_KEY: 'sk-mock' };
  const run = (...args: string[]) =>
    JSON.parse(
      execFileSync(process.execPath, [entry, ...args, ...shared, '--json'], { encoding: 'utf8', env }),
    ) as Record<string, unknown>;
  run('account', 'create', account, '--credit-usd', '100000');
  const { key } = run('key', 'create', '--account', account) as { key: string };
  const port = await freePort();
  const command = [...launcher, process.execPath, entry, 'serve', ...shared, '--port', String(port)];
  const [program = '', ...words] = command;
  const child = spawn(program, words, {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const url = `http://127.0.0.1:${port}/v1`;
  await waitUntilUp(`http://127.0.0.1:${port}/health`);
  return {
    name,
    url,
    headers: { authorization: `Bearer ${key}` },
    pid: child.pid,
    async close() {
      await terminate(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** @returns undefined when it is not installed */
export async function startPortkey(provider: string): Promise<Contestant | undefined> {
  if (!existsSync(portkeyEntry)) return undefined;
  const port = await freePort();
  const child = spawn(process.execPath, [portkeyEntry, '--headless', `--port=${port}`], { stdio: 'ignore' });
  await waitUntilUp(`http://127.0.0.1:${port}/`);
  return {
    name: 'portkey',
    url: `http://127.0.0.1:${port}/v1`,
    headers: {
      authorization: 'Bearer sk-mock',
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': provider,
    },
    pid: child.pid,
    close: () => terminate(child),
  };
}

export const portkeyVersion = (): string =>
  (
    JSON.parse(
      readFileSync(
        fileURLToPath(new URL('node_modules/@portkey-ai/gateway/package.json', import.meta.url)),
        'utf8',
      ),
    ) as { version: string }
  ).version;

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });

async function waitUntilUp(url: string): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    try {
      await fetch(url);
      return;
    } catch {
      await sleep(50);
    }
  }
  throw new Error(`${url} does not answer`);
}

function terminate(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
    setTimeout(() => child.kill('SIGKILL'), 5000).unref();
  });
}
