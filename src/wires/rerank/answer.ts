import type { RankedTexts, RerankAnswer, RerankRequest } from './server-schema.ts';

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

type Document = NonNullable<RerankRequest['documents']>[number];

const documentsOf = ({ documents, texts }: RerankRequest): readonly Document[] => documents ?? texts ?? [];

export const documentTexts = (request: RerankRequest): string[] =>
  documentsOf(request).map((document) => (typeof document === 'string' ? document : document.text));

const toObject = (document: Document) => (typeof document === 'string' ? { text: document } : document);

/** The results with the best scores, in descending order. Documents with the same score stay in their order. */
function toResults({ raw_scores, top_n }: RerankRequest, { scores }: RankedDocuments) {
  const toScore = raw_scores === true ? (logit: number) => logit : sigmoid;
  return scores
    .map((logit, index) => ({ index, score: toScore(logit) }))
    .sort((a, b) => b.score - a.score || a.index - b.index)
    .slice(0, top_n ?? undefined);
}

/** Whether a request has the form of Text Embeddings Inference, and so its answer. */
export const isTextsRequest = ({ documents, texts }: RerankRequest): boolean =>
  (documents ?? undefined) === undefined && (texts ?? undefined) !== undefined;

export function writeRankedTexts(request: RerankRequest, ranked: RankedDocuments): RankedTexts {
  const texts = request.return_text === true ? documentTexts(request) : undefined;
  return toResults(request, ranked).map(({ index, score }) => ({
    index,
    score,
    ...(texts ? { text: texts[index] ?? '' } : {}),
  }));
}

/** Writes the members of Cohere's, Jina's and llama.cpp's answers. */
export function writeRerankAnswer(
  request: RerankRequest,
  ranked: RankedDocuments,
  { id, model, version }: { id: string; model: string; version: '1' | '2' },
): RerankAnswer {
  const { promptTokens, truncated } = ranked;
  const documents = request.return_documents === true ? documentsOf(request) : undefined;
  const results = toResults(request, ranked).map(({ index, score }) => ({
    index,
    relevance_score: score,
    ...(documents ? { document: toObject(documents[index] ?? '') } : {}),
  }));
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
