/**
 * `npm run bench:wgsl -- [--kernels DIR] [--quick] [--task ID]... [--seed N] [--json FILE] [--adapter NAME]`: lathe-bench, a benchmark
 * of WGSL kernels (bench/wgsl/README.md). Without a folder, the built-in kernels compete with the naive baselines alone.
 * `--init DIR` writes each task and its baseline to a folder to start from.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { GateProcess } from '../../src/lab/gate/gate-process.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { errorMessage } from '../../src/util/error-message.ts';
import { describeMachine, versions } from '../machine.ts';
import { digits, percent, table } from '../table.ts';
import { writeTasks } from './init.ts';
import { measureLayer } from './layer.ts';
import { type Effort, type Entry, runTask, type TaskResult } from './run-task.ts';
import { geometricMean, summarize } from './score.ts';
import { readSubmissions, type Submissions } from './submissions.ts';
import { kernelTasks, layerTask } from './tasks.ts';
import { TimerProcess } from './timer-process.ts';

const usage = `npm run bench:wgsl -- [OPTIONS]
  --kernels DIR   a folder of submissions: TASK.wgsl, and layer/*.wgsl
  --init DIR      writes the tasks and their baselines to a folder, and ends
  --task ID       this task alone; may be repeated
  --seed N        makes the hidden sizes and the inputs; default: random
  --quick         one hidden size and few rounds
  --json FILE     writes the results
  --adapter NAME  part of the adapter's name
`;

const full: Effort = { sizes: 3, rounds: 9, rotatedBytes: 256 << 20, timeoutMs: 120_000 };
const quick: Effort = { sizes: 1, rounds: 5, rotatedBytes: 64 << 20, timeoutMs: 60_000 };

async function runLayer(
  submissions: Submissions | undefined,
  options: Parameters<typeof measureLayer>[1],
): Promise<TaskResult> {
  const { baseline, submission, builtinTokensPerSecond } = await measureLayer(
    submissions?.layer ?? [],
    options,
  );
  const over = baseline.overBuiltin ?? Number.NaN;
  const entryOf = (relative: number | undefined, fault?: string): Entry =>
    relative === undefined
      ? { fault: fault ?? 'no result' }
      : { speedUps: [relative / over], ms: [1000 / (builtinTokensPerSecond * relative)] };
  return {
    task: layerTask.id,
    level: layerTask.level,
    sizes: [],
    entries: {
      baseline: entryOf(baseline.overBuiltin, baseline.fault),
      'built-in': entryOf(1),
      ...(submission ? { submission: entryOf(submission.overBuiltin, submission.fault) } : {}),
    },
  };
}

const average = (list: readonly number[] | undefined): number | undefined =>
  list && list.length > 0 ? geometricMean(list) : undefined;

function print(results: readonly TaskResult[], contestants: readonly string[]): void {
  const cells = (entry: Entry | undefined): string[] => {
    if (!entry) return ['-', '-', '-'];
    if (entry.fault !== undefined) return ['fault', '-', '-'];
    const [ms, roofline, over] = [average(entry.ms), average(entry.roofline), average(entry.speedUps)];
    return [
      ms === undefined ? '-' : digits(ms),
      roofline === undefined ? '-' : percent(roofline),
      over === undefined ? '-' : `${digits(over)}x`,
    ];
  };
  const rows = results.map(({ task, level, entries }) => [
    task,
    String(level),
    ...cells(entries['baseline']).slice(0, 2),
    ...contestants.flatMap((name) => cells(entries[name])),
  ]);
  const head = [
    'task',
    'level',
    'baseline ms',
    'of roof',
    ...contestants.flatMap((name) => [`${name} ms`, 'of roof', 'speed-up']),
  ];
  process.stdout.write(`${table(head, rows)}\n\n`);
  for (const { task, entries } of results) {
    for (const [name, { fault }] of Object.entries(entries))
      if (fault !== undefined) process.stdout.write(`${task}, ${name}: ${fault}\n`);
  }
  const summaries = contestants.map((name) => [name, summaryOf(results, name)] as const);
  const lines = summaries.flatMap(([name, byLevel]) =>
    Object.entries(byLevel).map(([level, one]) => [
      name,
      level,
      `${one.correct} of ${one.tasks}`,
      `${digits(one.speedUp)}x`,
      ...Object.values(one.fast).map(percent),
    ]),
  );
  process.stdout.write(
    `${table(['', 'level', 'correct', 'speed-up', 'fast 1x', 'fast 2x', 'fast 5x'], lines)}\n`,
  );
}

/** By level, and of all tasks. */
function summaryOf(results: readonly TaskResult[], name: string) {
  const scored = (of: readonly TaskResult[]) =>
    summarize(of.map(({ entries }) => ({ speedUp: average(entries[name]?.speedUps) })));
  const levels = [...Map.groupBy(results, ({ level }) => level)].sort(([a], [b]) => a - b);
  return Object.fromEntries([
    ...levels.map(([level, of]) => [String(level), scored(of)] as const),
    ['all', scored(results)],
  ]);
}

