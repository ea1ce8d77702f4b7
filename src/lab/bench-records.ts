/** What is stored of a finished bench, and its row in a list. */
import type { BoundKernel } from './bindings.ts';
import { describeMachine } from './configs/machine.ts';
import type { BenchEvidence, BenchRecord, BenchRequest, BenchSummary } from './types.ts';

/** @param measured the bindings that the bench measured */
export function benchRecordOf(
  { result, rounds, at }: BenchEvidence,
  {
    mode = 'quick',
    model,
    version,
    measured,
  }: {
    readonly mode?: BenchRequest['mode'];
    readonly model: string;
    /** The version of the host. */
    readonly version: string;
    readonly measured: readonly BoundKernel[];
  },
): BenchRecord {
  const kernels = [...Map.groupBy(measured, ({ kernel }) => kernel.name)].map(([name, bindings]) => ({
    name,
    digest: bindings[0]?.digest ?? '',
    components: bindings.map(({ target }) => target),
  }));
  return { id: result.id, at, model, machine: describeMachine(version), mode, kernels, result, rounds };
}

export function summarizeBench({ id, at, model, machine, kernels, result }: BenchRecord): BenchSummary {
  const { baseline, bound, prefill, control, delta, verdict, rounds, effect, ratio_ci95: range } = result;
  const slots = Map.groupBy(
    result.components,
    (one) => `${one.id.replace(/^layers\.\d+\./, 'layers.*.')} ${one.kernel}`,
  );
  return {
    id,
    at,
    model,
    lathe: machine.lathe,
    adapter: result.fingerprint.adapter,
    kernels: kernels.map(({ name, digest }) => ({ name, digest })),
    verdict,
    rounds,
    effect,
    decode: {
      ratio: 1 + delta.decode,
      ci95: { low: range[0], high: range[1] },
      ...(control ? { control } : {}),
    },
    prefill: {
      ratio: prefill.ratio,
      ci95: prefill.ci95,
      control: prefill.control,
      verdict: prefill.verdict,
    },
    baseline_decode_tps: baseline.decode_tps,
    bound_decode_tps: bound.decode_tps,
    baseline_prefill_tps: baseline.prefill_tps,
    bound_prefill_tps: bound.prefill_tps,
    components: [...slots].map(([slot, members]) => ({
      slot: slot.split(' ')[0] ?? slot,
      kernel: members[0]?.kernel ?? '',
      gpu_ms: members.reduce((sum, one) => sum + one.gpu_ms, 0),
      // Without a time of its own in the baseline where a built-in kernel computes it together with others.
      ...(members.every((one) => one.baseline_ms !== undefined)
        ? { baseline_ms: members.reduce((sum, one) => sum + (one.baseline_ms ?? 0), 0) }
        : {}),
    })),
    is_complete: true,
  };
}
