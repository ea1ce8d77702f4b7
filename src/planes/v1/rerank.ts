import { randomUUID } from 'node:crypto';
import { openaiErrorResponses } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import {
  documentTexts,
  isTextsRequest,
  writeRankedTexts,
  writeRerankAnswer,
} from '../../wires/rerank/answer.ts';
import { rerankRequest, rerankResult } from '../../wires/rerank/server-schema.ts';
import { rankDocuments } from '../turn/ranking.ts';

/** What Cohere's second version truncates documents to where a request names no limit. */
const defaultTokensPerDocument = 4096;

/** One route under the paths of Cohere, Jina, llama.cpp and vLLM. */
const endpoints = [
  { path: '/v1/rerank', operationId: 'createRerank', version: '1' },
  { path: '/v2/rerank', operationId: 'createRerankV2', version: '2' },
  { path: '/rerank', operationId: 'llamaCppRerank', version: '1' },
  { path: '/reranking', operationId: 'llamaCppReranking', version: '1' },
  { path: '/v1/reranking', operationId: 'llamaCppV1Reranking', version: '1' },
] as const;

export const rerankPaths: readonly string[] = endpoints.map(({ path }) => path);

export function rerankRoutes(resident: Resident) {
  return endpoints.map(({ version, ...endpoint }) =>
    defineRoute({
      method: 'POST',
      ...endpoint,
      summary: 'Rank documents by a query',
      description:
        "Cohere's, Jina's and llama.cpp's rerank, with a model that ranks documents. All paths answer the same scores; only the " +
        'defaults of /v2/rerank differ, which truncates long documents. With `texts`, the form of Text Embeddings Inference, the ' +
        'answer is an array. Unknown members are ignored.',
      body: rerankRequest,
      // Its paths take what curl sends by default, as llama.cpp does.
      ...(endpoint.path.startsWith('/v') ? {} : { acceptsLooseContentType: true }),
      completion: { wire: 'rerank', operation: 'rerank' },
      responses: {
        200: {
          description: 'The documents in descending order of relevance.',
          content: { 'application/json': rerankResult },
        },
        ...openaiErrorResponses,
      },
      async handle({ body, signal, finished, span }) {
        const { engine } = await resident.acquire(body.model, { signal, finished, span }, 'rerank');
        const isV2 = version === '2';
        const maxTokens = body.max_tokens_per_doc ?? (isV2 ? defaultTokensPerDocument : undefined);
        const ranked = await rankDocuments(engine, body.query, documentTexts(body), {
          maxTokensPerDocument: maxTokens,
          truncate: body.truncate ?? maxTokens !== undefined,
          signal,
          span,
        });
        if (isTextsRequest(body)) return Response.json(writeRankedTexts(body, ranked));
        const about = { id: `rerank-${randomUUID()}`, model: engine.model.id, version };
        return Response.json(writeRerankAnswer(body, ranked, about));
      },
    }),
  );
}
