import type { RerankAnswer, RerankRequest } from './server-schema.ts';

/** Scores of a request's documents, in their order. */
export interface RankedDocuments {
  /** Logits. */
  readonly scores: readonly number[];
  readonly promptTokens: number;
  /** Indices of the documents that were truncated. */
  readonly truncated: readonly number[];
}

/** Most documents that a warning lists. */
const maxListed = 20;

export const documentTexts = ({ documents }: Pick<RerankRequest, 'documents'>): string[] =>
  documents.map((document) => (typeof document === 'string' ? document : document.text));

const toObject = (document: RerankRequest['documents'][number]) =>
  typeof document === 'string' ? { text: document } : document;

/** Writes the members of Cohere's, Jina's and llama.cpp's answers. Documents with the same score stay in their order. */
export function writeRerankAnswer(
  request: RerankRequest,
  { scores, promptTokens, truncated }: RankedDocuments,
  { id, model, version }: { id: string; model: string; version: '1' | '2' },
): RerankAnswer {
  const documents = request.return_documents === true ? request.documents : undefined;
  const toScore = request.raw_scores === true ? (logit: number) => logit : sigmoid;
  const results = scores
    .map((logit, index) => ({
      index,
      relevance_score: toScore(logit),
      ...(documents ? { document: toObject(documents[index] ?? '') } : {}),
    }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, request.top_n ?? undefined);
  return {
    id,
    object: 'list',
    model,
    results,
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
    meta: {
      api_version: { version },
      tokens: { input_tokens: promptTokens, output_tokens: 0 },
      ...(truncated.length > 0 ? { warnings: [warningOf(truncated)] } : {}),
    },
  };
}

function warningOf(truncated: readonly number[]): string {
  const listed = truncated.slice(0, maxListed).join(', ');
  const more = truncated.length > maxListed ? ` and ${truncated.length - maxListed} more` : '';
  return `${truncated.length} ${truncated.length === 1 ? 'document was' : 'documents were'} truncated: ${listed}${more}.`;
}

/** Computed so that no power overflows. */
export const sigmoid = (logit: number): number =>
  logit >= 0 ? 1 / (1 + Math.exp(-logit)) : Math.exp(logit) / (1 + Math.exp(logit));
