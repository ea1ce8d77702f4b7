/**
 * How often a bench of the lab finds a slow-down of a known size, and what its verdicts are: `npm run build`, then
 *
 *     node bench/lab-detection.ts [--full] [--runs 20] [--slower 0.05,0.1,0.3] [--out FILE]
 *
 * The stub of `embed` gets a loop that changes nothing but the time. Its length for a slow-down is interpolated between two
 * benches without the loop and two with a long one, at full settings. The sizes take turns, so that each sees the same load
 * of the machine; a line for each bench is appended to FILE, and a run that was stopped goes on from it.
 */
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './statistics.ts';
import { table } from './table.ts';

const { values } = parseArgs({
  options: {
    full: { type: 'boolean', default: false },
    runs: { type: 'string', default: '20' },
    slower: { type: 'string', default: '0.05,0.1,0.3' },
    out: { type: 'string' },
  },
});
const sizes = values.slower.split(',').map(Number);

/** What is read of a bench. */
interface Bench {
  readonly verdict: string;
  readonly delta: { readonly decode: number };
  readonly ratio_ci95: readonly [number, number];
  readonly rounds: number;
}
interface Line extends Bench {
  /** The loop of the kernel. */
  readonly steps: number;
  /** The slow-down asked for; undefined: a bench of the calibration. */
  readonly size?: number;
  readonly ms: number;
}

const lines: Line[] = [];
if (values.out !== undefined && existsSync(values.out))
  for (const line of readFileSync(values.out, 'utf8').split('\n').filter(Boolean))
    lines.push(JSON.parse(line) as Line);
function keep(line: Line): void {
  lines.push(line);
  if (values.out !== undefined) appendFileSync(values.out, `${JSON.stringify(line)}\n`);
}

const folder = mkdtempSync(join(tmpdir(), 'lathe-detection-'));
const entry = fileURLToPath(new URL('../dist/host.js', import.meta.url));
const host = spawn(process.execPath, [entry, '--gpu', '--port', '0', '--data-dir', folder], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
const url = await new Promise<string>((resolve, reject) => {
  host.once('exit', (code) => reject(new Error(`the host ended with ${code}`)));
  createInterface(host.stdout).on('line', (line) => {
    const ready = /ready at (http:\S+)/.exec(line)?.[1];
    if (ready !== undefined) resolve(ready);
  });
});

async function call<Body>(method: string, path: string, body?: object): Promise<Body> {
  const response = await fetch(`${url}/lab/v1/${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Body;
}

const { source } = await call<{ source: string }>('GET', 'ops/embed/stub');
const store = /^ {2}y\[.*\] = weights \* params\.scale;$/m;
if (!store.test(source)) throw new Error('The stub of embed stores its result in another way.');

/** The stub with a loop of this many steps, whose result is at least 0. */
const withSteps = (steps: number): string =>
  source.replace(
    store,
    (line) => `  var spent = weights.x;
  for (var i = 0u; i < ${steps}u; i++) {
    spent = fract(spent * 1.618 + 0.5);
  }
${line.replace(';', ' + min(spent, 0.0);')}`,
  );

async function bench(steps: number, full: boolean): Promise<Omit<Line, 'size'>> {
  const name = `embed-${steps}`;
  await call('POST', 'kernels', { name, op: 'embed', source: withSteps(steps) });
  await call('POST', 'bindings', { kernel: name, components: ['embed'] });
  const startedAt = performance.now();
  const {
    verdict,
    delta,
    ratio_ci95: interval,
    rounds,
  } = await call<Bench>('POST', 'bench', { mode: full ? 'full' : 'quick' });
  const ms = Math.round(performance.now() - startedAt);
  return { steps, verdict, delta: { decode: delta.decode }, ratio_ci95: interval, rounds, ms };
}

/** Time of a token with this many steps, in units of the built-in's. */
const timeOf = (steps: number): number =>
  1 /
  (1 +
    median(
      lines
        .filter((line) => line.size === undefined && line.steps === steps)
        .map(({ delta }) => delta.decode),
    ));

try {
  const long = 12_000;
  for (const steps of [1, long, 1, long])
    if (lines.filter((line) => line.size === undefined && line.steps === steps).length < 2)
      keep(await bench(steps, true));
  const perStep = (timeOf(long) - timeOf(1)) / (long - 1);
  const stepsFor = (size: number): number =>
    Math.max(1, Math.round(1 + (1 / (1 - size) - timeOf(1)) / perStep));
  console.log(`without the loop ${timeOf(1).toFixed(3)}, a step ${perStep.toExponential(2)} of a token`);
  for (let run = 0; run < Number(values.runs); run += 1)
    for (const size of sizes)
      if (lines.filter((line) => line.size === size).length <= run) {
        const steps = lines.find((line) => line.size === size)?.steps ?? stepsFor(size);
        const line = { ...(await bench(steps, values.full)), size };
        keep(line);
        console.log(`${size}: ${line.verdict}, ${line.delta.decode}, ${line.rounds} rounds, ${line.ms} ms`);
      }
  const percent = (value: number) => `${(value * 100).toFixed(1)} %`;
  console.log(
    table(
      [
        'asked',
        'measured, median',
        'slower',
        'no difference',
        'inconclusive',
        'faster',
        'intervals with the median',
        's a bench',
      ],
      sizes.map((size) => {
        const own = lines.filter((line) => line.size === size);
        const measured = median(own.map(({ delta }) => delta.decode));
        const count = (verdict: string) => String(own.filter((line) => line.verdict === verdict).length);
        const within = own.filter(
          ({ ratio_ci95: [low, high] }) => low <= 1 + measured && 1 + measured <= high,
        );
        return [
          percent(-size),
          percent(measured),
          ...['slower', 'no_difference', 'inconclusive', 'faster'].map(count),
          `${within.length} of ${own.length}`,
          (median(own.map(({ ms }) => ms)) / 1000).toFixed(0),
        ];
      }),
    ),
  );
} finally {
  host.kill();
  rmSync(folder, { recursive: true, force: true });
}
