/** How far the model drifts from itself with some kernels. */
import type { Runner, StepPlans } from '../../engine/index.ts';
import { ArmComparator, formatKl, type LogitsComparison } from '../bench/outputs.ts';
import { fillCache, randomTokens } from '../bench/fill-cache.ts';
import type { Agreement } from '../bench/measure.ts';
import { seededRandom } from '../../util/random.ts';
import { roundSignificant } from '../bench/components.ts';
import type { BindOutcome } from '../types.ts';
import { createBenchPort } from './bench-port.ts';

/** Tokens that both arms decode; each arm reads the keys and values that it wrote. */
const decodedTokens = 32;
/** Where decoding begins, so that attention has a context and a page ends on the way. */
const startPosition = 48;
/** Length of the compared prompt: not a multiple of any tile. */
const promptTokens = 45;
/** Requests wait for about this long at most while tokens are decoded. */
const maxPartMs = 500;

/** Smallest accepted fraction of positions with the same greedy token. */
const minAgreement = 0.75;

export interface Drift {
  /** Number of components that the kernels ran. */
  readonly components: number;
  /** Logits after prompts; undefined where all kernels run in single-token steps only. */
  readonly prefill: LogitsComparison | undefined;
  readonly decode: LogitsComparison;
  /** Sampled tokens; undefined where no kernel samples. */
  readonly sampled: Agreement | undefined;
}

interface DriftOptions {
  readonly seed: number;
  /** Whether a kernel runs in steps of several tokens as well. */
  readonly hasPrompts: boolean;
  /** Whether a kernel samples: logits do not depend on it. */
  readonly samples: boolean;
  readonly letOthersRun: () => Promise<boolean>;
  readonly signal: AbortSignal;
}

/** Decodes the same random tokens with the built-in kernels and with `plans`. The device must be free. */
export async function measureDrift(
  runner: Runner,
  plans: StepPlans,
  { seed, hasPrompts, samples, letOthersRun, signal }: DriftOptions,
): Promise<Omit<Drift, 'components'>> {
  const random = seededRandom(seed);
  const port = createBenchPort(runner, plans, { costOf: () => ({ flops: 0, bytes: 0 }), letOthersRun });
  const steps = Math.max(1, Math.min(decodedTokens, port.maxContext >> 1));
  const start = Math.min(startPosition, port.maxContext - steps);
  await fillCache(port, [start], { random, signal });
  const { ms } = await port.decode('baseline', start, [0]);
  const partTokens = Math.max(1, Math.min(steps, Math.floor(maxPartMs / ms)));
  const comparator = new ArmComparator(port, { random, signal, partTokens });
  const decode = await comparator.decode(start, steps);
  const prefill = hasPrompts ? await comparator.prefill(Math.min(promptTokens, port.maxContext)) : undefined;
  let sampled: Agreement | undefined;
  if (samples) {
    const tokens = randomTokens(partTokens, port, random);
    const bound = await port.decode('bound', start, tokens);
    const baseline = await port.decode('baseline', start, tokens);
    const same = bound.tokens.filter((token, n) => token === baseline.tokens[n]).length;
    sampled = { same, total: partTokens };
  }
  return { prefill, decode, sampled };
}

export function summarizeDrift({ components, prefill, decode }: Drift): NonNullable<BindOutcome['drift']> {
  const all = [decode, ...(prefill ? [prefill] : [])];
  const sum = (count: (one: LogitsComparison) => number) => all.reduce((total, one) => total + count(one), 0);
  const positions = sum(({ total }) => total);
  return {
    components,
    positions,
    mean_kl: roundSignificant(sum(({ meanKl, total }) => meanKl * total) / positions),
    worst_kl: roundSignificant(Math.max(...all.map(({ worstKl }) => worstKl))),
    top1_agreement: sum(({ same }) => same) / positions,
  };
}

/**
 * What the model computes otherwise with some kernels; undefined when it computes the same.
 * @param maxMeanKl largest accepted mean KL divergence, in nats
 */
export function describeExcessiveDrift(
  { prefill, decode, sampled }: Omit<Drift, 'components'>,
  maxMeanKl: number,
): string | undefined {
  const limit = Number(maxMeanKl.toPrecision(3));
  const excesses = [
    [`after ${decode.total} decoded tokens`, decode] as const,
    ...(prefill ? [[`after prompts`, prefill] as const] : []),
  ].flatMap(([where, { meanKl, worstKl, same, total }]) =>
    meanKl <= limit && same >= minAgreement * total
      ? []
      : [
          `${where}, the logits differ by ${formatKl(meanKl)} nats (worst ${formatKl(worstKl)}, at most ` +
            `${limit} on average), and ${same} of ${total} greedy tokens are those of the built-in kernels`,
        ],
  );
  if (sampled && sampled.same < sampled.total)
    excesses.push(`${sampled.same} of ${sampled.total} sampled tokens are those of the built-in kernels`);
  return excesses.length === 0 ? undefined : excesses.join('; ');
}
