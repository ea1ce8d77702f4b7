import type {
  BenchBudget,
  BenchVerdict,
  BenchProgress,
  BenchRequest,
  BenchResult,
  Comparison,
  Fingerprint,
} from '../types.ts';
import { roundSignificant } from './components.ts';
import { type BenchEffort, planEffort } from './effort.ts';
import { measureRounds, type Measurement } from './measure.ts';
import { fillCache } from './fill-cache.ts';
import { checkOutputs, judgeOutputs, type OutputCheck } from './outputs.ts';
import type { BenchPort } from './port.ts';
import { seededRandom } from '../../util/random.ts';
import type { AdapterPeaks } from './roofline.ts';
import { compareWithRoofs } from './roof-comparison.ts';
import { estimateDrift, type Estimate, estimateRatio, median, type PairedTimes } from './statistics.ts';
import { decideVerdict, minRounds } from './verdict.ts';

export interface BenchOptions {
  /** Seed of the inputs and of the sample order. */
  readonly seed: number;
  /** Checked between samples; its reason is thrown. */
  readonly signal: AbortSignal;
  readonly peaks: AdapterPeaks;
  readonly fingerprint: Fingerprint;
  /** Lab kernels that run in both arms. */
  readonly beside?: readonly string[];
  readonly onProgress?: (progress: BenchProgress) => void;
}

/** Measures bound kernels against the baseline, which is the built-in kernels and those beside: timed rounds of all arms, then a comparison of outputs. */
export async function runBench(
  port: BenchPort,
  request: BenchRequest,
  { seed, signal, peaks, fingerprint, beside = [], onProgress = () => {} }: BenchOptions,
): Promise<Omit<BenchResult, 'id'>> {
  const random = seededRandom(seed);
  const { effort, warnings: effortWarnings } = planEffort(request, port);
  const budget: BenchBudget = {
    prompt_tokens: effort.promptTokens,
    contexts: effort.contexts,
    new_tokens: effort.newTokens,
    rounds: effort.rounds,
    ms: effort.budgetMs,
    max_ms: effort.maxBudgetMs,
  };
  onProgress({ stage: 'warm_up', budget });
  await fillCache(port, effort.contexts, { random, signal });
  const measured = await measureRounds(port, effort, { random, signal, onRound: onProgress });
  onProgress({ stage: 'outputs' });
  const outputCheck = await checkOutputs(port, measured, {
    positions: effort.comparedPositions,
    random,
    signal,
  });
  const outputJudgment = judgeOutputs(outputCheck);
  onProgress({ stage: 'components' });
  const roofs = await compareWithRoofs(port, measured, { traces: effort.traces, peaks, random, signal });

  const { rounds, newTokens } = measured;
  // Shorter than planned where a sample would have taken too long.
  const promptTokens = Math.max(
    ...measured.cells.map(({ cell }) => (cell.kind === 'prefill' ? cell.tokens : 0)),
  );
  const times = measured.cells.map((one) => one.times);
  const compare = (series: readonly PairedTimes[], beaten: boolean): Comparison => {
    const { control, ...bound } = estimateRatio(series, random);
    const verdict = decideVerdict(
      { ...bound, control },
      { rounds, isDoubtful: beaten || outputJudgment.differs, effect: effort.effect },
    );
    return { ...roundEstimate(bound), control: roundEstimate(control), verdict };
  };
  const [prefill, ...decode] = times.map((one, cell) => compare([one], roofs.beaten[cell] ?? false));
  const [prefillTimes, ...decodeTimes] = times;
  if (!prefill || !prefillTimes) throw new Error('the bench measured no prompt');
  const beaten = roofs.isComponentBeaten || roofs.beaten.slice(1).includes(true);
  const [onlyContext] = decode;
  // With one context, reuse its result: resampling again would give a slightly different interval.
  const allContexts =
    decode.length === 1 && onlyContext && !beaten ? onlyContext : compare(decodeTimes, beaten);
  const overallDecode = { ...allContexts, verdict: verdictOfAll(allContexts.verdict, decode) };

  const speeds = (arm: 'baseline' | 'bound') => ({
    prefill_tps: tokensPerSecond(arm, [prefillTimes], promptTokens),
    decode_tps: tokensPerSecond(arm, decodeTimes, newTokens),
  });
  const baselineText = ['built-in kernels', ...beside].join(' and ');
  const boundText = beside.length === 0 ? 'bound kernels' : 'all bound kernels';
  return {
    effect: effort.effect,
    budget,
    ...(beside.length === 0 ? {} : { beside }),
    baseline: speeds('baseline'),
    bound: speeds('bound'),
    delta: {
      prefill: roundTo5Decimals(prefill.ratio - 1),
      decode: roundTo5Decimals(overallDecode.ratio - 1),
    },
    ratio_ci95: [overallDecode.ci95.low, overallDecode.ci95.high],
    control: overallDecode.control,
    verdict: overallDecode.verdict,
    rounds,
    method:
      `${rounds} rounds after a warm-up. Each round times ${baselineText}, ${boundText}, and the former again, ` +
      `in random order and with the same random tokens, for a prompt of ${promptTokens} tokens and at every ` +
      `context (${newTokens} decoded tokens), and compares their greedy tokens. Ratios are medians over rounds, with 95% ` +
      `bootstrap intervals over rounds. Then the logits of both arms are compared on inputs of the same sizes; seed ${seed}.`,
    prefill: { prompt_tokens: promptTokens, ...prefill, outputs: outputsOf(outputCheck, 0) },
    decode: decode.map((one, index) => ({
      context: effort.contexts[index] ?? 0,
      baseline_tps: tokensPerSecond('baseline', decodeTimes.slice(index, index + 1), newTokens),
      bound_tps: tokensPerSecond('bound', decodeTimes.slice(index, index + 1), newTokens),
      ...one,
      outputs: outputsOf(outputCheck, index + 1),
    })),
    components: roofs.table,
    peaks: {
      gbps: roundSignificant(peaks.gbps),
      cached_gbps: roundSignificant(peaks.cachedGbps),
      gflops: roundSignificant(peaks.gflops),
    },
    warnings: [
      ...effortWarnings,
      ...warningsOf(measured, effort, overallDecode),
      ...disagreementOf(decode, effort.contexts),
      ...outputJudgment.warnings,
      ...roofs.warnings,
    ],
    fingerprint,
  };
}

