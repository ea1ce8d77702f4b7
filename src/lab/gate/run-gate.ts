/** Runs the stages of the gate, in the child process. */
import type { Contract } from '../../../kernels/contracts.ts';
import { kernelDigest } from '../digest.ts';
import { resolveTolerance, strictScale } from '../ops/descriptor.ts';
import { labOps } from '../ops/index.ts';
import { checkInterface } from '../stages/interface.ts';
import { parseStage } from '../stages/parse.ts';
import { checkSafety } from '../stages/safety.ts';
import type {
  CaseVerdict,
  Finding,
  KernelRegistrationReport,
  ParityCase,
  Stage,
  StageName,
} from '../types.ts';
import { declaredParams, selectSupportedCases } from '../params.ts';
import { overrideValues, reflect, type Reflection, workgroupSize } from '../wgsl/reflect.ts';
import { CandidateBuilder } from './build.ts';
import { evaluateGrid } from './dispatch.ts';
import { findIrregularDispatch } from './irregular-dispatch.ts';
import { checkOtherMachines } from './other-machines.ts';
import { checkParity, type ParityResult, type ParityTask } from './parity.ts';
import type { GateJob } from './protocol.ts';
import { PhaseReporter } from './phases.ts';
import { type GateDevice, ReferenceCache } from './references.ts';
import { findingsOfCombinations, type KeptCombination, tuneKernel } from './sweep.ts';
import type { Phase } from './time-limits.ts';
import { type Combination, defaultCombination, enumerateCombinations, type Overrides } from './tunables.ts';

export interface GateProgress {
  begin(stage: StageName): void;
  end(stage: Stage): void;
  /** A new phase begins; `load` is the current load of the machine. */
  phase(phase: Phase, load: number): void;
}

