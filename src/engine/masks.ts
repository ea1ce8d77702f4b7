/** What constraints allow next, as the GPU is given it. */
import { maskWords } from '../../kernels/sample.ts';
import { errorMessage } from '../util/error-message.ts';
import type { Sequence } from './sequence.ts';
import { isStale, type Share } from './share.ts';
import type { StepRunner } from './step-runner.ts';
import { EngineError } from './types.ts';

/**
 * Asks a sequence's constraint what may follow, and tells it what was drawn since it was asked last. All tokens before
 * the one to be drawn must have been read back. Who gave its place back meanwhile is not asked twice.
 * @param vocabulary tokens that the model can draw
 * @returns [maskWords]; undefined: any. Rejects with EngineError `constraint_failed`
 */
export function askConstraint(sequence: Sequence, vocabulary: number): Promise<Uint32Array | undefined> {
  const { answered, asked } = sequence;
  if (asked?.answered === answered) return asked.mask;
  const mask = ask(sequence, vocabulary);
  mask.catch(() => undefined); // it is awaited when the sampling is submitted
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
      `its mask has ${mask.length} words, where ${vocabulary} tokens take ${words}; it was made for another model`,
    );
  }
  if (allowsNothing(mask, vocabulary)) {
    throw new EngineError(
      'constraint_failed',
      `the grammar allows nothing that the model can write after ${answered} tokens of the answer`,
    );
  }
  return mask;
}

const broken = (why: string, cause?: unknown): EngineError =>
  new EngineError('constraint_failed', `the constraint of the answer failed: ${why}`, { cause });

function allowsNothing(mask: Uint32Array, vocabulary: number): boolean {
  const last = mask.length - 1;
  // Bits past the vocabulary stand for nothing.
  const inLast = 0xffffffff >>> (mask.length * 32 - vocabulary);
  for (let word = 0; word < last; word++) if (mask[word] !== 0) return false;
  return ((mask[last] as number) & inLast) === 0;
}

/** Gives a draw the mask that its constraint answers with. Rejects like `askConstraint`. */
export async function setMask(runner: StepRunner, share: Share): Promise<void> {
  const { sequence } = share;
  // Of one that is cancelled nothing is waited for.
  const mask = await sequence.unlessEnded(askConstraint(sequence, runner.graph.shape.vocabulary));
  if (!isStale(share)) runner.setMask(sequence.slot, mask);
}
