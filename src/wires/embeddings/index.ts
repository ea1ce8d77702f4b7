import { invalidRequest } from '../core/error.ts';
import { providerWireOf, type WireKind } from '../providers.ts';
import type { EmbeddingsTranslation } from './types.ts';

export { readEmbeddingsFacts } from './facts.ts';
export type {
  EmbeddingsAnswer,
  EmbeddingsFacts,
  EmbeddingsRequest,
  EmbeddingsTranslation,
} from './types.ts';

/** The translation for a provider's embeddings. @throws WireError 400 where its wire has none */
export function embeddingsTranslationOf(provider: WireKind): EmbeddingsTranslation {
  const translation = providerWireOf(provider).embeddings;
  if (!translation)
    throw invalidRequest(
      'The provider of this model has no embeddings; choose a model whose caps name them.',
      {
        param: 'model',
      },
    );
  return translation;
}
