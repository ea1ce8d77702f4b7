import { randomUUID } from 'node:crypto';
import type {
  BenchResult,
  KernelRegistrationReport,
  Lab,
  ParityMode,
  ParityRunResult,
} from '../lab/types.ts';
import type { Feed } from './feed.ts';
import { figure, type RowOf, worst } from './rows.ts';

export interface Observing {
  readonly feed: Pick<Feed, 'add'>;
  /** Id of the lab's model, as in `GET /v1/models`. */
  readonly model: string;
}

/** Wraps a lab so that every parity and bench result is added to the feed. */
export function observedLab(lab: Lab, { feed, model }: Observing): Lab {
  const head = () => ({ id: randomUUID(), at: new Date().toISOString(), model });
  return {
    graph: () => lab.graph(),
    parts: () => lab.parts(),
    ops: () => lab.ops(),
    stub: (op, target) => lab.stub(op, target),
    bind: (request) => lab.bind(request),
    unbind: () => lab.unbind(),
    get parityMode() {
      return lab.parityMode;
    },
    setParityMode: (mode) => lab.setParityMode(mode),
    validate: (request) => lab.validate(request),
    configNames: () => lab.configNames(),
    saveConfig: (name) => lab.saveConfig(name),
    config: (name) => lab.config(name),
    async register(registration, signal) {
      const { mode } = lab.parityMode;
      const report = await lab.register(registration, signal);
      feed.add('parity', { ...head(), ...verdict(report, mode), op: registration.op });
      return report;
    },
    async runParity(signal) {
      const begun = performance.now();
      const result = await lab.runParity(signal);
      feed.add('parity', { ...head(), ...comparison(result), elapsed_ms: performance.now() - begun });
      return result;
    },
    async bench(request, signal, onProgress) {
      const begun = performance.now();
      const result = await lab.bench(request, signal, onProgress);
      feed.add('bench', { ...head(), ...measured(result), elapsed_ms: performance.now() - begun });
      return result;
    },
  };
}

type Told<S extends 'parity' | 'bench', Rest extends string = never> = Omit<
  RowOf<S>,
  'id' | 'at' | 'model' | Rest
>;

function verdict(report: KernelRegistrationReport, mode: ParityMode['mode']): Told<'parity', 'op'> {
  const { parity: cases } = report;
  return {
    source: 'gate',
    kernel: report.kernel,
    digest: report.digest,
    mode: report.tolerance?.mode ?? mode,
    ok: report.accepted ? 1 : 0,
    failed_stage: report.stages.find(({ ok }) => !ok)?.stage ?? null,
    seed: figure(report.seed),
    ...figures(cases),
    kl: null,
    top1_agreement: null,
    elapsed_ms: figure(report.elapsed_ms),
  };
}

function comparison(result: ParityRunResult): Told<'parity', 'elapsed_ms'> {
  return {
    source: 'run',
    kernel: [...new Set(result.components.map(({ kernel }) => kernel))].join(','),
    op: null,
    digest: null,
    mode: result.mode,
    ok: result.ok ? 1 : 0,
    failed_stage: null,
    seed: result.seed,
    ...figures(result.components),
    kl: figure(result.logits.kl),
    top1_agreement: figure(result.logits.top1_agreement),
  };
}

interface Case {
  readonly ok: boolean;
  readonly nmse: number;
  readonly max_abs: number;
}

/** @param cases undefined when none was compared */
function figures(cases: readonly Case[] | undefined) {
  return {
    cases: figure(cases?.length),
    failed_cases: figure(cases?.filter(({ ok }) => !ok).length),
    nmse: worst(cases?.map(({ nmse }) => nmse) ?? []),
    max_abs: worst(cases?.map(({ max_abs }) => max_abs) ?? []),
  };
}

function measured({ baseline, bound, ...result }: BenchResult): Told<'bench', 'elapsed_ms'> {
  return {
    kernels: Object.keys(result.fingerprint.kernels).join(','),
    verdict: result.verdict,
    method: result.method,
    fingerprint: JSON.stringify(result.fingerprint),
    rounds: result.rounds,
    baseline_prefill_tps: figure(baseline.prefill_tps),
    baseline_decode_tps: figure(baseline.decode_tps),
    bound_prefill_tps: figure(bound.prefill_tps),
    bound_decode_tps: figure(bound.decode_tps),
    ratio_low: figure(result.ratio_ci95[0]),
    ratio_high: figure(result.ratio_ci95[1]),
  };
}