interface Options {
  readonly kernels?: string | undefined;
  readonly init?: string | undefined;
  readonly json?: string | undefined;
  readonly adapter?: string | undefined;
  readonly help: boolean;
  readonly quick: boolean;
  readonly seed: number;
  readonly isChosen: (id: string) => boolean;
}

/** @throws Error with a line for each fault */
function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      kernels: { type: 'string' },
      init: { type: 'string' },
      task: { type: 'string', multiple: true },
      seed: { type: 'string' },
      json: { type: 'string' },
      adapter: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const faults: string[] = [];
  const ids = [...kernelTasks, layerTask].map(({ id }) => id);
  const unknown = (values.task ?? []).filter((id) => !ids.includes(id));
  if (unknown.length > 0) faults.push(`--task: expected one of ${ids.join(', ')}; got ${unknown.join(', ')}`);
  const seed =
    values.seed === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(values.seed || Number.NaN);
  if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff)
    faults.push(`--seed: expected a whole number below 2^32, got '${values.seed}'`);
  if (faults.length > 0) throw new Error(faults.join('\n'));
  const { task } = values;
  return { ...values, seed, isChosen: (id) => task === undefined || task.includes(id) };
}

async function main(): Promise<void> {
  const options = readOptions();
  if (options.help) return void process.stdout.write(usage);
  const wgsl = await nodePlatform().wgsl();
  if (options.init !== undefined) return writeTasks(options.init, wgsl);
  const submissions = options.kernels === undefined ? undefined : readSubmissions(options.kernels);
  const { adapter, seed, isChosen } = options;
  const effort = options.quick ? quick : full;

  const begin = performance.now();
  const seconds = () => (performance.now() - begin) / 1000;
  const results: TaskResult[] = [];
  const childPath = fileURLToPath(new URL('../../src/lab-child.ts', import.meta.url));
  const gate = new GateProcess({ childPath, adapter });
  const timer = new TimerProcess({ adapter, timeoutMs: effort.timeoutMs });
  try {
    const { adapter: name, peaks, software } = await timer.open();
    const facts = {
      benchmark: 'lathe-bench 1',
      at: new Date().toISOString(),
      machine: await describeMachine(),
      versions: await versions(),
      adapter: { name, software, peaks },
      seed,
      effort: options.quick ? 'quick' : 'full',
    };
    const contestants = ['built-in', ...(submissions ? ['submission'] : [])];
    /** After each task, so that a run that is ended keeps what it measured. */
    const save = (isComplete: boolean): void => {
      if (options.json === undefined) return;
      const summary = Object.fromEntries(contestants.map((one) => [one, summaryOf(results, one)]));
      const report = { ...facts, complete: isComplete, seconds: seconds(), summary, results };
      writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
    };
    save(false);
    for (const task of kernelTasks.filter(({ id }) => isChosen(id))) {
      process.stderr.write(`${task.id} ...\n`);
      const submitted = submissions?.kernels.get(task.id);
      results.push(await runTask(task, submitted, { gate, timer, wgsl, effort, seed }));
      save(false);
    }
    timer.close();
    await gate.close();
    if (isChosen(layerTask.id)) {
      process.stderr.write(`${layerTask.id} ...\n`);
      results.push(await runLayer(submissions, { adapter, rounds: effort.rounds }));
    }
    save(true);
    print(results, contestants);
    process.stdout.write(
      `\n${name}${software ? ' (software)' : ''}: copies ${digits(peaks.gbps)} GB/s, f32 ${digits(peaks.gflops)} GFLOP/s; seed ${seed}; ${Math.round(seconds())} s\n`,
    );
  } finally {
    timer.close();
    await gate.close();
  }
}

process.stdout.on('error', () => process.exit(0));
try {
  await main();
  process.exit(0);
} catch (error) {
  process.stderr.write(`${errorMessage(error)}\n`);
  process.exit(2);
}
