/**
 * `npm run bench:wgsl -- [--kernels DIR] [--quick] [--task ID]... [--seed N] [--json FILE] [--adapter NAME]`: lathe-bench, a benchmark
 * of WGSL kernels (bench/wgsl/README.md). Without a folder, the built-in kernels compete with the naive baselines alone.
 * `--init DIR` writes each task and its baseline to a folder to start from.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { GateProcess } from '../../src/lab/gate/gate-process.ts';
import { renderStub } from '../../src/lab/stubs.ts';
import type { KernelRegistration } from '../../src/lab/types.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { errorMessage } from '../../src/util/error-message.ts';
import { describeMachine, versions } from '../machine.ts';
import { median } from '../statistics.ts';
import { digits, percent, table } from '../table.ts';
import { writeTasks } from './init.ts';
import { measureLayer } from './layer.ts';
import { geometricMean, rooflineMs, speedUp, summarize } from './score.ts';
import { readSubmissions, type Submissions } from './submissions.ts';
import { hiddenSizes, kernelTasks, type KernelTask, layerTask, type Level, workOf } from './tasks.ts';
import { TimerProcess } from './timer-process.ts';
import type { TimingResult } from './protocol.ts';

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

const usage = `npm run bench:wgsl -- [OPTIONS]
  --kernels DIR   a folder of submissions: TASK.wgsl, and layer/*.wgsl
  --init DIR      writes the tasks and their baselines to a folder, and ends
  --task ID       this task alone; may be repeated
  --seed N        makes the hidden sizes and the inputs; default: random
  --quick         one hidden size and few rounds
  --json FILE     writes the results
  --adapter NAME  part of the adapter's name
`;

interface Effort {
  readonly sizes: number;
  readonly rounds: number;
  readonly rotatedBytes: number;
  readonly timeoutMs: number;
}
const full: Effort = { sizes: 3, rounds: 9, rotatedBytes: 256 << 20, timeoutMs: 120_000 };
const quick: Effort = { sizes: 1, rounds: 5, rotatedBytes: 64 << 20, timeoutMs: 60_000 };

/** One contestant in one task. */
interface Entry {
  /** Speed-up over the baseline, of each size. */
  readonly speedUps?: readonly number[];
  /** Share of the roofline, of each size. */
  readonly roofline?: readonly number[];
  /** Ms, of each size. */
  readonly ms?: readonly number[];
  /** Why it is not scored. */
  readonly fault?: string;
}

interface TaskResult {
  readonly task: string;
  readonly level: Level;
  readonly sizes: readonly Readonly<Record<string, number>>[];
  readonly entries: Readonly<Record<string, Entry>>;
}

/** What the gate and timing of a kernel need. */
interface Bench {
  readonly gate: GateProcess;
  readonly timer: TimerProcess;
  readonly wgsl: ReadonlyMap<string, string>;
  readonly effort: Effort;
  readonly seed: number;
}

const inputSeed = (seed: number, size: number): number => (seed ^ Math.imul(size + 1, 0x9e3779b1)) >>> 0;

async function runTask(
  task: KernelTask,
  submitted: KernelRegistration | undefined,
  bench: Bench,
): Promise<TaskResult> {
  const { gate, timer, wgsl, effort, seed } = bench;
  const { id, level, op, format } = task;
  const { source, dispatch, overrides, requires } = renderStub(wgsl, op, 'plain', format);
  const baseline: KernelRegistration = {
    name: 'baseline',
    op,
    source,
    dispatch,
    overrides,
    requires: [...requires],
  };
  const sizes = hiddenSizes(task, seed, effort.sizes);
  const entries: Record<string, Entry> = {};
  /** Kernels that the gate accepts. The gate has a live case of the published size, too. */
  const accepted: Record<string, KernelRegistration> = {};
  for (const [name, registration] of Object.entries({
    baseline,
    ...(submitted ? { submission: submitted } : {}),
  })) {
    const { context: _, tokens: __, ...dims } = task.dims;
    const shape = { dims, params: {}, ...(format === undefined ? {} : { format }) };
    const report = await gate.register({
      registration,
      mode: 'standard',
      toleranceScale: 1,
      seed,
      formats: [format ?? 'q8_0'],
      live: { byOp: { [op]: [shape] }, captured: {} },
    });
    const findings = report.stages.flatMap((stage) => stage.findings);
    const fault = findings.find(({ severity }) => severity === 'error');
    if (!report.accepted) entries[name] = { fault: `rejected: ${fault?.message ?? 'no reason given'}` };
    else accepted[name] = withBestOverrides(registration, report.tuning?.[0]?.best);
  }

  const { peaks } = await timer.open();
  const timed: TimingResult[] = [];
  for (const [index, dims] of sizes.entries()) {
    const job = {
      op,
      format,
      dims,
      seed: inputSeed(seed, index),
      rounds: effort.rounds,
      rotatedBytes: effort.rotatedBytes,
    };
    try {
      timed.push(await timer.time({ ...job, kernels: accepted }));
    } catch (error) {
      if (!accepted['submission']) throw error;
      // The others do not pay for it.
      entries['submission'] = { fault: `at ${JSON.stringify(dims)}: ${errorMessage(error)}` };
      delete accepted['submission'];
      timed.push(await timer.time({ ...job, kernels: accepted }));
    }
  }
  for (const name of ['baseline', 'built-in', 'submission']) {
    if (entries[name] || timed.some(({ timings }) => !timings[name])) continue;
    const wrong = timed.map(({ timings }) => timings[name]?.wrong).find((one) => one !== undefined);
    if (wrong !== undefined) {
      entries[name] = { fault: `wrong at a hidden size: ${wrong}` };
      continue;
    }
    const ofSizes = timed.map(({ timings, dims }) => {
      const own = timings[name]?.samples ?? [];
      const ms = median(own);
      return {
        ms,
        speedUp: speedUp(own, timings['baseline']?.samples ?? []),
        roofline: rooflineMs(workOf(op, dims, format), peaks) / ms,
      };
    });
    entries[name] = {
      ms: ofSizes.map((one) => one.ms),
      speedUps: ofSizes.map((one) => one.speedUp),
      roofline: ofSizes.map((one) => one.roofline),
    };
  }
  return { task: id, level, sizes, entries };
}

