/** Compares the times of both arms with the peak rates of the adapter. */
import type { BenchResult } from '../types.ts';
import { componentTable, tooFast, traceArms, type TracedArms, workOf } from './components.ts';
import type { Measured } from './measure.ts';
import type { BenchPort } from './port.ts';
import type { Random } from './random.ts';
import { beatsRoof, type Peaks, roofMs } from './roofline.ts';
import { median } from './statistics.ts';

export interface Roofs {
  readonly table: BenchResult['components'];
  /** For each cell: whether the bound arm was faster than the peaks allow. */
  readonly beaten: readonly boolean[];
  /** Whether a single component was faster than the peaks allow. */
  readonly beatenByComponent: boolean;
  readonly warnings: readonly string[];
}

export async function compareWithRoofs(
  port: BenchPort,
  { cells, newTokens }: Measured,
  options: { traces: number; peaks: Peaks; random: Random; signal: AbortSignal },
): Promise<Roofs> {
  const { traces, peaks, random, signal } = options;
  if (!port.timestamps) {
    const warning =
      'this adapter has no timestamp queries: components are not timed, and no time is compared with the peaks';
    return { table: [], beaten: [], beatenByComponent: false, warnings: [warning] };
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
        ? [newTokens, tokenRoof(traced.get(cell.context), peaks)]
        : [1, promptRoof(cell.tokens, traced, peaks)];
    const [baselineMs, boundMs] = [times.baseline, times.bound].map((one) => median(one) / unit) as [
      number,
      number,
    ];
    const is = beatsRoof(boundMs, roof, baselineMs);
    const name = cell.kind === 'decode' ? `decode at ${cell.context}` : 'prefill';
    if (is) warnings.push(`${name}: the bound kernels are faster than the adapter's measured peaks allow`);
    return is;
  });
  const arms = middle === undefined ? undefined : traced.get(middle);
  const components = arms ? tooFast(arms, peaks) : [];
  if (components.length > 0) {
    const [first, ...others] = components;
    const more = others.length > 0 ? ` and ${others.length} more` : '';
    warnings.push(`${first}${more}: faster than the adapter's measured peaks allow`);
  }
  return {
    table: arms ? componentTable(arms, peaks) : [],
    beaten,
    beatenByComponent: components.length > 0,
    warnings,
  };
}

const tokenRoof = (arms: TracedArms | undefined, peaks: Peaks): number =>
  arms ? roofMs(workOf(arms.bound), peaks) : 0;

/**
 * Minimum time of a prompt, from the work of the layers for one token at a small context; weights are read at least
 * once. 0 when no traced context is small enough.
 */
function promptRoof(tokens: number, traced: ReadonlyMap<number, TracedArms>, peaks: Peaks): number {
  const [context, arms] = traced.entries().next().value ?? [];
  if (context === undefined || arms === undefined || context > tokens / 2) return 0;
  const { flops, bytes } = workOf(arms.bound.filter(({ id }) => id.startsWith('layers.')));
  return roofMs({ flops: flops * tokens, bytes }, peaks);
}
