import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Contestant } from './contestants.ts';

const run = promisify(execFile);

const path = '/chat/completions';
const prompt = 'Say something about the sea, in a sentence or two.';
const bodyOf = (stream: boolean, suffix = '') =>
  JSON.stringify({
    model: 'mock-1',
    messages: [{ role: 'user', content: `${prompt}${suffix}` }],
    ...(stream ? { stream: true } : {}),
  });

export interface Throughput extends Omit<Load, 'requests'> {
  /** Processor time of the gateway's process on all threads; comparable even when the machine is busy. */
  readonly cpuMsPerRequest: number;
}

/** What `wrk` (Debian package) reports. */
export interface Load {
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failures: number;
}

/** Sends as many requests as get answers, over `connections` from one thread. */
export async function load(
  contestant: Contestant,
  { stream = false, seconds, connections }: { stream?: boolean; seconds: number; connections: number },
): Promise<Load> {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-wrk-'));
  try {
    const headers = { 'content-type': 'application/json', ...contestant.headers };
    const script = [
      'wrk.method = "POST"',
      `wrk.body = ${JSON.stringify(bodyOf(stream, stream ? ' fast' : ''))}`,
      ...Object.entries(headers).map(([name, value]) => `wrk.headers["${name}"] = ${JSON.stringify(value)}`),
      'function done(summary, latency)',
      '  local e = summary.errors',
      '  io.write(string.format("FIGURES %f %f %f %d %d\\n", summary.requests / summary.duration * 1e6,',
      '    latency:percentile(50) / 1000, latency:percentile(99) / 1000,',
      '    e.status + e.connect + e.read + e.write + e.timeout, summary.requests))',
      'end',
    ].join('\n');
    writeFileSync(join(folder, 'post.lua'), script);
    const { stdout } = await run('wrk', [
      '-t1',
      `-c${connections}`,
      `-d${seconds}`,
      '-s',
      join(folder, 'post.lua'),
      contestant.url + path,
    ]);
    const [requestsPerSecond = 0, p50Ms = 0, p99Ms = 0, failures = 0, requests = 0] = (
      /FIGURES (.*)/.exec(stdout)?.[1] ?? ''
    )
      .split(' ')
      .map(Number);
    return { requests, requestsPerSecond, p50Ms, p99Ms, failures };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Throughput over 64 connections. */
export async function throughput(
  contestant: Contestant,
  stream: boolean,
  seconds: number,
): Promise<Throughput> {
  const before = contestant.pid === undefined ? Number.NaN : cpuMs(contestant.pid);
  const { requests, ...figures } = await load(contestant, { stream, seconds, connections: 64 });
  const cpuUsedMs = contestant.pid === undefined ? Number.NaN : cpuMs(contestant.pid) - before;
  return { ...figures, cpuMsPerRequest: cpuUsedMs / requests };
}

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

function sendRequest(contestant: Contestant, body: string, onData: (text: string) => void): Promise<void> {
  const { hostname, port, pathname } = new URL(contestant.url + path);
  return new Promise((resolve, reject) => {
    const clientRequest = request(
      {
        agent,
        hostname,
        port,
        path: pathname,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          ...contestant.headers,
        },
      },
      (answer) => {
        if (answer.statusCode !== 200) reject(new Error(`${contestant.name} answered ${answer.statusCode}`));
        answer.setEncoding('utf8').on('data', onData);
        answer.on('end', resolve);
        answer.on('error', reject);
      },
    );
    clientRequest.on('error', reject);
    clientRequest.end(body);
  });
}

const now = () => performance.timeOrigin + performance.now();

/** Failed requests are not timed: a gateway may lose a connection that the provider has closed. */
async function trySend(
  contestant: Contestant,
  body: string,
  onData: (text: string) => void,
): Promise<boolean> {
  try {
    await sendRequest(contestant, body, onData);
    return true;
  } catch (error) {
    console.error(String(error));
    return false;
  }
}

/** Times of sequential requests in ms. Contestants alternate, so that all see the same machine load. */
export async function latencies(all: readonly Contestant[], rounds: number): Promise<number[][]> {
  const times: number[][] = all.map(() => []);
  const body = bodyOf(false);
  for (let round = -50; round < rounds; round += 1)
    for (const [index, contestant] of all.entries()) {
      const startedAt = performance.now();
      const isOk = await trySend(contestant, body, () => undefined);
      if (isOk && round >= 0) times[index]?.push(performance.now() - startedAt);
    }
  return times;
}

/** Delays in ms from the provider's write of a chunk to the client's read. Contestants alternate. */
export async function chunkDelays(all: readonly Contestant[], rounds: number): Promise<number[][]> {
  const times: number[][] = all.map(() => []);
  const body = bodyOf(true);
  for (let round = -3; round < rounds; round += 1)
    for (const [index, contestant] of all.entries())
      await trySend(contestant, body, (text) => {
        const readAt = now();
        for (const [, writtenAt] of text.matchAll(/"content":"([\d.]+) "/g))
          if (round >= 0) times[index]?.push(readAt - Number(writtenAt));
      });
  return times;
}

/** Processor time of a process so far in ms, with a resolution of 10 ms. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The process name is in parentheses and may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Resident memory of a process, in MiB. */
export function residentMib(pid: number): number {
  const kib = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) / 1024;
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
