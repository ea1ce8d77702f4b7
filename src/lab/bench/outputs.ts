/** Compares the outputs of both arms, after timing. */
import { randomTokens, type TimedPrompt } from './measure.ts';
import type { Arm, BenchPort } from './port.ts';
import { type Random, shuffled } from '../../util/random.ts';

/** Number of timed prompts that are verified. */
const verifiedPrompts = 8;
/** Number of tokens decoded at each timed context. */
const tokensPerContext = 8;
/** Positions of the cache to fill for that. Later positions contain data of earlier samples, the same for both arms. */
const maxFilled = 2048;

export interface Agreement {
  readonly same: number;
  readonly total: number;
}

export interface OutputCheck {
  /** Greedy tokens after one prompt and along one fixed text (teacher forcing), in both arms. */
  readonly teacherForced: Agreement;
  /** Tokens that the bound arm sampled after the timed prompts, compared with the baseline's. */
  readonly timedPrompts: Agreement;
  /** Single tokens that both arms decode at the timed contexts, with the same cache. */
  readonly contexts: readonly (Agreement & { readonly context: number })[];
}

/**
 * @param positions number of positions to compare, at most half of the context
 * @param contexts context lengths at which decode was timed
 */
export async function checkOutputs(
  port: BenchPort,
  prompts: readonly TimedPrompt[],
  {
    positions,
    contexts,
    random,
    signal,
  }: { positions: number; contexts: readonly number[]; random: Random; signal: AbortSignal },
): Promise<OutputCheck> {
  const prompt = randomTokens(Math.min(32, Math.max(1, port.maxContext - positions)), port, random);
  const text = randomTokens(Math.min(positions, port.maxContext - prompt.length), port, random);
  const greedy = async (arm: Arm): Promise<number[]> => {
    signal.throwIfAborted();
    const sampled = [(await port.prefill(arm, prompt)).token];
    for (const [index, token] of text.entries()) {
      signal.throwIfAborted();
      const { tokens } = await port.decode(arm, prompt.length + index, 1, token);
      sampled.push(tokens[0] ?? -1);
    }
    return sampled;
  };
  // The bound arm runs first: after the baseline, buffers and cache would already contain correct results.
  const bound = await greedy('bound');
  const baseline = await greedy('baseline');

  const sampledPrompts = shuffled(prompts, random).slice(0, verifiedPrompts);
  let same = 0;
  for (const { tokens, token } of sampledPrompts) {
    signal.throwIfAborted();
    if ((await port.prefill('baseline', tokens)).token === token) same += 1;
  }
  return {
    teacherForced: {
      same: bound.filter((token, index) => token === baseline[index]).length,
      total: bound.length,
    },
    timedPrompts: { same, total: sampledPrompts.length },
    // Not possible with a recurrent state: after one arm decodes a token, the state already contains it.
    contexts: port.hasRecurrentState ? [] : await compareDecodes(port, contexts, { random, signal }),
  };
}

async function compareDecodes(
  port: BenchPort,
  contexts: readonly number[],
  { random, signal }: { random: Random; signal: AbortSignal },
): Promise<OutputCheck['contexts']> {
  const filled = Math.min(maxFilled, Math.max(0, ...contexts));
  if (filled > 0) await port.prefill('baseline', randomTokens(filled, port, random));
  const results: (Agreement & { context: number })[] = [];
  for (const context of contexts) {
    let same = 0;
    for (const token of randomTokens(tokensPerContext, port, random)) {
      signal.throwIfAborted();
      const bound = await port.decode('bound', context, 1, token);
      const baseline = await port.decode('baseline', context, 1, token);
      if (bound.tokens[0] === baseline.tokens[0]) same += 1;
    }
    results.push({ context, same, total: tokensPerContext });
  }
  return results;
}

/** Correct kernels agree on nearly all tokens; rounding can change the result when two logits are almost equal. */
const warnBelow = 0.95;
const differsBelow = 0.75;
const timedDiffersBelow = 0.5;

/** `differs`: the arms disagree too often to compute the same function. */
export function judgeOutputs({ teacherForced, timedPrompts, contexts }: OutputCheck): {
  readonly differs: boolean;
  readonly warnings: readonly string[];
} {
  const warnings: string[] = [];
  const fractionOf = ({ same, total }: Agreement) => (total === 0 ? 1 : same / total);
  if (fractionOf(teacherForced) < warnBelow) {
    warnings.push(
      `outputs: the greedy tokens of the arms agree at ${teacherForced.same} of ${teacherForced.total} positions of a text`,
    );
  }
  // With few prompts, a single difference is not significant.
  if (timedPrompts.total - timedPrompts.same > 1) {
    warnings.push(
      `outputs: for ${timedPrompts.same} of ${timedPrompts.total} timed prompts, the greedy token of the bound kernels was correct`,
    );
  }
  for (const one of contexts) {
    // A single difference is not significant here either.
    if (one.total - one.same <= 1) continue;
    warnings.push(
      `outputs: at context ${one.context}, the greedy tokens of the arms agree ${one.same} of ${one.total} times`,
    );
  }
  const differs =
    fractionOf(teacherForced) < differsBelow ||
    fractionOf(timedPrompts) < timedDiffersBelow ||
    contexts.some((one) => fractionOf(one) < differsBelow);
  return { differs, warnings };
}