function withBestOverrides(
  registration: KernelRegistration,
  best: Readonly<Record<string, number>> | undefined,
): KernelRegistration {
  const { name, op, source, entry_point, dispatch, overrides, requires } = registration;
  return {
    name,
    op,
    source,
    dispatch,
    overrides: { ...overrides, ...best },
    ...(entry_point === undefined ? {} : { entry_point }),
    ...(requires === undefined ? {} : { requires }),
  };
}

async function runLayer(submissions: Submissions | undefined, effort: Effort): Promise<TaskResult> {
  const { baseline, submission, builtinTokensPerSecond } = await measureLayer(submissions?.layer ?? [], {
    adapter: values.adapter,
    rounds: effort.rounds,
  });
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

function print(results: readonly TaskResult[], hasSubmissions: boolean): void {
  const contestants = ['built-in', ...(hasSubmissions ? ['submission'] : [])];
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

async function main(): Promise<void> {
  if (values.help) return void process.stdout.write(usage);
  const ids = [...kernelTasks, layerTask].map(({ id }) => id);
  const unknown = (values.task ?? []).filter((id) => !ids.includes(id));
  if (unknown.length > 0)
    throw new Error(`--task: expected one of ${ids.join(', ')}; got ${unknown.join(', ')}`);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(values.seed);
  if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff)
    throw new Error(`--seed: expected a whole number below 2^32, got '${values.seed}'`);
  const wgsl = await nodePlatform().wgsl();
  if (values.init !== undefined) return writeTasks(values.init, wgsl);
  const submissions = values.kernels === undefined ? undefined : readSubmissions(values.kernels);
  const effort = values.quick ? quick : full;
  const isChosen = (id: string) => values.task === undefined || values.task.includes(id);

  const start = performance.now();
  const childPath = fileURLToPath(new URL('../../src/lab-child.ts', import.meta.url));
  const gate = new GateProcess({ childPath, adapter: values.adapter });
  const timer = new TimerProcess({ adapter: values.adapter, timeoutMs: effort.timeoutMs });
  const results: TaskResult[] = [];
  try {
    const { adapter, peaks, software } = await timer.open();
    const bench: Bench = { gate, timer, wgsl, effort, seed };
    for (const task of kernelTasks.filter(({ id }) => isChosen(id))) {
      process.stderr.write(`${task.id} ...\n`);
      results.push(await runTask(task, submissions?.kernels.get(task.id), bench));
    }
    timer.close();
    await gate.close();
    if (isChosen(layerTask.id)) {
      process.stderr.write(`${layerTask.id} ...\n`);
      results.push(await runLayer(submissions, effort));
    }
    const seconds = (performance.now() - start) / 1000;
    print(results, submissions !== undefined);
    process.stdout.write(
      `\n${adapter}${software ? ' (software)' : ''}: copies ${digits(peaks.gbps)} GB/s, f32 ${digits(peaks.gflops)} GFLOP/s; seed ${seed}; ${Math.round(seconds)} s\n`,
    );
    if (values.json === undefined) return;
    const report = {
      benchmark: 'lathe-bench 1',
      at: new Date().toISOString(),
      machine: await describeMachine(),
      versions: await versions(),
      adapter: { name: adapter, software, peaks },
      seed,
      effort: values.quick ? 'quick' : 'full',
      seconds,
      summary: Object.fromEntries(
        ['built-in', ...(submissions ? ['submission'] : [])].map((name) => [name, summaryOf(results, name)]),
      ),
      results,
    };
    writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
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