/** A verdict over all contexts that one of them contradicts is none. */
const verdictOfAll = (overall: BenchVerdict, rows: readonly Comparison[]): BenchVerdict => {
  const opposite = overall === 'faster' ? 'slower' : overall === 'slower' ? 'faster' : undefined;
  return rows.some(({ verdict }) => verdict === opposite) ? 'inconclusive' : overall;
};

/** Contexts with different verdicts, for which one over all of them does not speak. */
function disagreementOf(rows: readonly Comparison[], contexts: readonly number[]): string[] {
  const decided = rows.flatMap(({ verdict, ratio }, index) =>
    verdict === 'faster' || verdict === 'slower'
      ? [`${verdict} at ${contexts[index]} (${formatPercent(ratio - 1)})`]
      : [],
  );
  const verdicts = new Set(rows.map(({ verdict }) => verdict));
  return verdicts.size > 1 && decided.length > 0
    ? [`contexts differ: ${decided.join(', ')}; the verdict over all contexts does not describe each`]
    : [];
}

const outputsOf = ({ cells }: OutputCheck, index: number): BenchResult['prefill']['outputs'] => {
  const { agreement, logits } = cells[index] as OutputCheck['cells'][number];
  return {
    timed_tokens: agreement.total,
    timed_same: agreement.same,
    mean_kl: roundSignificant(logits.meanKl),
    worst_kl: roundSignificant(logits.worstKl),
  };
};

const roundTo5Decimals = (value: number): number => Number(value.toFixed(5));

const roundEstimate = ({ ratio, ci95 }: Estimate): Estimate => ({
  ratio: roundTo5Decimals(ratio),
  ci95: { low: roundTo5Decimals(ci95.low), high: roundTo5Decimals(ci95.high) },
});

/** Tokens per second over all measurements; `tokens` is the number of tokens in each sample. */
function tokensPerSecond(arm: 'baseline' | 'bound', series: readonly PairedTimes[], tokens: number): number {
  const ms = series.map((one) => median(arm === 'bound' ? one.bound : [...one.baseline, ...one.control]));
  return roundSignificant((1000 * tokens * series.length) / ms.reduce((sum, one) => sum + one, 0));
}

/** A drift above this, from the first round to the last, causes a warning. */
const minDrift = 0.05;
/** Half-width of the interval above which noise hides small effects. */
const maxNoise = 0.05;

function warningsOf(
  { cells, rounds, isSettled }: Measurement,
  { rounds: planned, areRoundsFixed, maxBudgetMs }: BenchEffort,
  overallDecode: Comparison,
): string[] {
  const warnings: string[] = [];
  if (areRoundsFixed && rounds < planned.most)
    warnings.push(`budget: ${rounds} of ${planned.most} rounds were measured within ${maxBudgetMs / 1000} s`);
  if (rounds < minRounds)
    warnings.push(
      rounds === 1
        ? `one round gives no interval, both of its ends are the ratio: at least ${minRounds} rounds are needed`
        : `${rounds} rounds are not enough to distinguish a difference from chance: at least ${minRounds} are needed`,
    );
  const series = (role: keyof PairedTimes) =>
    Array.from({ length: rounds }, (_, round) =>
      cells.reduce((sum, { times }) => sum + (times[role][round] ?? 0), 0),
    );
  const [baseline, bound, control] = [series('baseline'), series('bound'), series('control')];
  const builtinMs = baseline.map((ms, round) => ms + (control[round] ?? 0));
  const machineDrift = estimateDrift(builtinMs);
  if (machineDrift.isSignificant && Math.abs(machineDrift.change) > minDrift)
    warnings.push(
      `drift: from the first round to the last, the baseline became ${formatPercent(Math.abs(machineDrift.change))} ` +
        `${machineDrift.change > 0 ? 'slower' : 'faster'}; ratios are not affected, tokens/s are`,
    );
  const leadDrift = estimateDrift(builtinMs.map((ms, round) => ms / (2 * (bound[round] ?? ms))));
  if (leadDrift.isSignificant && Math.abs(leadDrift.change) > minDrift)
    warnings.push(
      `drift: the bound kernels' lead changed by ${formatPercent(leadDrift.change)} from the first round to the last: ` +
        'throttling, or results that are cached between rounds',
    );
  const { low, high } = overallDecode.ci95;
  const noise = Math.log(high / low) / 2;
  if (noise > maxNoise)
    warnings.push(
      `noise: the ratio is known to ${formatPercent(noise)} only, and smaller effects are not seen. ` +
        'Use more rounds or a less busy machine',
    );
  // Not reported in addition to noise.
  else if (!isSettled)
    warnings.push('the warm-up did not settle: times still changed by more than 5% between rounds');
  return warnings;
}

const formatPercent = (fraction: number): string => `${(fraction * 100).toFixed(1)}%`;
