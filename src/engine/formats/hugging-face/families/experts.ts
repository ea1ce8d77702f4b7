import type { Config } from '../config.ts';
import type { Keys } from '../keys.ts';

/** How many experts there are, and how many of them a token has. */
export const writeExperts = (config: Config, keys: Keys, feedForward: number): void => {
  keys.set('expert_count', config.count('num_experts', 'num_local_experts'));
  keys.set('expert_used_count', config.count('num_experts_per_tok'));
  keys.set('expert_feed_forward_length', feedForward);
};
