import type { ModelConfig } from '../config.ts';
import type { MetadataWriter } from '../metadata-writer.ts';

/** Writes the number of experts, the experts per token, and the feed-forward width of an expert. */
export const writeExperts = (config: ModelConfig, writer: MetadataWriter, feedForward: number): void => {
  writer.set('expert_count', config.count('num_experts', 'num_local_experts'));
  writer.set('expert_used_count', config.count('num_experts_per_tok'));
  writer.set('expert_feed_forward_length', feedForward);
};
