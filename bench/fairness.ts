/**
 * Time to the first token of one client, alone and while another one floods the host: `node bench/fairness.ts`. Flags:
 * --host FILE (the program of another version), --model PATH, --flood N, --rounds N, --parallel N.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chatStream } from './chat-client.ts';
import { median, roundFigure } from './statistics.ts';

const { values } = parseArgs({
  options: {
    host: { type: 'string', default: 'dist/host.js' },
    model: { type: 'string' },
    flood: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '5' },
    parallel: { type: 'string', default: '8' },
  },
});
const [flood, rounds] = [Number(values.flood), Number(values.rounds)];
/** Tokens of each answer of the flood, and of the lone client's. */
const [floodTokens, loneTokens] = [64, 8];

const arrivalMs = 1000;

/** A different prompt for each request, so that none is cached. */
const request = (name: string, tokens: number) => ({
  messages: [{ role: 'user', content: `Tell ${name} a story about a small boat on a river.` }],
  max_tokens: tokens,
  temperature: 0,
  ignore_eos: true,
});

async function startHost() {
  const dataDir = mkdtempSync(join(tmpdir(), 'lathe-bench-'));
  const args = ['--gpu', '--port', '0', '--data-dir', dataDir, '--queue', String(flood + 8)];
  if (values.model !== undefined) args.push('--model', values.model);
  const child = spawn(process.execPath, [values.host, ...args, '--parallel', values.parallel], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const ready = /ready at (http:\S+)/.exec(output)?.[1];
      if (ready !== undefined) resolve(ready);
    });
    child.once('exit', () => reject(new Error(`the host did not start: ${output}`)));
  });
  const stop = () => {
    child.kill('SIGTERM');
    rmSync(dataDir, { recursive: true, force: true });
  };
  return { url, stop };
}

async function untilBusy(url: string, slots: number): Promise<void> {
  for (;;) {
    const states = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[];
    if (states.filter(({ is_processing: isBusy }) => isBusy).length >= slots) return;
  }
}

const { url, stop } = await startHost();
try {
  const lone = async (name: string) =>
    (await chatStream(url, request(name, loneTokens), { key: 'lone' })).firstTextMs;
  for (const name of ['Ada', 'Bo']) await lone(name);
  const alone: number[] = [];
  const inFlood: number[] = [];
  for (let round = 0; round < rounds; round++) {
    alone.push(await lone(`Cy the ${round}.`));
    const over = new AbortController();
    const answers = Array.from({ length: flood }, (_, index) =>
      chatStream(url, request(`child ${round} ${index}`, floodTokens), { key: 'flood', signal: over.signal }),
    );
    const settled = Promise.allSettled(answers);
    await untilBusy(url, Number(values.parallel));
    // Until then the host reads the rest of the flood, which takes its thread.
    await setTimeout(arrivalMs);
    inFlood.push(await lone(`Di the ${round}.`));
    over.abort();
    await settled;
  }
  const figure = (times: readonly number[]) => roundFigure(median(times));
  process.stdout.write(
    `first token of 1 client against ${flood} requests of another, ${values.parallel} slots, medians of ${rounds}: ` +
      `alone ${figure(alone)} ms, in the flood ${figure(inFlood)} ms ` +
      `(${roundFigure(Math.min(...inFlood))} to ${roundFigure(Math.max(...inFlood))})\n`,
  );
} finally {
  stop();
}
