import { randomUUID } from 'node:crypto';
import type {
  BenchResult,
  KernelRegistrationReport,
  Lab,
  ParityMode,
  ParityRunResult,
} from '../lab/types.ts';
import type { ObserveFeed } from './observe-feed.ts';
import { finiteOrNull, type SurfaceRow, maxOrNull } from './rows.ts';

export interface ObserveLabOptions {
  readonly feed: Pick<ObserveFeed, 'add'>;
  /** Id of the lab's model, as in `GET /v1/models`. */
  readonly model: string;
}

/** Wraps a lab so that every parity and bench result is added to the feed. */
export function observeLab(lab: Lab, { feed, model }: ObserveLabOptions): Lab {
  const newRowHeader = () => ({ id: randomUUID(), at: new Date().toISOString(), model });
  return {
    graph: () => lab.graph(),
    parts: () => lab.parts(),
    ops: () => lab.ops(),
    stub: (op, options) => lab.stub(op, options),
    kernel: (name) => lab.kernel(name),
    versions: (name) => lab.versions(name),
    version: (name, at) => lab.version(name, at),
    finishedBenches: () => lab.finishedBenches(),
    finishedBench: (id) => lab.finishedBench(id),
    deleteKernel: (name) => lab.deleteKernel(name),
    unbindSome: (glob) => lab.unbindSome(glob),
    importConfig: (request) => lab.importConfig(request),
    deleteConfig: (name) => lab.deleteConfig(name),
    profile: (request, signal) => lab.profile(request, signal),
    bind: (request, signal) => lab.bind(request, signal),
    unbind: () => lab.unbind(),
    get parityMode() {
      return lab.parityMode;
    },
    setParityMode: (mode) => lab.setParityMode(mode),
    validate: (request) => lab.validate(request),
    configNames: () => lab.configNames(),
    saveConfig: (name) => lab.saveConfig(name),
    config: (name) => lab.config(name),
    benches: () => lab.benches(),
    cancelBench: (id) => lab.cancelBench(id),
    async register(registration, signal) {
      const { mode } = lab.parityMode;
      const report = await lab.register(registration, signal);
      feed.add('parity', { ...newRowHeader(), ...registrationColumns(report, mode), op: registration.op });
      return report;
    },
    async runParity(signal) {
      const startMs = performance.now();
      const result = await lab.runParity(signal);
      feed.add('parity', {
        ...newRowHeader(),
        ...parityRunColumns(result),
        elapsed_ms: performance.now() - startMs,
      });
      return result;
    },
    async bench(request, signal, onProgress) {
      const startMs = performance.now();
      const result = await lab.bench(request, signal, onProgress);
      feed.add('bench', {
        ...newRowHeader(),
        ...benchColumns(result),
        elapsed_ms: performance.now() - startMs,
      });
      return result;
    },
  };
}

type RowColumns<S extends 'parity' | 'bench', Rest extends string = never> = Omit<
  SurfaceRow<S>,
  'id' | 'at' | 'model' | Rest
>;

function registrationColumns(
  report: KernelRegistrationReport,
  mode: ParityMode['mode'],
): RowColumns<'parity', 'op'> {
  const { parity: cases } = report;
  return {
    source: 'gate',
    kernel: report.kernel,
    digest: report.digest,
    mode: report.tolerance?.mode ?? mode,
    ok: report.accepted ? 1 : 0,
    failed_stage: report.stages.find(({ ok }) => !ok)?.stage ?? null,
    seed: finiteOrNull(report.seed),
    ...caseColumns(cases),
    kl: null,
    top1_agreement: null,
    elapsed_ms: finiteOrNull(report.elapsed_ms),
  };
}

function parityRunColumns(result: ParityRunResult): RowColumns<'parity', 'elapsed_ms'> {
  return {
    source: 'run',
    kernel: [...new Set(result.components.map(({ kernel }) => kernel))].join(','),
    op: null,
    digest: null,
    mode: result.mode,
    ok: result.ok ? 1 : 0,
    failed_stage: null,
    seed: result.seed,
    ...caseColumns(result.components),
    kl: finiteOrNull(result.logits.kl),
    top1_agreement: finiteOrNull(result.logits.top1_agreement),
  };
}

interface ParityCase {
  readonly ok: boolean;
  readonly nmse: number;
  readonly max_abs: number;
}

/** @param cases undefined when none was compared */
function caseColumns(cases: readonly ParityCase[] | undefined) {
  return {
    cases: finiteOrNull(cases?.length),
    failed_cases: finiteOrNull(cases?.filter(({ ok }) => !ok).length),
    nmse: maxOrNull(cases?.map(({ nmse }) => nmse) ?? []),
    max_abs: maxOrNull(cases?.map(({ max_abs }) => max_abs) ?? []),
  };
}

function benchColumns({ baseline, bound, ...result }: BenchResult): RowColumns<'bench', 'elapsed_ms'> {
  return {
    kernels: Object.keys(result.fingerprint.kernels).join(','),
    verdict: result.verdict,
    method: result.method,
    fingerprint: JSON.stringify(result.fingerprint),
    rounds: result.rounds,
    baseline_prefill_tps: finiteOrNull(baseline.prefill_tps),
    baseline_decode_tps: finiteOrNull(baseline.decode_tps),
    bound_prefill_tps: finiteOrNull(bound.prefill_tps),
    bound_decode_tps: finiteOrNull(bound.decode_tps),
    ratio_low: finiteOrNull(result.ratio_ci95[0]),
    ratio_high: finiteOrNull(result.ratio_ci95[1]),
  };
}
