/** Runs the stages of the gate, in the child process. */
import type { Contract } from '../../../kernels/contracts.ts';
import { kernelDigest } from '../digest.ts';
import { toleranceUnder } from '../ops/descriptor.ts';
import { labOps } from '../ops/index.ts';
import { checkInterface } from '../stages/interface.ts';
import { parseStage } from '../stages/parse.ts';
import { checkSafety } from '../stages/safety.ts';
import type {
  Finding,
  KernelRegistrationReport,
  ParityCase,
  Stage,
  StageName,
  TunedShape,
} from '../types.ts';
import { declaredParams, tellable } from '../params.ts';
import { overrideValues, reflect } from '../wgsl/reflect.ts';
import { Builder } from './build.ts';
import { gridOf } from './dispatch.ts';
import { checkParity, type ParityResult, type ParityTask } from './parity.ts';
import type { GateJob } from './protocol.ts';
import { Phases } from './phases.ts';
import { type Bench, References } from './references.ts';
import { sweep } from './sweep.ts';
import type { Phase } from './time-limits.ts';
import { type Combination, combinationsOf, type Overrides } from './tunables.ts';

export interface Progress {
  begin(stage: StageName): void;
  end(stage: Stage): void;
  /** A new phase begins; `load` is the current load of the machine. */
  phase(phase: Phase, load: number): void;
}

/** Resolves with a report for every kernel that does not end the process. */
export async function runGate(
  bench: Bench,
  job: GateJob,
  progress: Progress,
): Promise<KernelRegistrationReport> {
  const start = performance.now();
  const { registration, mode, seed } = job;
  const { device } = bench.gpu;
  const phases = new Phases(bench.known, (phase, load) => progress.phase(phase, load));
  const stages: Stage[] = [];
  let more: Partial<KernelRegistrationReport> = {};
  const stage = async (name: StageName, work: () => Promise<readonly Finding[]>): Promise<boolean> => {
    progress.begin(name);
    const findings = await work();
    const done = { stage: name, ok: !findings.some(({ severity }) => severity === 'error'), findings };
    stages.push(done);
    progress.end(done);
    return done.ok;
  };
  const report = (): KernelRegistrationReport => ({
    kernel: registration.name,
    digest: kernelDigest(registration),
    accepted: stages.every(({ ok }) => ok),
    stages,
    ...more,
    seed,
    elapsed_ms: performance.now() - start,
  });

  const op = labOps.get(registration.op);
  if (!op) throw new Error(`unknown op '${registration.op}'`);
  const { contract } = op;

  await phases.measureLoad();
  let module: GPUShaderModule | undefined;
  const parsed = await stage('parse', async () => {
    const result = await phases.during('compile', () => parseStage(device, registration.source));
    module = result.module;
    return result.findings;
  });
  if (!parsed || !module) return report();
  const reflection = reflect(registration.source);
  // The two stages are independent, so both run and the author gets all findings at once.
  const fits = await stage('interface', async () =>
    checkInterface(registration, contract, reflection, device),
  );
  const safe = await stage('safety', async () => checkSafety(reflection));
  if (!fits || !safe) return report();

  const builder = new Builder(device, { registration, contract, reflection, module });
  const gridFor = (overrides: Overrides) => {
    const values = overrideValues(reflection, { ...registration.overrides, ...overrides });
    const most = device.limits.maxComputeWorkgroupsPerDimension;
    return (one: ParityCase) => gridOf(registration.dispatch, { ...values, ...one.dims }, most);
  };
  const combinations: Combination[] = [];
  const built = await stage('pipeline', async () => {
    const all = combinationsOf(registration.tunables ?? {});
    const results = await phases.during('compile', () =>
      Promise.all(all.map((overrides) => builder.build(overrides))),
    );
    const findings: Finding[] = [];
    for (const [index, { candidate, findings: own }] of results.entries()) {
      const overrides = all[index] as Overrides;
      if (candidate) combinations.push({ overrides, candidate, gridFor: gridFor(overrides) });
      findings.push(...own);
    }
    // Some tunable values can exceed a limit of the adapter; the others are enough.
    return combinations.length === 0 ? findings : findings.map(asWarning);
  });
  if (!built) return report();
  /** Runs cases with the checked build of a combination. */
  const withChecks = async (task: ParityTask, combination: Combination): Promise<ParityResult> => {
    const { candidate, overrides } = combination;
    const checked = await phases.during('compile', () => builder.withChecks(candidate, overrides));
    const result = await checkParity(device, task, checked.candidate, combination.gridFor);
    return { ...result, findings: [...checked.findings, ...result.findings] };
  };
  if (mode === 'off') {
    more = { unverified: true };
    return report();
  }

  await stage('parity', async () => {
    const toleranceFor = (format?: string) =>
      toleranceUnder(contract, format, { mode, tolerance_scale: job.toleranceScale });
    const formats = registration.dtypes ?? job.formats;
    const all = [
      ...op.cases({
        seed,
        formats,
        live: job.live.byOp[registration.op],
        strict: mode === 'strict',
      }),
      // The model can have weight formats that the kernel does not read.
      ...(job.live.captured[registration.op] ?? []).filter(
        ({ format }) => format === undefined || formats.includes(format),
      ),
    ];
    if (all.length === 0)
      throw new Error(`no cases for ${op.contract.op}: at least one weight format is needed`);
    const { told: cases, missing } = tellable(contract, declaredParams(contract, reflection), all);
    const references = new References(bench, op);
    // Measured again, because compiling can take long.
    await phases.measureLoad();
    const task = { op, cases, toleranceFor, seed, references, phases };
    const result: ParityResult & { tuning?: readonly TunedShape[] } = registration.tunables
      ? await sweep(bench, task, combinations, withChecks)
      : await withChecks(task, combinations[0] as Combination);
    more = {
      parity: result.verdicts,
      tolerance: { ...toleranceFor(cases[0]?.format), scale: job.toleranceScale, mode },
      ...(result.tuning ? { tuning: result.tuning } : {}),
    };
    return [...missing.map((name) => notTold(contract, name)), ...result.findings];
  });
  return report();
}

const notTold = ({ op }: Contract, name: string): Finding => ({
  code: 'params_end_early',
  severity: 'info',
  message: `the params struct ends before ${name}: the kernel is neither checked nor bound where ${op} needs it`,
});

const asWarning = (finding: Finding): Finding =>
  finding.severity === 'error' ? { ...finding, severity: 'warning' } : finding;
