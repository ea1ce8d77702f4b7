import type { Config } from '../config.ts';
import type { Keys } from '../keys.ts';

/** Writes the number of experts, the experts per token, and the feed-forward width of an expert. */
export const writeExperts = (config: Config, keys: Keys, feedForward: number): void => {
  keys.set('expert_count', config.count('num_experts', 'num_local_experts'));
  keys.set('expert_used_count', config.count('num_experts_per_tok'));
  keys.set('expert_feed_forward_length', feedForward);
};
