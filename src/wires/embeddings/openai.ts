import { isRecord } from '../../util/json.ts';
import { openaiChat } from '../chat/upstream.ts';
import { editMembers } from '../core/json-edit.ts';
import { bodyOf, charged, noEmbeddings, parsed } from './answer.ts';
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
    const body = parsed(text);
    const { data, usage } = body;
    const items: unknown[] = Array.isArray(data) ? data : [];
    if (items.length !== request.facts.inputs.length)
      throw noEmbeddings(`${items.length} embeddings for ${request.facts.inputs.length} inputs`);
    const count = isRecord(usage) ? (usage['prompt_tokens'] ?? usage['total_tokens']) : undefined;
    const charge = charged(count, request);
    const { encoding } = request.facts;
    if (charge.counted && isWhole(body) && items.every((item, index) => isAsAsked(item, index, encoding)))
      return { text, ...charge };
    const ours = bodyOf(
      inOrder(items).map((item) => coded(item['embedding'], encoding)),
      model,
      charge.usage,
    );
    // Other members of the provider are kept.
    const said = Object.entries(body).filter(([name]) => name !== 'data' && name !== 'object');
    const told = Object.fromEntries(said.filter(([name]) => name !== 'usage' || isCount(usage)));
    return { text: JSON.stringify({ ...ours, ...told }), ...charge };
  },
  failure: openaiChat.failure,
};

const isCount = (usage: unknown): boolean =>
  isRecord(usage) && Number.isInteger(usage['prompt_tokens']) && Number.isInteger(usage['total_tokens']);

const isWhole = ({ object, model, usage }: Readonly<Record<string, unknown>>): boolean =>
  object === 'list' && typeof model === 'string' && isCount(usage);

type Encoding = EmbeddingsFacts['encoding'];

const isAsAsked = (item: unknown, index: number, encoding: Encoding): boolean =>
  isRecord(item) &&
  item['object'] === 'embedding' &&
  item['index'] === index &&
  (encoding === 'base64' ? typeof item['embedding'] === 'string' : isVector(item['embedding']));

/** Sorts the items by `index`, where the indices are complete. */
function inOrder(items: readonly unknown[]): Readonly<Record<string, unknown>>[] {
  const records = items.map((item) => (isRecord(item) ? item : {}));
  const places = new Set(records.map(({ index }) => index));
  const counted = records.every((_, index) => places.has(index));
  return counted ? records.sort((a, b) => Number(a['index']) - Number(b['index'])) : records;
}

function coded(embedding: unknown, encoding: Encoding): string | number[] {
  if (isVector(embedding)) return encoding === 'base64' ? toBase64(embedding) : embedding;
  if (typeof embedding !== 'string') throw noEmbeddings('an embedding that is not a vector');
  if (encoding === 'base64') return embedding;
  try {
    return fromBase64(embedding);
  } catch {
    throw noEmbeddings('an embedding that is not base64 of float32 values');
  }
}
