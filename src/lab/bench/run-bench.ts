import type { BenchProgress, BenchRequest, BenchResult, Compared, Fingerprint } from '../types.ts';
import { rounded } from './components.ts';
import { planEffort } from './effort.ts';
import { measure, type Measured } from './measure.ts';
import { checkOutputs, judgeOutputs } from './outputs.ts';
import type { BenchPort } from './port.ts';
import { seededRandom } from './random.ts';
import type { Peaks } from './roofline.ts';
import { compareWithRoofs } from './roofs.ts';
import { driftOf, type Estimate, estimateRatio, median, type PairedTimes } from './statistics.ts';
import { decide, leastRounds } from './verdict.ts';

export interface BenchOptions {
  /** Seed of the inputs and of the sample order. */
  readonly seed: number;
  /** Checked between samples; its reason is thrown. */
  readonly signal: AbortSignal;
  readonly peaks: Peaks;
  readonly fingerprint: Fingerprint;
  readonly onProgress?: (progress: BenchProgress) => void;
}

/** Measures the bound kernels against the built-in kernels: timed rounds of all arms, then a comparison of outputs. */
export async function runBench(
  port: BenchPort,
  request: BenchRequest,
  { seed, signal, peaks, fingerprint, onProgress = () => {} }: BenchOptions,
): Promise<BenchResult> {
  const random = seededRandom(seed);
  const { effort, warnings: misfits } = planEffort(request, port);
  onProgress({ stage: 'warm_up' });
  const measured = await measure(port, effort, { random, signal, onRound: onProgress });
  onProgress({ stage: 'outputs' });
  const checked = await checkOutputs(port, measured.prompts, {
    positions: effort.checks,
    contexts: effort.contexts,
    random,
    signal,
  });
  const outputs = judgeOutputs(checked);
  onProgress({ stage: 'components' });
  const roofs = await compareWithRoofs(port, measured, { traces: effort.traces, peaks, random, signal });

  const { rounds, newTokens } = measured;
  const times = measured.cells.map((one) => one.times);
  const compare = (series: readonly PairedTimes[], beaten: boolean): Compared => {
    const { control, ...bound } = estimateRatio(series, random);
    const verdict = decide({ ...bound, control }, { rounds, doubted: beaten || outputs.differs });
    return { ...written(bound), control: written(control), verdict };
  };
  const [prefill, ...decode] = times.map((one, cell) => compare([one], roofs.beaten[cell] ?? false));
  const [ofPrompt, ...ofDecode] = times;
  if (!prefill || !ofPrompt) throw new Error('the bench measured no prompt');
  const beaten = roofs.beatenByComponent || roofs.beaten.slice(1).includes(true);
  const [only] = decode;
  // With one context, reuse its result: resampling again would give a slightly different interval.
  const together = decode.length === 1 && only && !beaten ? only : compare(ofDecode, beaten);

  const speeds = (arm: 'baseline' | 'bound') => ({
    prefill_tps: perSecond(arm, [ofPrompt], effort.promptTokens),
    decode_tps: perSecond(arm, ofDecode, newTokens),
  });
  return {
    baseline: speeds('baseline'),
    bound: speeds('bound'),
    delta: { prefill: decimals(prefill.ratio - 1), decode: decimals(together.ratio - 1) },
    ratio_ci95: [together.ci95.low, together.ci95.high],
    verdict: together.verdict,
    rounds,
    method:
      `${rounds} rounds after a warm-up. Each round times built-in kernels, bound kernels and built-in kernels again, ` +
      `in random order and with the same random tokens, for a prompt of ${effort.promptTokens} tokens and at every ` +
      `context (${newTokens} decoded tokens). Ratios are medians over rounds, with 95% bootstrap intervals over rounds; ` +
      `seed ${seed}.`,
    prefill: { prompt_tokens: effort.promptTokens, ...prefill },
    decode: decode.map((one, index) => ({
      context: effort.contexts[index] ?? 0,
      baseline_tps: perSecond('baseline', ofDecode.slice(index, index + 1), newTokens),
      bound_tps: perSecond('bound', ofDecode.slice(index, index + 1), newTokens),
      ...one,
    })),
    components: roofs.table,
    peaks: {
      gbps: rounded(peaks.gbps),
      cached_gbps: rounded(peaks.cachedGbps),
      gflops: rounded(peaks.gflops),
    },
    warnings: [...misfits, ...warningsOf(measured, together), ...outputs.warnings, ...roofs.warnings],
    fingerprint,
  };
}

const decimals = (value: number): number => Number(value.toFixed(5));

const written = ({ ratio, ci95 }: Estimate): Estimate => ({
  ratio: decimals(ratio),
  ci95: { low: decimals(ci95.low), high: decimals(ci95.high) },
});

/** Tokens per second over all measurements; `tokens` is the number of tokens in each sample. */
function perSecond(arm: 'baseline' | 'bound', series: readonly PairedTimes[], tokens: number): number {
  const ms = series.map((one) => median(arm === 'bound' ? one.bound : [...one.baseline, ...one.control]));
  return rounded((1000 * tokens * series.length) / ms.reduce((sum, one) => sum + one, 0));
}

/** A drift above this, from the first round to the last, causes a warning. */
const leastDrift = 0.05;
/** Half-width of the control interval above which noise hides small effects. */
const tooNoisy = 0.05;

function warningsOf({ cells, rounds, settled }: Measured, together: Compared): string[] {
  const warnings: string[] = [];
  if (rounds < leastRounds)
    warnings.push(
      `${rounds} rounds are not enough to distinguish a difference from chance: at least ${leastRounds} are needed`,
    );
  const series = (role: keyof PairedTimes) =>
    Array.from({ length: rounds }, (_, round) =>
      cells.reduce((sum, { times }) => sum + (times[role][round] ?? 0), 0),
    );
  const [baseline, bound, control] = [series('baseline'), series('bound'), series('control')];
  const built = baseline.map((ms, round) => ms + (control[round] ?? 0));
  const machine = driftOf(built);
  if (machine.significant && Math.abs(machine.change) > leastDrift)
    warnings.push(
      `drift: from the first round to the last, the built-in kernels became ${percent(Math.abs(machine.change))} ` +
        `${machine.change > 0 ? 'slower' : 'faster'}; ratios are not affected, tokens/s are`,
    );
  const difference = driftOf(built.map((ms, round) => ms / (2 * (bound[round] ?? ms))));
  if (difference.significant && Math.abs(difference.change) > leastDrift)
    warnings.push(
      `drift: the bound kernels' lead changed by ${percent(difference.change)} from the first round to the last: ` +
        'throttling, or results that are cached between rounds',
    );
  const { low, high } = together.control.ci95;
  const noise = Math.log(high / low) / 2;
  if (noise > tooNoisy)
    warnings.push(
      `noise: two runs of the built-in kernels differ by up to ${percent(noise)}, which hides smaller effects. ` +
        'Use more rounds or a less busy machine',
    );
  // Not reported in addition to noise.
  else if (!settled)
    warnings.push('the warm-up did not settle: times still changed by more than 5% between rounds');
  return warnings;
}

const percent = (part: number): string => `${(part * 100).toFixed(1)}%`;
