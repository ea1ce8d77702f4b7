/** What callers are shown: bodies of the routes about models and money. */
import type { Balance, Nano } from '../ledger/types.ts';
import type { Model } from './types.ts';

/** As OpenAI's clients read it, and with what they ignore. `created` is what they want and nobody knows. */
export const modelBody = (model: Model) => ({
  id: model.id,
  object: 'model' as const,
  created: 0,
  owned_by: model.provider.id,
  display_name: model.displayName,
  provider: model.provider.id,
  caps: [...model.caps],
  context_window: model.contextWindow,
  max_output_tokens: model.maxOutputTokens,
  pricing: model.pricing,
  ...(model.embeddingDimensions === undefined ? {} : { embedding_dimensions: model.embeddingDimensions }),
});

/** Of GET /v1/catalog and /v1/models. */
export const listBody = (models: readonly Model[]) => ({
  object: 'list' as const,
  data: models.map(modelBody),
});

export const balanceBody = ({ remaining, included, allowanceRemaining, creditsRemaining }: Balance) => ({
  remaining_nanodollars: jsonNano(remaining),
  included_nanodollars: jsonNano(included),
  allowance_remaining_nanodollars: jsonNano(allowanceRemaining),
  credits_remaining_nanodollars: jsonNano(creditsRemaining),
});

const most = BigInt(Number.MAX_SAFE_INTEGER);

/** As a JSON number; what no number holds exactly (nine million dollars) is shown as the most that one does. */
export const jsonNano = (nano: Nano): number => Number(nano > most ? most : nano < -most ? -most : nano);
