/** Token masks of constraints, and their upload to the GPU. */
import { maskWords } from '../../kernels/sample.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Sequence } from './sequence.ts';
import { isStale, type Share } from './share.ts';
import type { StepRunner } from './step-runner.ts';
import { EngineError } from './types.ts';

/**
 * Requests the mask for a sequence's next token from its constraint, and passes on the tokens sampled since the last
 * call. All earlier tokens must have been read back. The mask of a preempted sequence is requested only once.
 * @param vocabulary number of tokens that the model can sample
 * @returns [maskWords]; undefined when every token is allowed
 * @throws EngineError `constraint_failed`
 */
export function askConstraint(sequence: Sequence, vocabulary: number): Promise<Uint32Array | undefined> {
  const { answered, asked } = sequence;
  if (asked?.answered === answered) return asked.mask;
  const mask = ask(sequence, vocabulary);
  mask.catch(() => undefined); // awaited when the sampling is submitted
  sequence.asked = { answered, mask };
  return mask;
}

async function ask(sequence: Sequence, vocabulary: number): Promise<Uint32Array | undefined> {
  const { request, tokens, told, answered } = sequence;
  const accepted = tokens.slice(request.prompt.length + told);
  sequence.told = answered;
  let mask: Uint32Array | undefined;
  try {
    mask = await request.constraint?.next(accepted);
  } catch (error) {
    throw error instanceof EngineError ? error : broken(errorMessage(error), error);
  }
  if (mask === undefined) return undefined;
  const words = maskWords(vocabulary);
  if (mask.length !== words) {
    throw broken(
      `its mask has ${mask.length} words, but ${vocabulary} tokens need ${words}; it was made for another model`,
    );
  }
  if (allowsNothing(mask, vocabulary)) {
    throw new EngineError(
      'constraint_failed',
      `the grammar allows no token that the model can produce after ${answered} output tokens`,
    );
  }
  return mask;
}

const broken = (why: string, cause?: unknown): EngineError =>
  new EngineError('constraint_failed', `the output constraint failed: ${why}`, { cause });

function allowsNothing(mask: Uint32Array, vocabulary: number): boolean {
  const last = mask.length - 1;
  // Bits beyond the vocabulary have no meaning.
  const inLast = 0xffffffff >>> (mask.length * 32 - vocabulary);
  for (let word = 0; word < last; word++) if (mask[word] !== 0) return false;
  return ((mask[last] as number) & inLast) === 0;
}

/** Uploads the mask for a sample when its constraint provides it. Rejects like `requestMask`. */
export async function setMask(runner: StepRunner, share: Share): Promise<void> {
  const { sequence } = share;
  // A canceled sequence stops waiting.
  const mask = await sequence.unlessEnded(askConstraint(sequence, runner.graph.shape.vocabulary));
  if (!isStale(share)) runner.setMask(sequence.slot, mask);
}
