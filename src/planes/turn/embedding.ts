import type { Embeddings, Engine, ModelInfo } from '../../engine/index.ts';
import type { Work } from '../../watch/index.ts';
import { unlessAborted } from '../../util/abort.ts';
import { invalidBody } from '../../http/violations.ts';
import { toHttpError } from '../resident.ts';
import { sayTexts } from './said.ts';

/** Vectors that are written before others get their turn. */
const atOnce = 32;
const breath = () => new Promise((resolve) => setImmediate(resolve));

/** Elements that a request wants of each vector; absent is all. */
type Dimensions = number | null | undefined;

export function requireDimensions({ embeddingDimensions: most = 0 }: ModelInfo, wanted: Dimensions): void {
  if (typeof wanted !== 'number' || wanted <= most) return;
  const message = `expected at most ${most}, which this model's embeddings have`;
  throw invalidBody([{ path: 'dimensions', message }]);
}

/** A vector for each input; refusals are `HttpError`s. */
export async function embed(
  engine: Engine,
  inputs: readonly (readonly number[])[],
  { dimensions, signal, work }: { dimensions?: Dimensions; signal: AbortSignal; work: Work<'completion'> },
): Promise<Embeddings> {
  const wanted = typeof dimensions === 'number' ? { dimensions } : {};
  sayTexts(work, engine.tokenizer, inputs);
  try {
    const made = await unlessAborted(engine.embed({ inputs, ...wanted, signal }), signal);
    work.facts.answers = inputs.length;
    work.facts.promptTokens = made.promptTokens;
    return made;
  } catch (error) {
    throw toHttpError(error);
  }
}

/** Many vectors take long to write, in which others want to be served, too. */
export async function written<Form>(
  vectors: readonly Float32Array[],
  write: (vector: Float32Array) => Form,
): Promise<Form[]> {
  const forms: Form[] = [];
  for (const [index, vector] of vectors.entries()) {
    if (index > 0 && index % atOnce === 0) await breath();
    forms.push(write(vector));
  }
  return forms;
}

/** Nine digits tell 32-bit floats apart; the double that each stands for would be written with twice as many. */
export const inDecimals = (vector: Float32Array): number[] =>
  Array.from(vector, (value) => Number(value.toPrecision(9)));
