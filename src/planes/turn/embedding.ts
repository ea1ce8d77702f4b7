import type { Engine, ModelInfo } from '../../engine/index.ts';
import { raceAbort } from '../../util/race-abort.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { TextsOrIds } from '../../wires/core/members.ts';
import { toHttpError } from '../resident.ts';
import { createPace } from './bounded-encoding.ts';
import { encodeInputs } from './embedding-inputs.ts';
import { requireQueueSpace } from './queue-space.ts';
import type { CompletionContext } from './respond.ts';
import { recordTexts } from './transcript.ts';

/** Vectors that are formatted before yielding to the event loop. */
const vectorsPerYield = 32;

/** Number of vector elements that a request asks for; absent means all. */
type Dimensions = number | null | undefined;

interface EmbedOptions extends Pick<CompletionContext, 'signal' | 'span'> {
  readonly dimensions?: Dimensions;
  /** Truncate inputs that are too long instead of refusing them. */
  readonly truncate?: boolean;
}

function requireDimensions({ embeddingDimensions: maxDimensions }: ModelInfo, requested: Dimensions): void {
  if (typeof requested !== 'number' || requested <= maxDimensions) return;
  const message = `expected at most ${maxDimensions}, which this model's embeddings have`;
  throw invalidBodyError([{ path: 'dimensions', message }]);
}

/** Numbers, or base64 of the bytes. */
type FormattedVector = number[] | string;

/** Computes a vector for each input, in the output format; refusals are `HttpError`s. */
export async function embed(
  engine: Engine,
  input: TextsOrIds,
  { dimensions, truncate, signal, span }: EmbedOptions,
  format: (vector: Float32Array) => FormattedVector = toDecimals,
): Promise<{ readonly vectors: readonly FormattedVector[]; readonly promptTokens: number }> {
  requireDimensions(engine.model, dimensions);
  requireQueueSpace(engine);
  const inputs = await encodeInputs(engine, input, truncate);
  const dimensionsOption = typeof dimensions === 'number' ? { dimensions } : {};
  recordTexts(span, engine.tokenizer, inputs);
  try {
    const { embeddings, promptTokens } = await raceAbort(
      engine.embed({ inputs, ...dimensionsOption, signal }),
      signal,
    );
    span.attributes.answers = inputs.length;
    span.attributes.promptTokens = promptTokens;
    return { vectors: await formatVectors(embeddings, format), promptTokens };
  } catch (error) {
    throw toHttpError(error);
  }
}

/** Formatting many vectors takes long, so it yields to other requests in between. */
async function formatVectors(
  vectors: readonly Float32Array[],
  format: (vector: Float32Array) => FormattedVector,
): Promise<FormattedVector[]> {
  const formatted: FormattedVector[] = [];
  const pace = createPace(vectorsPerYield);
  for (const vector of vectors) {
    await pace(1);
    formatted.push(format(vector));
  }
  return formatted;
}

/** Nine digits identify a 32-bit float; writing the value as a double would take twice as many. */
const toDecimals = (vector: Float32Array): number[] =>
  Array.from(vector, (value) => Number(value.toPrecision(9)));
