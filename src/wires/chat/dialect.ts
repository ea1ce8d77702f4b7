import type { UpstreamModel } from '../core/types.ts';
import type { Effort } from '../core/types.ts';
import type { Reasoning } from '../core/conversation.ts';
import { efforts as allEfforts, effortOf, nearestEffort } from '../core/effort.ts';

/** How providers of the chat wire differ in what they take. */

/**
 * OpenAI's reasoning models refuse `max_tokens` by name. Everybody who copied the wire knows that older name, and Mistral,
 * DeepSeek and many servers do not know `max_completion_tokens` or ignore it, which would leave the answer unbounded.
 */
export const limitMember = ({ family, caps }: UpstreamModel): 'max_completion_tokens' | 'max_tokens' =>
  family === 'openai' && caps.has('reasoning') ? 'max_completion_tokens' : 'max_tokens';

/** Takes either name. */
export const takesBothLimits = ({ family, provider }: UpstreamModel): boolean =>
  family === 'openai' || provider.wire === 'lathe';

/** The tier that the rate card is of. */
export const isUsualTier = (tier: unknown): boolean =>
  tier === undefined || tier === null || tier === 'auto' || tier === 'default';

const mistralHost = /^https?:\/\/([\w-]+\.)*mistral\.ai([:/]|$)/;

/** Mistral's own service always counts, and answers 422 to whoever asks for it. */
export const countsUnasked = ({ provider }: UpstreamModel): boolean =>
  provider.baseUrls.some((url) => mistralHost.test(url));

/** Refuses members of messages that it does not know, such as thoughts. */
export const isStrict = ({ family, provider }: UpstreamModel): boolean =>
  provider.wire !== 'lathe' && (family === 'openai' || family === 'mistral');

/** The name of the seed. */
export const seedMember = ({ family, provider }: UpstreamModel): 'seed' | 'random_seed' =>
  family === 'mistral' && provider.wire !== 'lathe' ? 'random_seed' : 'seed';

/** What all reasoning models of OpenAI's wires take that take levels at all. */
const usualEfforts: readonly Effort[] = ['low', 'medium', 'high'];

/**
 * The levels of a model on OpenAI's wires: those of the configuration, else what is assumed of the wire. Our own host knows
 * all of them. Mistral's service answers 422 to members that a model does not know, so nothing is assumed of its models.
 */
export function effortsOf({ efforts, caps, family, provider }: UpstreamModel): readonly Effort[] {
  if (efforts) return efforts;
  if (!caps.has('reasoning')) return [];
  if (provider.wire === 'lathe') return allEfforts;
  return family === 'mistral' ? [] : usualEfforts;
}

/** The level to ask for; undefined where the model has none. A budget becomes the effort that comes nearest. */
export function effortFor(
  { effort, maxTokens: budget }: Reasoning,
  model: UpstreamModel,
  maxTokens: number,
): Effort | undefined {
  const wanted = effort ?? (budget === undefined ? undefined : effortOf(budget, maxTokens));
  return wanted === undefined ? undefined : nearestEffort(wanted, effortsOf(model));
}
