import { openaiErrorResponses } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import {
  type EmbeddingList,
  type EmbeddingRequest,
  embeddingList,
  embeddingRequest,
} from '../../wires/embeddings/server-schema.ts';
import { embed } from '../turn/embedding.ts';
import type { CompletionContext } from '../turn/respond.ts';

export function embeddingsRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/embeddings',
    operationId: 'createEmbedding',
    summary: 'Embed texts',
    description: "OpenAI's embeddings. Unknown members are ignored.",
    body: embeddingRequest,
    completion: { wire: 'embeddings', operation: 'embeddings' },
    responses: {
      200: {
        description: 'A vector for each input, in order.',
        content: { 'application/json': embeddingList },
      },
      ...openaiErrorResponses,
    },
    async handle({ body, ...context }) {
      return Response.json(await embedInputs(resident, body, context));
    },
  });
}

/** Embeds the inputs of a request. @throws HttpError */
export async function embedInputs(
  resident: Resident,
  body: EmbeddingRequest,
  { signal, finished, span }: CompletionContext,
): Promise<EmbeddingList> {
  const { engine } = await resident.acquire(body.model, { signal, finished, span }, 'embed');
  const format = body.encoding_format === 'base64' ? toBase64 : undefined;
  const options = { dimensions: body.dimensions, signal, span };
  const { vectors, promptTokens: tokens } = await embed(engine, body.input, options, format);
  return {
    object: 'list',
    data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    model: engine.model.id,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

/** The wire requires little-endian bytes; all supported machines are little-endian. */
const toBase64 = ({ buffer, byteOffset, byteLength }: Float32Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');
