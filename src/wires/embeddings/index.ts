import type { WireKind } from '../core/types.ts';
import { invalidRequest } from '../core/error.ts';
import { googleEmbeddings } from './google.ts';
import { openaiEmbeddings } from './openai.ts';
import type { EmbeddingsTranslation } from './types.ts';

export { readEmbeddingsFacts } from './facts.ts';
export type {
  EmbeddingsAnswer,
  EmbeddingsFacts,
  EmbeddingsRequest,
  EmbeddingsTranslation,
} from './types.ts';

const translations: Readonly<Partial<Record<WireKind, EmbeddingsTranslation>>> = {
  'openai-chat': openaiEmbeddings,
  // The same provider, whose embeddings are on its other wire.
  'openai-responses': openaiEmbeddings,
  lathe: openaiEmbeddings,
  google: googleEmbeddings,
};

/** The translation for a provider's embeddings. @throws WireError 400 where its wire has none */
export function embeddingsTranslationOf(provider: WireKind): EmbeddingsTranslation {
  const translation = translations[provider];
  if (!translation)
    throw invalidRequest(
      'The provider of this model has no embeddings; choose a model whose caps name them.',
      {
        param: 'model',
      },
    );
  return translation;
}
