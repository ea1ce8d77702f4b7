/** Whether both arms say the same, looked at after timing. */
import { drawTokens, type TimedPrompt } from './measure.ts';
import type { Arm, BenchPort } from './port.ts';
import { type Random, shuffled } from './random.ts';

/** Timed prompts that are computed again. */
const replayed = 8;
/** Tokens decoded at each of the timed contexts. */
const perContext = 8;
/** Of a cache for that: beyond, it holds what earlier samples left, the same for both arms. */
const mostFilled = 2048;

export interface Agreement {
  readonly same: number;
  readonly of: number;
}

export interface OutputCheck {
  /** Greedy tokens behind one prompt and along one text, the same for both arms whatever they draw. */
  readonly text: Agreement;
  /** What the bound arm drew behind the very prompts that were timed, against the baseline's token. */
  readonly timed: Agreement;
  /** Single tokens decoded by both arms where decode was timed, over the same cache. */
  readonly contexts: readonly (Agreement & { readonly context: number })[];
}

/**
 * @param positions tokens to compare at; half of the context holds them
 * @param contexts where decode was timed
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
  // The bound arm first: behind the baseline, buffers and cache would hold the right results already.
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
    // A state has taken up the token that the other arm is to decode; the text began anew in each of them.
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

/** Equal kernels agree on nearly all tokens; rounding tips a near tie now and then. */
const nearlyAll = 0.95;
const most = 0.75;
const half = 0.5;

/** `differs`: so often that the arms cannot be said to compute the same. */
export function judgeOutputs({ text, timed, contexts }: OutputCheck): {
  readonly differs: boolean;
  readonly warnings: readonly string[];
} {
  const warnings: string[] = [];
  const part = ({ same, of }: Agreement) => (of === 0 ? 1 : same / of);
  if (part(text) < nearlyAll) {
    warnings.push(
      `outputs: the arms' greedy tokens agree at ${text.same} of ${text.of} positions of one text after timing`,
    );
  }
  // Few prompts: one that tips says nothing.
  if (timed.of - timed.same > 1) {
    warnings.push(
      `outputs: of ${timed.of} prompts that were timed, the bound kernels' greedy token was right behind ${timed.same}`,
    );
  }
  for (const one of contexts) {
    // One that tips says nothing here either.
    if (one.of - one.same <= 1) continue;
    warnings.push(
      `outputs: decoding at context ${one.context}, the arms' greedy tokens agree ${one.same} of ${one.of} times`,
    );
  }
  const differs = part(text) < most || part(timed) < half || contexts.some((one) => part(one) < most);
  return { differs, warnings };
}
