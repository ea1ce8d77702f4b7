/** Response bodies of the catalog and balance routes. */
import { z } from 'zod';
import { caps } from '../../wires/core/types.ts';
import type { Balance, Nano } from '../ledger/types.ts';
import type { Model } from './types.ts';

const usdPerMtok = z.string().describe('US dollars per million tokens, as decimal text.');

const tierSchema = z.object({
  in_usd_per_mtok: usdPerMtok,
  out_usd_per_mtok: usdPerMtok,
  cache_read_usd_per_mtok: usdPerMtok,
  cache_write_usd_per_mtok: usdPerMtok,
  in_audio_usd_per_mtok: usdPerMtok.optional(),
  out_audio_usd_per_mtok: usdPerMtok.optional(),
  in_image_usd_per_mtok: usdPerMtok.optional(),
  out_image_usd_per_mtok: usdPerMtok.optional(),
});
const usdPerCall = z.string().describe('US dollars per call, as decimal text.').optional();
const pricingSchema = tierSchema.extend({
  tiers: z.object({ flex: tierSchema.optional(), priority: tierSchema.optional() }).optional(),
  hosted_tools: z
    .object({
      web_search_usd_per_call: usdPerCall,
      file_search_usd_per_call: usdPerCall,
      code_interpreter_usd_per_call: usdPerCall,
      max_calls: z.int().describe('The calls of a request that does not limit them itself.'),
    })
    .optional(),
});

export const catalogModelSchema = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    display_name: z.string(),
    provider: z.string(),
    caps: z.array(z.enum(caps)),
    context_window: z.int().describe('Input and output tokens together.'),
    max_output_tokens: z.int(),
    pricing: pricingSchema,
    deployments: z
      .array(z.object({ provider: z.string(), pricing: pricingSchema }))
      .optional()
      .describe(
        "Where several providers serve the model. The one that answers is charged; the members above are the first one's.",
      ),
    embedding_dimensions: z.int().optional(),
  })
  .meta({ id: 'Model' });
export const catalogListSchema = z
  .object({ object: z.literal('list'), data: z.array(catalogModelSchema) })
  .meta({ id: 'ModelList' });

/**
 * A model entry: the members of OpenAI's format, and others that its clients ignore. `created` is required there, but not
 * known here.
 */
export const toModelBody = (model: Model): z.infer<typeof catalogModelSchema> => ({
  id: model.id,
  object: 'model',
  created: 0,
  owned_by: model.provider.id,
  display_name: model.displayName,
  provider: model.provider.id,
  caps: [...model.caps],
  context_window: model.contextWindow,
  max_output_tokens: model.maxOutputTokens,
  pricing: model.pricing,
  ...(model.routing
    ? {
        deployments: model.routing.deployments.map(({ model: { provider, pricing } }) => ({
          provider: provider.id,
          pricing,
        })),
      }
    : {}),
  ...(model.embeddingDimensions === undefined ? {} : { embedding_dimensions: model.embeddingDimensions }),
});

/** Response body of GET /v1/catalog and GET /v1/models. */
export const toListBody = (models: readonly Model[]): z.infer<typeof catalogListSchema> => ({
  object: 'list',
  data: models.map(toModelBody),
});

export const balanceSchema = z
  .object({
    remaining_nanodollars: z.int().describe('The free balance: posted entries minus held amounts.'),
    included_nanodollars: z.int(),
    allowance_remaining_nanodollars: z.int(),
    credits_remaining_nanodollars: z.int(),
  })
  .meta({ id: 'Balance' });

export const toBalanceBody = ({
  remaining,
  included,
  allowanceRemaining,
  creditsRemaining,
}: Balance): z.infer<typeof balanceSchema> => ({
  remaining_nanodollars: nanodollarsToJson(remaining),
  included_nanodollars: nanodollarsToJson(included),
  allowance_remaining_nanodollars: nanodollarsToJson(allowanceRemaining),
  credits_remaining_nanodollars: nanodollarsToJson(creditsRemaining),
});

const maxJsonNano = BigInt(Number.MAX_SAFE_INTEGER);

/** Converts to a JSON number. Amounts above 2^53 - 1 nanodollars (nine million dollars) are shown as that limit. */
export const nanodollarsToJson = (nano: Nano): number =>
  Number(nano > maxJsonNano ? maxJsonNano : nano < -maxJsonNano ? -maxJsonNano : nano);
