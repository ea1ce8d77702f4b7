/** Compares the outputs of both arms, after timing. */
import { drawTokens, type TimedPrompt } from './measure.ts';
import type { Arm, BenchPort } from './port.ts';
import { type Random, shuffled } from './random.ts';

/** Number of timed prompts that are verified. */
const replayed = 8;
/** Number of tokens decoded at each timed context. */
const perContext = 8;
/** Positions of the cache to fill for that. Later positions contain data of earlier samples, the same for both arms. */
const mostFilled = 2048;

export interface Agreement {
  readonly same: number;
  readonly of: number;
}

export interface OutputCheck {
  /** Greedy tokens after one prompt and along one fixed text (teacher forcing), in both arms. */
  readonly text: Agreement;
  /** Tokens that the bound arm sampled after the timed prompts, compared with the baseline's. */
  readonly timed: Agreement;
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
  const prompt = drawTokens(Math.min(32, Math.max(1, port.maxContext - positions)), port, random);
  const text = drawTokens(Math.min(positions, port.maxContext - prompt.length), port, random);
  const greedy = async (arm: Arm): Promise<number[]> => {
    signal.throwIfAborted();
    const drawn = [(await port.prefill(arm, prompt)).token];
    for (const [index, token] of text.entries()) {
      signal.throwIfAborted();
      const { tokens } = await port.decode(arm, prompt.length + index, 1, token);
      drawn.push(tokens[0] ?? -1);
    }
    return drawn;
  };
  // The bound arm runs first: after the baseline, buffers and cache would already contain correct results.
  const bound = await greedy('bound');
  const baseline = await greedy('baseline');

  const again = shuffled(prompts, random).slice(0, replayed);
  let same = 0;
  for (const { tokens, token } of again) {
    signal.throwIfAborted();
    if ((await port.prefill('baseline', tokens)).token === token) same += 1;
  }
  return {
    text: { same: bound.filter((token, index) => token === baseline[index]).length, of: bound.length },
    timed: { same, of: again.length },
    // Not possible with a recurrent state: after one arm decodes a token, the state already contains it.
    contexts: port.keepsState ? [] : await decodedAt(port, contexts, { random, signal }),
  };
}

async function decodedAt(
  port: BenchPort,
  contexts: readonly number[],
  { random, signal }: { random: Random; signal: AbortSignal },
): Promise<OutputCheck['contexts']> {
  const filled = Math.min(mostFilled, Math.max(0, ...contexts));
  if (filled > 0) await port.prefill('baseline', drawTokens(filled, port, random));
  const found: (Agreement & { context: number })[] = [];
  for (const context of contexts) {
    let same = 0;
    for (const token of drawTokens(perContext, port, random)) {
      signal.throwIfAborted();
      const bound = await port.decode('bound', context, 1, token);
      const baseline = await port.decode('baseline', context, 1, token);
      if (bound.tokens[0] === baseline.tokens[0]) same += 1;
    }
    found.push({ context, same, of: perContext });
  }
  return found;
}

/** Correct kernels agree on nearly all tokens; rounding can change the result when two logits are almost equal. */
const nearlyAll = 0.95;
const most = 0.75;
const half = 0.5;

/** `differs`: the arms disagree too often to compute the same function. */
export function judgeOutputs({ text, timed, contexts }: OutputCheck): {
  readonly differs: boolean;
  readonly warnings: readonly string[];
} {
  const warnings: string[] = [];
  const part = ({ same, of }: Agreement) => (of === 0 ? 1 : same / of);
  if (part(text) < nearlyAll) {
    warnings.push(
      `outputs: the greedy tokens of the arms agree at ${text.same} of ${text.of} positions of a text`,
    );
  }
  // With few prompts, a single difference is not significant.
  if (timed.of - timed.same > 1) {
    warnings.push(
      `outputs: for ${timed.same} of ${timed.of} timed prompts, the greedy token of the bound kernels was correct`,
    );
  }
  for (const one of contexts) {
    // A single difference is not significant here either.
    if (one.of - one.same <= 1) continue;
    warnings.push(
      `outputs: at context ${one.context}, the greedy tokens of the arms agree ${one.same} of ${one.of} times`,
    );
  }
  const differs = part(text) < most || part(timed) < half || contexts.some((one) => part(one) < most);
  return { differs, warnings };
}
