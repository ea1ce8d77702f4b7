import type { Engine, ModelInfo } from '../../engine/index.ts';
import { unlessAborted } from '../../util/abort.ts';
import { invalidBody } from '../../http/violations.ts';
import type { TextsOrIds } from '../../wires/core/members.ts';
import { toHttpError } from '../resident.ts';
import { toInputs } from './embedding-inputs.ts';
import type { Visit } from './respond.ts';
import { sayTexts } from './said.ts';

/** Vectors that are formatted before yielding to the event loop. */
const atOnce = 32;
const breath = () => new Promise((resolve) => setImmediate(resolve));

/** Number of vector elements that a request asks for; absent means all. */
type Dimensions = number | null | undefined;

interface Wanted extends Pick<Visit, 'signal' | 'work'> {
  readonly dimensions?: Dimensions;
  /** Truncate inputs that are too long instead of refusing them. */
  readonly truncate?: boolean;
}

function requireDimensions({ embeddingDimensions: most = 0 }: ModelInfo, wanted: Dimensions): void {
  if (typeof wanted !== 'number' || wanted <= most) return;
  const message = `expected at most ${most}, which this model's embeddings have`;
  throw invalidBody([{ path: 'dimensions', message }]);
}

/** Numbers, or base64 of the bytes. */
type Written = number[] | string;

/** Computes a vector for each input, in the output format; refusals are `HttpError`s. */
export async function embed(
  engine: Engine,
  input: TextsOrIds,
  { dimensions, truncate, signal, work }: Wanted,
  write: (vector: Float32Array) => Written = inDecimals,
): Promise<{ readonly vectors: readonly Written[]; readonly promptTokens: number }> {
  requireDimensions(engine.model, dimensions);
  const inputs = await toInputs(engine, input, truncate);
  const wanted = typeof dimensions === 'number' ? { dimensions } : {};
  sayTexts(work, engine.tokenizer, inputs);
  try {
    const { embeddings, promptTokens } = await unlessAborted(
      engine.embed({ inputs, ...wanted, signal }),
      signal,
    );
    work.facts.answers = inputs.length;
    work.facts.promptTokens = promptTokens;
    return { vectors: await written(embeddings, write), promptTokens };
  } catch (error) {
    throw toHttpError(error);
  }
}

/** Formatting many vectors takes long, so it yields to other requests in between. */
async function written(
  vectors: readonly Float32Array[],
  write: (vector: Float32Array) => Written,
): Promise<Written[]> {
  const forms: Written[] = [];
  for (const [index, vector] of vectors.entries()) {
    if (index > 0 && index % atOnce === 0) await breath();
    forms.push(write(vector));
  }
  return forms;
}

/** Nine digits identify a 32-bit float; writing the value as a double would take twice as many. */
const inDecimals = (vector: Float32Array): number[] =>
  Array.from(vector, (value) => Number(value.toPrecision(9)));
