import type { Json } from '../../util/json.ts';
import type { UpstreamModel } from '../core/types.ts';
import type { Effort } from '../core/types.ts';
import type { Reasoning } from '../core/conversation.ts';
import { efforts as allEfforts, effortOf, nearestEffort } from '../core/effort.ts';

/** Differences between providers of the chat wire. */

/**
 * OpenAI's reasoning models refuse `max_tokens`. Other implementations of the wire accept this older name, and Mistral,
 * DeepSeek and many servers do not know `max_completion_tokens` or ignore it, which would leave the answer unbounded.
 */
export const maxTokensMember = ({ family, caps }: UpstreamModel): 'max_completion_tokens' | 'max_tokens' =>
  family === 'openai' && caps.has('reasoning') ? 'max_completion_tokens' : 'max_tokens';

/** Whether the provider accepts either name. */
export const acceptsBothLimitMembers = ({ family, provider }: UpstreamModel): boolean =>
  family === 'openai' || provider.wire === 'lathe';

/** Whether a service tier is the one that the configured prices apply to. */
const isDefaultTier = (tier: unknown): boolean =>
  tier === undefined || tier === null || tier === 'auto' || tier === 'default';

/**
 * Edits `service_tier`: a tier without a price is removed. For a model with prices for several tiers the default one is named,
 * because a provider may take another one for `auto`, as its project is set.
 */
export function tierEdit({ service_tier: tier }: Json, { serviceTiers = [] }: UpstreamModel): Json {
  if (serviceTiers.some((priced) => priced === tier)) return {};
  if (serviceTiers.length > 0) return tier === 'default' ? {} : { service_tier: 'default' };
  return isDefaultTier(tier) ? {} : { service_tier: undefined };
}

const mistralHost = /^https?:\/\/([\w-]+\.)*mistral\.ai([:/]|$)/;

/** Whether the provider always reports usage. Mistral's service does, and answers 422 to a request for it. */
export const alwaysReportsUsage = ({ provider }: UpstreamModel): boolean =>
  provider.baseUrls.some((url) => mistralHost.test(url));

/** Whether the provider refuses message members it does not know, such as reasoning. */
export const refusesUnknownMembers = ({ family, provider }: UpstreamModel): boolean =>
  provider.wire !== 'lathe' && (family === 'openai' || family === 'mistral');

/** The request member for the seed. */
export const seedMember = ({ family, provider }: UpstreamModel): 'seed' | 'random_seed' =>
  family === 'mistral' && provider.wire !== 'lathe' ? 'random_seed' : 'seed';

/** Levels that all reasoning models of OpenAI's wires with levels support. */
const commonEfforts: readonly Effort[] = ['low', 'medium', 'high'];

/**
 * The effort levels of a model on OpenAI's wires: the configured ones, else the usual ones. Other hosts of this project
 * support all levels. Mistral's service answers 422 to members that a model does not know, so no levels are assumed for
 * its models.
 */
export function supportedEfforts({ efforts, caps, family, provider }: UpstreamModel): readonly Effort[] {
  if (efforts) return efforts;
  if (!caps.has('reasoning')) return [];
  if (provider.wire === 'lathe') return allEfforts;
  return family === 'mistral' ? [] : commonEfforts;
}

/**
 * The level to request; undefined where the model has none. A token budget is converted to the nearest effort.
 */
export function resolveEffort(
  { effort, maxTokens: budget }: Reasoning,
  model: UpstreamModel,
  maxTokens: number,
): Effort | undefined {
  const requested = effort ?? (budget === undefined ? undefined : effortOf(budget, maxTokens));
  return requested === undefined ? undefined : nearestEffort(requested, supportedEfforts(model));
}
