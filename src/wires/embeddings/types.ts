import type { UpstreamModel } from '../core/types.ts';
import type { Usage } from '../core/types.ts';
import type { RequestFacts, UpstreamBody, UpstreamWire } from '../core/wire.ts';

/**
 * Of a request for embeddings. Each input may fill a window of its own, so that they count as the answers; there is no
 * output (`maxTokens` 0), and given tokens count as a byte each.
 */
export interface EmbeddingsFacts extends RequestFacts {
  readonly maxTokens: 0;
  readonly inputs: readonly EmbeddingInput[];
  /** As OpenAI: floats unless base64 is asked for. */
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | undefined;
}

/** A text or the tokens of one. */
export type EmbeddingInput = string | readonly number[];

export interface EmbeddingsRequest {
  readonly text: string;
  readonly facts: EmbeddingsFacts;
}

/** From OpenAI's wire of embeddings to a provider's and back. */
export interface EmbeddingsTranslation {
  /** @throws WireError 400: what the provider cannot embed */
  readonly request: (request: EmbeddingsRequest, model: UpstreamModel) => UpstreamBody;
  /**
   * The caller's body for one of status 2xx, and what to charge.
   * @throws UpstreamFailure where it is none, or not of all inputs
   */
  readonly answer: (text: string, request: EmbeddingsRequest, model: UpstreamModel) => EmbeddingsAnswer;
  readonly failure: UpstreamWire['failure'];
}

export interface EmbeddingsAnswer {
  readonly text: string;
  readonly usage: Usage;
  /** Whether the provider counted; else it is a token for each four bytes of text. */
  readonly counted: boolean;
}
