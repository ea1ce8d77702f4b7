import { isRecord } from '../../util/json.ts';
import { openaiChat } from '../chat/upstream.ts';
import { editMembers } from '../core/json-edit.ts';
import { writeBody, computeCharge, createFailure, parseAnswer } from './answer.ts';
import type { EmbeddingsFacts, EmbeddingsTranslation } from './types.ts';
import { fromBase64, isVector, toBase64 } from './vectors.ts';

/**
 * Passes requests through unchanged except for the model name. An answer passes byte for byte where it has the
 * requested encoding. Providers without base64 support answer with floats, which OpenAI's clients misread where they
 * requested base64, so such answers are re-encoded.
 */
export const openaiEmbeddings: EmbeddingsTranslation = {
  request: ({ text }, model) => ({
    path: '/embeddings',
    headers: {},
    text: editMembers(text, { model: model.upstream }),
  }),
  answer(text, request, model) {
    const body = parseAnswer(text);
    const { data, usage } = body;
    const items: unknown[] = Array.isArray(data) ? data : [];
    if (items.length !== request.facts.inputs.length)
      throw createFailure(`${items.length} embeddings for ${request.facts.inputs.length} inputs`);
    const count = isRecord(usage) ? (usage['prompt_tokens'] ?? usage['total_tokens']) : undefined;
    const charge = computeCharge(count, request);
    const { encoding } = request.facts;
    if (
      charge.isReported &&
      isComplete(body) &&
      items.every((item, index) => hasRequestedEncoding(item, index, encoding))
    )
      return { text, ...charge };
    const rewritten = writeBody(
      sortByIndex(items).map((item) => encodeVector(item['embedding'], encoding)),
      model,
      charge.usage,
    );
    // Other members of the provider are kept.
    const otherMembers = Object.entries(body).filter(([name]) => name !== 'data' && name !== 'object');
    const keptMembers = Object.fromEntries(
      otherMembers.filter(([name]) => name !== 'usage' || isUsage(usage)),
    );
    return { text: JSON.stringify({ ...rewritten, ...keptMembers }), ...charge };
  },
  failure: openaiChat.failure,
};

const isUsage = (usage: unknown): boolean =>
  isRecord(usage) && Number.isInteger(usage['prompt_tokens']) && Number.isInteger(usage['total_tokens']);

const isComplete = ({ object, model, usage }: Readonly<Record<string, unknown>>): boolean =>
  object === 'list' && typeof model === 'string' && isUsage(usage);

type Encoding = EmbeddingsFacts['encoding'];

const hasRequestedEncoding = (item: unknown, index: number, encoding: Encoding): boolean =>
  isRecord(item) &&
  item['object'] === 'embedding' &&
  item['index'] === index &&
  (encoding === 'base64' ? typeof item['embedding'] === 'string' : isVector(item['embedding']));

/** Sorts the items by `index`, where the indices are complete. */
function sortByIndex(items: readonly unknown[]): Readonly<Record<string, unknown>>[] {
  const records = items.map((item) => (isRecord(item) ? item : {}));
  const indices = new Set(records.map(({ index }) => index));
  const hasAllIndices = records.every((_, index) => indices.has(index));
  return hasAllIndices ? records.sort((a, b) => Number(a['index']) - Number(b['index'])) : records;
}

function encodeVector(embedding: unknown, encoding: Encoding): string | number[] {
  if (isVector(embedding)) return encoding === 'base64' ? toBase64(embedding) : embedding;
  if (typeof embedding !== 'string') throw createFailure('an embedding that is not a vector');
  if (encoding === 'base64') return embedding;
  try {
    return fromBase64(embedding);
  } catch {
    throw createFailure('an embedding that is not base64 of float32 values');
  }
}
