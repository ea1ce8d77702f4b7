/** Token masks of constraints, and their upload to the GPU. */
import { maskWords } from '../../../kernels/sample.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { isStale, type BatchEntry } from '../scheduling/batch-entry.ts';
import type { StepRunner } from '../execution/step-runner.ts';
import { EngineError } from '../types.ts';

/** The masks of one sequence's constraint. */
export class ConstraintMasks {
  readonly #sequence: Sequence;
  /** Number of output tokens that were passed to the constraint. */
  #position = 0;
  /** The last request: the mask for the token after this many output tokens. */
  #last: { readonly outputTokens: number; readonly mask: Promise<Uint32Array | undefined> } | undefined;

  constructor(sequence: Sequence) {
    this.#sequence = sequence;
  }

  /** The mask requested last; undefined before the first request. */
  get latest(): Promise<Uint32Array | undefined> | undefined {
    return this.#last?.mask;
  }

  /**
   * Requests the mask for the sequence's next token from its constraint, and passes on the tokens sampled since the last
   * call. All earlier tokens must have been read back. The mask of a preempted sequence is requested only once.
   * @param vocabulary number of tokens that the model can sample
   * @returns [maskWords]; undefined when every token is allowed
   * @throws EngineError `constraint_failed`
   */
  request(vocabulary: number): Promise<Uint32Array | undefined> {
    const { outputTokens, request, tokens } = this.#sequence;
    if (this.#last?.outputTokens === outputTokens) return this.#last.mask;
    const acceptedTokens = tokens.slice(request.prompt.length + this.#position);
    this.#position = outputTokens;
    const mask = computeMask(this.#sequence, acceptedTokens, vocabulary);
    mask.catch(() => undefined); // awaited when the sampling is submitted
    this.#last = { outputTokens, mask };
    return mask;
  }
}

async function computeMask(
  { request, outputTokens }: Sequence,
  acceptedTokens: readonly number[],
  vocabulary: number,
): Promise<Uint32Array | undefined> {
  let mask: Uint32Array | undefined;
  try {
    mask = await request.constraint?.next(acceptedTokens);
  } catch (error) {
    throw error instanceof EngineError ? error : constraintError(errorMessage(error), error);
  }
  if (mask === undefined) return undefined;
  const wordCount = maskWords(vocabulary);
  if (mask.length !== wordCount) {
    throw constraintError(
      `its mask has ${mask.length} words, but ${vocabulary} tokens need ${wordCount}; it was made for another model`,
    );
  }
  if (isEmptyMask(mask, vocabulary)) {
    throw new EngineError(
      'constraint_failed',
      `the grammar allows no token that the model can produce after ${outputTokens} output tokens`,
    );
  }
  return mask;
}

const constraintError = (why: string, cause?: unknown): EngineError =>
  new EngineError('constraint_failed', `the output constraint failed: ${why}`, { cause });

function isEmptyMask(mask: Uint32Array, vocabulary: number): boolean {
  const last = mask.length - 1;
  // Bits beyond the vocabulary have no meaning.
  const lastWordBits = 0xffffffff >>> (mask.length * 32 - vocabulary);
  for (let word = 0; word < last; word++) if (mask[word] !== 0) return false;
  return ((mask[last] as number) & lastWordBits) === 0;
}

/** Uploads the mask for a sample when its constraint provides it. Rejects like `ConstraintMasks.request`. */
export async function uploadMask(runner: StepRunner, entry: BatchEntry): Promise<void> {
  const { sequence } = entry;
  // A canceled sequence stops waiting.
  const mask = await sequence.raceEnd(sequence.masks.request(runner.graph.shape.vocabulary));
  if (!isStale(entry)) runner.setMask(sequence.slot, mask);
}
