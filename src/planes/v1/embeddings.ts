import { openaiRefusals } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import {
  type EmbeddingList,
  type EmbeddingRequest,
  embeddingList,
  embeddingRequest,
} from '../../wires/embeddings/server-schema.ts';
import { embed } from '../turn/embedding.ts';
import type { Visit } from '../turn/respond.ts';

export function embeddingsRoute(resident: Resident) {
  return defineRoute({
    method: 'POST',
    path: '/v1/embeddings',
    operationId: 'createEmbedding',
    summary: 'Embed texts',
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

/** Embeds the inputs of a request. @throws HttpError */
export async function embedInputs(
  resident: Resident,
  body: EmbeddingRequest,
  { signal, over, work }: Visit,
): Promise<EmbeddingList> {
  const { engine } = await resident.use(body.model, { signal, over, work }, 'embed');
  const write = body.encoding_format === 'base64' ? inBase64 : undefined;
  const wanted = { dimensions: body.dimensions, signal, work };
  const { vectors, promptTokens: tokens } = await embed(engine, body.input, wanted, write);
  return {
    object: 'list',
    data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    model: engine.model.id,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

/** The wire requires little-endian bytes; all supported machines are little-endian. */
const inBase64 = ({ buffer, byteOffset, byteLength }: Float32Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');
