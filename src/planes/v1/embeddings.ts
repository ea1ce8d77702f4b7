import type { Engine, Tokenizer } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import { openaiRefusals } from '../error-schema.ts';
import type { Violation } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import {
  type EmbeddingList,
  type EmbeddingRequest,
  embeddingList,
  embeddingRequest,
} from '../../wires/embeddings/server-schema.ts';
import { eachOf } from '../../wires/core/members.ts';
import { embed, inDecimals, requireDimensions, written } from '../turn/embedding.ts';
import type { Visit } from '../turn/respond.ts';
import { contextExceeded, type InputParam, noSuchToken, refuseOverlong } from '../turn/encode.ts';

export function embeddingsRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/embeddings',
    operationId: 'createEmbedding',
    summary: 'Texts as vectors',
    description: "OpenAI's embeddings. Unknown members are ignored.",
    body: embeddingRequest,
    completion: { wire: 'embeddings', operation: 'embeddings' },
    answers: {
      200: {
        description: 'A vector for each input, in order.',
        content: { 'application/json': embeddingList },
      },
      ...openaiRefusals,
    },
    async handle({ body, ...visit }) {
      return Response.json(await embedInputs(resident, body, visit));
    },
  });
}

/** @throws HttpError */
export async function embedInputs(
  resident: Resident,
  body: EmbeddingRequest,
  { signal, over, work }: Visit,
): Promise<EmbeddingList> {
  const { engine } = await resident.use(body.model, { signal, over, work }, 'embed');
  requireDimensions(engine.model, body.dimensions);
  const inputs = await toInputs(engine, body.input);
  const made = await embed(engine, inputs, { dimensions: body.dimensions, signal, work });
  const tokens = made.promptTokens;
  const write: (vector: Float32Array) => string | number[] =
    body.encoding_format === 'base64' ? inBase64 : inDecimals;
  const vectors = await written(made.embeddings, write);
  return {
    object: 'list',
    data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    model: engine.model.id,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

/** The bytes of all machines that this runs on are little-endian, as the wire wants them. */
const inBase64 = ({ buffer, byteOffset, byteLength }: Float32Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');

/** Characters that are encoded before others get their turn. */
const atOnce = 8192;
const breath = () => new Promise((resolve) => setImmediate(resolve));
/** Texts that a refusal names. */
const mostNamed = 8;

/** No token stands for more text than this, on the average: what lies behind that is not encoded where it is cut anyway. */
const charactersPerToken = 16;

/**
 * Every input encoded and checked before the first one runs; all that is wrong at once.
 * @param truncate what is too long loses its end, but for the tokens that close every text
 */
export async function toInputs(
  engine: Pick<Engine, 'tokenizer' | 'model'>,
  input: EmbeddingRequest['input'],
  truncate = false,
): Promise<readonly (readonly number[])[]> {
  const { tokenizer, model } = engine;
  const single = typeof input === 'string' || typeof input[0] === 'number';
  const inputs: (readonly number[])[] = [];
  const wrong: Violation[] = [];
  const long: { path: InputParam; count: number }[] = [];
  let characters = 0;
  for (const [index, given] of eachOf(input).entries()) {
    const path: InputParam = single ? 'input' : `input.${index}`;
    const one = truncate ? given.slice(0, model.contextLength * charactersPerToken) : given;
    if (typeof one === 'string') {
      if (!truncate) await refuseOverlong(tokenizer, one, model.contextLength, path, { parseSpecial: true });
      characters += one.length;
      if (characters > atOnce) {
        characters = 0;
        await breath();
      }
    }
    const ids =
      typeof one === 'string' ? tokenizer.encode(one, { addSpecial: true, parseSpecial: true }) : one;
    const stranger = ids.find((id) => id >= model.vocabSize);
    if (stranger !== undefined) wrong.push({ path, message: noSuchToken(stranger, model.vocabSize) });
    if (ids.length === 0) wrong.push({ path, message: 'must hold a token at least' });
    const isLong = ids.length > model.contextLength;
    if (isLong && !truncate) long.push({ path, count: ids.length });
    inputs.push(isLong ? cut(tokenizer, ids, model.contextLength) : ids);
  }
  if (wrong.length > 0) throw invalidBody(wrong);
  const [first] = long;
  if (!first) return inputs;
  const shown = long.slice(0, mostNamed).map(({ path, count }) => `${path} has ${count}`);
  const more = long.length > shown.length ? [`${long.length - shown.length} more are too long`] : [];
  throw contextExceeded(model.contextLength, [...shown, ...more].join(', '), first.path);
}

function cut(tokenizer: Tokenizer, ids: readonly number[], limit: number): readonly number[] {
  const closing = tokenizer.encode('', { addSpecial: true }).at(-1);
  const closes = closing !== undefined && closing !== tokenizer.bosId && closing === ids.at(-1);
  return closes ? [...ids.slice(0, limit - 1), closing] : ids.slice(0, limit);
}
