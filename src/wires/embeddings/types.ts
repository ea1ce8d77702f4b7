import type { UpstreamModel } from '../core/types.ts';
import type { Usage } from '../core/types.ts';
import type { RequestFacts, UpstreamBody, UpstreamWire } from '../core/wire.ts';

/**
 * Facts of an embeddings request. Each input may fill a context window of its own, so the inputs count as answers;
 * there is no output (`maxTokens` 0), and a token id counts as one byte.
 */
export interface EmbeddingsFacts extends RequestFacts {
  readonly maxTokens: 0;
  readonly inputs: readonly EmbeddingInput[];
  /** `float` unless base64 is requested. */
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | undefined;
}

/** A text or its token ids. */
export type EmbeddingInput = string | readonly number[];

export interface EmbeddingsRequest {
  readonly text: string;
  readonly facts: EmbeddingsFacts;
}

/** Translates between OpenAI's embeddings endpoint and a provider. */
export interface EmbeddingsTranslation {
  /** @throws WireError 400 for inputs that the provider cannot embed */
  readonly request: (request: EmbeddingsRequest, model: UpstreamModel) => UpstreamBody;
  /**
   * Returns the caller's body for a body of status 2xx, and the usage to charge.
   * @throws UpstreamFailure where the body is invalid or lacks an input
   */
  readonly answer: (text: string, request: EmbeddingsRequest, model: UpstreamModel) => EmbeddingsAnswer;
  readonly failure: UpstreamWire['failure'];
}

export interface EmbeddingsAnswer {
  readonly text: string;
  readonly usage: Usage;
  /** Whether the provider reported usage; else one token per four bytes of text is charged. */
  readonly isReported: boolean;
}
