import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildHost, repository } from '../test/support/host.ts';
import { chatStream } from './chat-client.ts';
import { median } from './statistics.ts';

/** Time from the start of a host with the embedded model to its first answer. */
export interface StartUpFigures {
  /** From the process's start to its ready line. */
  readonly readyMs: number;
  /** From the process's start to the first text of a streamed chat answer. */
  readonly firstTextMs: number;
  readonly rounds: number;
}

const builtHost = fileURLToPath(new URL('../dist/host.js', import.meta.url));
const question = {
  messages: [{ role: 'user', content: 'Hello! Who are you?' }],
  max_tokens: 4,
  temperature: 0,
};

/** Starts the built host repeatedly; the first start fills the caches and is not counted. */
export async function measureStartUp({
  adapter,
  rounds,
}: {
  adapter: string | undefined;
  rounds: number;
}): Promise<StartUpFigures> {
  buildHost();
  const dataDir = await mkdtemp(join(tmpdir(), 'lathe-bench-'));
  try {
    const starts = [];
    for (let round = 0; round <= rounds; round++) {
      const one = await startOnce(dataDir, adapter);
      if (round > 0) starts.push(one);
    }
    return {
      readyMs: Math.round(median(starts.map(({ readyMs }) => readyMs))),
      firstTextMs: Math.round(median(starts.map(({ firstTextMs }) => firstTextMs))),
      rounds,
    };
  } finally {
    await rm(dataDir, { recursive: true });
  }
}

async function startOnce(
  dataDir: string,
  adapter: string | undefined,
): Promise<{ readyMs: number; firstTextMs: number }> {
  const start = performance.now();
  const args = ['--gpu', '--port', '0', '--quiet', ...(adapter === undefined ? [] : ['--adapter', adapter])];
  const child = spawn(process.execPath, [builtHost, ...args], {
    cwd: repository,
    env: { ...process.env, LATHE_DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    let output = '';
    let url: string | undefined;
    for await (const text of child.stdout.setEncoding('utf8')) {
      output += text;
      url = /ready at (http:\/\/\S+)/.exec(output)?.[1];
      if (url !== undefined) break;
    }
    if (url === undefined) throw new Error(`the host ended before it was ready: ${output}`);
    const readyMs = performance.now() - start;
    const { firstTextMs } = await chatStream(url, question);
    return { readyMs, firstTextMs: readyMs + firstTextMs };
  } finally {
    child.kill('SIGKILL');
  }
}