/** Resolves with a report for every kernel that does not end the process. */
export async function runGate(
  gateDevice: GateDevice,
  job: GateJob,
  progress: GateProgress,
): Promise<KernelRegistrationReport> {
  const start = performance.now();
  const { registration, mode, seed } = job;
  const { device } = gateDevice.gpu;
  const phases = new PhaseReporter(gateDevice.calibration, (phase, load) => progress.phase(phase, load));
  const stages: Stage[] = [];
  let extraMembers: Partial<KernelRegistrationReport> = {};
  const runStage = async (name: StageName, work: () => Promise<readonly Finding[]>): Promise<boolean> => {
    progress.begin(name);
    const findings = await work();
    const finished = { stage: name, ok: !findings.some(({ severity }) => severity === 'error'), findings };
    stages.push(finished);
    progress.end(finished);
    return finished.ok;
  };
  const report = (): KernelRegistrationReport => ({
    kernel: registration.name,
    digest: kernelDigest(registration),
    accepted: stages.every(({ ok }) => ok),
    stages,
    ...extraMembers,
    seed,
    elapsed_ms: performance.now() - start,
  });

  const op = labOps.get(registration.op);
  if (!op) throw new Error(`unknown op '${registration.op}'`);
  const { contract } = op;

  await phases.measureLoad();
  let module: GPUShaderModule | undefined;
  const isParsed = await runStage('parse', async () => {
    const result = await phases.during('compile', () => parseStage(device, registration.source));
    module = result.module;
    return result.findings;
  });
  if (!isParsed || !module) return report();
  const reflection = reflect(registration.source);
  // The two stages are independent, so both run and the author gets all findings at once.
  const isInterfaceOk = await runStage('interface', async () =>
    checkInterface(registration, contract, reflection, device),
  );
  const isSafe = await runStage('safety', async () => checkSafety(reflection, contract));
  if (!isInterfaceOk || !isSafe) return report();

  const builder = new CandidateBuilder(device, { registration, contract, reflection, module });
  const gridFor = (overrides: Overrides) => {
    const values = overrideValues(reflection, { ...registration.overrides, ...overrides });
    const maxWorkgroups = device.limits.maxComputeWorkgroupsPerDimension;
    return (one: ParityCase) =>
      evaluateGrid(registration.dispatch, { ...values, ...one.dims }, maxWorkgroups);
  };
  const combinations: Combination[] = [];
  const isBuilt = await runStage('pipeline', async () => {
    const all = enumerateCombinations(registration.tunables ?? {});
    const results = await phases.during('compile', () =>
      Promise.all(all.map((overrides) => builder.build(overrides))),
    );
    const findings: Finding[] = [];
    for (const [index, { candidate, findings: buildFindings }] of results.entries()) {
      const overrides = all[index] as Overrides;
      if (candidate) combinations.push({ overrides, candidate, gridFor: gridFor(overrides) });
      findings.push(...buildFindings);
    }
    // Some tunable values can exceed a limit of the adapter; the others are enough.
    return combinations.length === 0 ? findings : findings.map(asWarning);
  });
  if (!isBuilt) return report();
  /** Runs cases with the checked build of a combination. */
  const runWithBoundsChecks = async (task: ParityTask, combination: Combination): Promise<ParityResult> => {
    const { candidate, overrides } = combination;
    const checked = await phases.during('compile', () => builder.buildWithBoundsChecks(candidate, overrides));
    const result = await checkParity(device, task, checked.candidate, combination.gridFor);
    return { ...result, findings: [...checked.findings, ...result.findings] };
  };
  if (mode === 'off') {
    extraMembers = { unverified: true };
    return report();
  }

  await runStage('parity', async () => {
    const toleranceFor = (format?: string) =>
      resolveTolerance(contract, format, { mode, tolerance_scale: job.toleranceScale });
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
    const { supported: cases, missing } = selectSupportedCases(
      contract,
      declaredParams(contract, reflection),
      all,
    );
    const references = new ReferenceCache(gateDevice, op);
    const first = combinations[0] as Combination;
    // Measured again, because compiling can take long.
    await phases.measureLoad();
    const biasScale = job.toleranceScale * (mode === 'strict' ? strictScale : 1);
    const task = { op, cases, toleranceFor, biasScale, seed, references, phases };
    const tuned =
      Object.keys(registration.tunables ?? {}).length > 0
        ? await tuneKernel(
            gateDevice,
            task,
            { combinations, defaults: defaultCombination(registration, reflection) },
            runWithBoundsChecks,
          )
        : undefined;
    const checked: readonly KeptCombination[] = tuned
      ? tuned.kept
      : [{ combination: first, result: await runWithBoundsChecks(task, first) }];
    // If no combination passes, the errors of the first one are reported for the kernel.
    const reported = checked.length > 0 || !tuned?.failed ? checked : [tuned.failed];
    extraMembers = {
      parity: worstVerdicts(reported),
      tolerance: { ...toleranceFor(cases[0]?.format), scale: job.toleranceScale, mode },
      ...(tuned ? { tuning: tuned.tuning } : {}),
    };
    const found = reported.map(({ combination, result }) => {
      const { overrides, gridFor: grid } = combination;
      const isCorrect = !result.findings.some(({ severity }) => severity === 'error');
      const elsewhere = isCorrect
        ? [
            ...findIrregularDispatch(contract, cases, grid),
            ...checkOtherMachines({
              contract,
              source: registration.source,
              entryPoint: registration.entry_point ?? 'main',
              overrides: { ...registration.overrides, ...overrides },
              cases,
              ownSize: gateDevice.gpu.caps.subgroupSize,
              invocationsPerWorkgroup: invocationsOf(reflection, registration, overrides),
              tokens: reflection.tokens.length,
              gridFor: grid,
              referenceOf: (one) => references.getReference(one),
              toleranceFor,
            }),
          ]
        : [];
      return { overrides, findings: [...result.findings, ...elsewhere] };
    });
    return [
      ...missing.map((name) => paramsEndEarlyFinding(contract, name)),
      ...(tuned ? findingsOfCombinations(found) : found.flatMap(({ findings }) => findings)),
      ...(tuned?.findings ?? []),
    ];
  });
  return report();
}

/** The verdict of each case with the largest error: kept combinations ran the same cases in the same order. */
const worstVerdicts = ([first, ...others]: readonly KeptCombination[]): readonly CaseVerdict[] =>
  (first?.result.verdicts ?? []).map((verdict, index) =>
    others
      .flatMap(({ result }) => result.verdicts[index] ?? [])
      .reduce((worst, one) => (one.nmse > worst.nmse ? one : worst), verdict),
  );

/** Invocations of a workgroup. */
function invocationsOf(
  reflection: Reflection,
  registration: GateJob['registration'],
  overrides: Overrides,
): number {
  const entry = reflection.entryPoints.find(({ name }) => name === (registration.entry_point ?? 'main'));
  if (!entry) return 1;
  return workgroupSize(reflection, entry, { ...registration.overrides, ...overrides }).reduce<number>(
    (product, size) => product * (size ?? 1),
    1,
  );
}

const paramsEndEarlyFinding = ({ op }: Contract, name: string): Finding => ({
  code: 'params_end_early',
  severity: 'info',
  message: `the params struct ends before ${name}: the kernel is neither checked nor bound where ${op} needs it`,
});

const asWarning = (finding: Finding): Finding =>
  finding.severity === 'error' ? { ...finding, severity: 'warning' } : finding;
