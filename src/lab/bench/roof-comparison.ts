/** Compares the times of both arms with the peak rates of the adapter. */
import type { BenchResult } from '../types.ts';
import { componentTable, componentsBeyondRoof, traceArms, type TracedArms, totalCost } from './components.ts';
import type { Measurement } from './measure.ts';
import type { BenchPort } from './port.ts';
import type { Random } from '../../util/random.ts';
import { exceedsRoof, type AdapterPeaks, minimumMs } from './roofline.ts';
import { median } from './statistics.ts';

export interface RoofComparison {
  readonly table: BenchResult['components'];
  /** For each cell: whether the bound arm was faster than the peaks allow. */
  readonly beaten: readonly boolean[];
  /** Whether a single component was faster than the peaks allow. */
  readonly isComponentBeaten: boolean;
  readonly warnings: readonly string[];
}

export async function compareWithRoofs(
  port: BenchPort,
  { cells, newTokens }: Measurement,
  options: { traces: number; peaks: AdapterPeaks; random: Random; signal: AbortSignal },
): Promise<RoofComparison> {
  const { traces, peaks, random, signal } = options;
  if (!port.hasTimestamps) {
    const warning =
      'this adapter has no timestamp queries: components are not timed, and no time is compared with the peaks';
    return { table: [], beaten: [], isComponentBeaten: false, warnings: [warning] };
  }
  const contexts = cells.flatMap(({ cell }) => (cell.kind === 'decode' ? [cell.context] : []));
  const middle = contexts[contexts.length >> 1];
  const traced = new Map<number, TracedArms>();
  for (const context of contexts) {
    // The work depends on the context. The times in the report are those of the middle context.
    const times = context === middle ? traces : 1;
    traced.set(context, await traceArms(port, context, { times, random, signal }));
  }
  const warnings: string[] = [];
  const beaten = cells.map(({ cell, times }) => {
    const [unit, roof] =
      cell.kind === 'decode'
        ? [newTokens, tokenMinimumMs(traced.get(cell.context), peaks)]
        : [1, promptMinimumMs(cell.tokens, traced, peaks)];
    const [baselineMs, boundMs] = [times.baseline, times.bound].map((one) => median(one) / unit) as [
      number,
      number,
    ];
    const isBeaten = exceedsRoof(boundMs, roof, baselineMs);
    const name = cell.kind === 'decode' ? `decode at ${cell.context}` : 'prefill';
    if (isBeaten)
      warnings.push(`${name}: the bound kernels are faster than the adapter's measured peaks allow`);
    return isBeaten;
  });
  const arms = middle === undefined ? undefined : traced.get(middle);
  const components = arms ? componentsBeyondRoof(arms, peaks) : [];
  if (components.length > 0) {
    const [first, ...others] = components;
    const more = others.length > 0 ? ` and ${others.length} more` : '';
    warnings.push(`${first}${more}: faster than the adapter's measured peaks allow`);
  }
  return {
    table: arms ? componentTable(arms, peaks, port.isSoftware) : [],
    beaten,
    isComponentBeaten: components.length > 0,
    warnings,
  };
}

const tokenMinimumMs = (arms: TracedArms | undefined, peaks: AdapterPeaks): number =>
  arms ? minimumMs(totalCost(arms.bound), peaks) : 0;

/**
 * Minimum time of a prompt, from the work of the layers for one token at a small context; weights are read at least
 * once. 0 when no traced context is small enough.
 */
function promptMinimumMs(
  tokens: number,
  traced: ReadonlyMap<number, TracedArms>,
  peaks: AdapterPeaks,
): number {
  const [context, arms] = traced.entries().next().value ?? [];
  if (context === undefined || arms === undefined || context > tokens / 2) return 0;
  const { flops, bytes } = totalCost(arms.bound.filter(({ id }) => id.startsWith('layers.')));
  return minimumMs({ flops: flops * tokens, bytes }, peaks);
}
