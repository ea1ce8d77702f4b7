/** One task: the gate judges the kernels, and a process times those that it accepts. */
import type { GateProcess } from '../../src/lab/gate/gate-process.ts';
import type { GateJob } from '../../src/lab/gate/protocol.ts';
import { renderStub } from '../../src/lab/stubs.ts';
import { type KernelRegistration, type KernelRegistrationReport, LabError } from '../../src/lab/types.ts';
import { errorMessage } from '../../src/util/error-message.ts';
import { median } from '../statistics.ts';
import type { TimingResult } from './protocol.ts';
import { rooflineMs, speedUp } from './score.ts';
import { hiddenSizes, type KernelTask, type Level, workOf } from './tasks.ts';
import type { TimerProcess } from './timer-process.ts';

export interface Effort {
  /** Number of hidden sizes. */
  readonly sizes: number;
  readonly rounds: number;
  readonly rotatedBytes: number;
  /** Time limit of a size. */
  readonly timeoutMs: number;
}

/** One contestant in one task. */
export interface Entry {
  /** Speed-up over the baseline, of each size. */
  readonly speedUps?: readonly number[];
  /** Share of the roofline, of each size. */
  readonly roofline?: readonly number[];
  /** Ms, of each size. */
  readonly ms?: readonly number[];
  /** Why it is not scored. */
  readonly fault?: string;
}

export interface TaskResult {
  readonly task: string;
  readonly level: Level;
  readonly sizes: readonly Readonly<Record<string, number>>[];
  readonly entries: Readonly<Record<string, Entry>>;
}

export interface Bench {
  readonly gate: GateProcess;
  readonly timer: TimerProcess;
  readonly wgsl: ReadonlyMap<string, string>;
  readonly effort: Effort;
  readonly seed: number;
}

const inputSeed = (seed: number, size: number): number => (seed ^ Math.imul(size + 1, 0x9e3779b1)) >>> 0;

export async function runTask(
  task: KernelTask,
  submitted: KernelRegistration | undefined,
  bench: Bench,
): Promise<TaskResult> {
  const { id, level, op, format } = task;
  const { source, dispatch, overrides, requires } = renderStub(bench.wgsl, op, 'plain', format);
  const baseline = { name: 'baseline', op, source, dispatch, overrides, requires: [...requires] };
  const sizes = hiddenSizes(task, bench.seed, bench.effort.sizes);
  const entries: Record<string, Entry> = {};
  /** Kernels that the gate accepts. */
  const accepted: Record<string, KernelRegistration> = {};
  for (const [name, registration] of Object.entries({
    baseline,
    ...(submitted ? { submission: submitted } : {}),
  })) {
    const report = await judge(task, registration, bench);
    const findings = report.stages.flatMap((stage) => stage.findings);
    const fault = findings.find(({ severity }) => severity === 'error');
    if (!report.accepted) entries[name] = { fault: `rejected: ${fault?.message ?? 'no reason given'}` };
    else accepted[name] = withBestOverrides(registration, report.tuning?.[0]?.best);
  }

  const timed: TimingResult[] = [];
  for (const [index, dims] of sizes.entries()) {
    const { rounds, rotatedBytes } = bench.effort;
    const job = { op, format, dims, seed: inputSeed(bench.seed, index), rounds, rotatedBytes };
    try {
      timed.push(await bench.timer.time({ ...job, kernels: accepted }));
    } catch (error) {
      if (!accepted['submission']) throw error;
      // The others do not pay for it.
      entries['submission'] = { fault: `at ${JSON.stringify(dims)}: ${errorMessage(error)}` };
      delete accepted['submission'];
      timed.push(await bench.timer.time({ ...job, kernels: accepted }));
    }
  }
  for (const name of ['baseline', 'built-in', 'submission'])
    if (!entries[name] && timed.every(({ timings }) => timings[name]))
      entries[name] = await scored(name, task, { timed, bench });
  return { task: id, level, sizes, entries };
}

/** Times in which a machine that is too busy for a verdict may become idle. */
const maxAttempts = 3;

/** The gate's report. Its cases have the published size, too. */
async function judge(
  { op, format, dims: published }: KernelTask,
  registration: KernelRegistration,
  { gate, seed }: Bench,
): Promise<KernelRegistrationReport> {
  const { context: _context, tokens: _tokens, ...dims } = published;
  const shape = { dims, params: {}, ...(format === undefined ? {} : { format }) };
  const job: GateJob = {
    registration,
    mode: 'standard',
    toleranceScale: 1,
    seed,
    formats: [format ?? 'q8_0'],
    live: { byOp: { [op]: [shape] }, captured: {} },
  };
  for (let attempt = 1; ; attempt++) {
    try {
      return await gate.register(job);
    } catch (error) {
      if (!(error instanceof LabError) || error.code !== 'lab_busy' || attempt === maxAttempts) throw error;
    }
  }
}

/** The scores of a contestant, or what is wrong with what it wrote. */
async function scored(
  name: string,
  { op, format }: KernelTask,
  { timed, bench }: { readonly timed: readonly TimingResult[]; readonly bench: Bench },
): Promise<Entry> {
  const wrong = timed.map(({ timings }) => timings[name]?.wrong).find((one) => one !== undefined);
  if (wrong !== undefined) return { fault: `wrong at a hidden size: ${wrong}` };
  const { peaks } = await bench.timer.open();
  const samplesOf = ({ timings }: TimingResult, of: string) => timings[of]?.samples ?? [];
  const ms = timed.map((size) => median(samplesOf(size, name)));
  return {
    ms,
    speedUps: timed.map((size) => speedUp(samplesOf(size, name), samplesOf(size, 'baseline'))),
    roofline: timed.map(({ dims }, n) => rooflineMs(workOf(op, dims, format), peaks) / (ms[n] as number)),
  };
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
