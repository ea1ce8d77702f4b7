import type { Engine } from '../../engine/index.ts';
import { unlessAborted } from '../abort.ts';
import { invalidBody } from '../body.ts';
import { openaiError } from '../error-schema.ts';
import type { Violation } from '../problem.ts';
import { type Resident, toProblem } from '../resident.ts';
import { defineRoute } from '../route.ts';
import {
  type EmbeddingList,
  type EmbeddingRequest,
  embeddingList,
  embeddingRequest,
} from './embeddings-schema.ts';
import { contextExceeded, type InputParam, refuseOverlong } from '../turn/encode.ts';
import { requireKind } from '../turn/identity.ts';

export function embeddingsRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/embeddings',
    operationId: 'createEmbedding',
    summary: 'Texts as vectors',
    description: "OpenAI's embeddings. Unknown members are ignored.",
    body: embeddingRequest,
    answers: {
      200: {
        description: 'A vector for each input, in order.',
        content: { 'application/json': embeddingList },
      },
      404: { description: 'No such model.', content: { 'application/json': openaiError } },
      429: {
        description: 'The queue is full; `Retry-After` tells when to come back.',
        content: { 'application/json': openaiError },
      },
      503: {
        description: 'No resident model, or it is loading, or the GPU was lost.',
        content: { 'application/json': openaiError },
      },
    },
    async handle({ body, signal, over }) {
      const { engine } = await resident.use(body.model, { signal, over });
      requireKind(engine.model, 'embed');
      const { dimensions } = body;
      const most = engine.model.embeddingDimensions ?? 0;
      if (typeof dimensions === 'number' && dimensions > most) {
        const message = `expected at most ${most}, which this model's embeddings have`;
        throw invalidBody([{ path: 'dimensions', message }]);
      }
      const inputs = await toInputs(engine, body.input);
      const wanted = typeof dimensions === 'number' ? { dimensions } : {};
      try {
        const made = await unlessAborted(engine.embed({ inputs, ...wanted, signal }), signal);
        const tokens = made.promptTokens;
        const write = body.encoding_format === 'base64' ? inBase64 : inDecimals;
        const data: EmbeddingList['data'] = [];
        for (const [index, vector] of made.embeddings.entries()) {
          data.push({ object: 'embedding', index, embedding: write(vector) });
          if (index % atOnce.vectors === 0) await breath();
        }
        const answer: EmbeddingList = {
          object: 'list',
          data,
          model: engine.model.id,
          usage: { prompt_tokens: tokens, total_tokens: tokens },
        };
        return Response.json(answer);
      } catch (error) {
        throw toProblem(error);
      }
    },
  });
}

/** Nine digits tell 32-bit floats apart; the double that each stands for would be written with twice as many. */
const inDecimals = (vector: Float32Array): number[] =>
  Array.from(vector, (value) => Number(value.toPrecision(9)));

/** The bytes of all machines that this runs on are little-endian, as the wire wants them. */
const inBase64 = ({ buffer, byteOffset, byteLength }: Float32Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');

/** Characters that are encoded, and vectors that are written, before others get their turn. */
const atOnce = { characters: 8192, vectors: 32 };
const breath = () => new Promise((resolve) => setImmediate(resolve));
/** Texts that a refusal names. */
const mostNamed = 8;

/** Every input encoded and checked before the first one runs; all that is wrong at once. */
async function toInputs(
  engine: Pick<Engine, 'tokenizer' | 'model'>,
  input: EmbeddingRequest['input'],
): Promise<readonly (readonly number[])[]> {
  const { tokenizer, model } = engine;
  const single = typeof input === 'string' || typeof input[0] === 'number';
  const list = (single ? [input] : input) as readonly (string | readonly number[])[];
  const inputs: (readonly number[])[] = [];
  const wrong: Violation[] = [];
  const long: { path: InputParam; count: number }[] = [];
  let characters = 0;
  for (const [index, one] of list.entries()) {
    const path: InputParam = single ? 'input' : `input.${index}`;
    if (typeof one === 'string') {
      await refuseOverlong(tokenizer, one, model.contextLength, path, { parseSpecial: true });
      characters += one.length;
      if (characters > atOnce.characters) {
        characters = 0;
        await breath();
      }
    }
    const ids =
      typeof one === 'string' ? tokenizer.encode(one, { addSpecial: true, parseSpecial: true }) : one;
    const stranger = ids.find((id) => id >= model.vocabSize);
    if (stranger !== undefined) {
      const message = `no such token: ${stranger} (the model has ids 0 to ${model.vocabSize - 1})`;
      wrong.push({ path, message });
    }
    if (ids.length === 0) wrong.push({ path, message: 'must hold a token at least' });
    if (ids.length > model.contextLength) long.push({ path, count: ids.length });
    inputs.push(ids);
  }
  if (wrong.length > 0) throw invalidBody(wrong);
  const [first] = long;
  if (!first) return inputs;
  const shown = long.slice(0, mostNamed).map(({ path, count }) => `${path} has ${count}`);
  const more = long.length > shown.length ? [`${long.length - shown.length} more are too long`] : [];
  throw contextExceeded(model.contextLength, [...shown, ...more].join(', '), first.path);
}
