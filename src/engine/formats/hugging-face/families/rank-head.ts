import type { ModelConfig } from '../config.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { qwen3RerankerName, rankPooling } from '../../rerankers.ts';

/** The first heading of its README. */
const readmeTitle = new RegExp(`^# *${qwen3RerankerName.source}`, 'im');

const writeRankPooling = (writer: MetadataWriter): void => writer.set('pooling_type', rankPooling);

/** Marks a model with a classification head of one label as one that ranks documents. Others classify texts. */
export const writeRankHead = (config: ModelConfig, writer: MetadataWriter): void => {
  const labels = config.object('id2label');
  const count = labels ? Object.keys(labels).length : (config.optionalNumber('num_labels') ?? 2);
  if (count !== 1)
    config.addProblem(
      `the classification head has ${count} labels, so the model classifies texts and does not rank documents (supported: 1)`,
    );
  writeRankPooling(writer);
};

/**
 * Marks a Qwen3-Reranker, which is published as a model that generates: only its name and its README tell it from a
 * chat model.
 */
export const markQwen3Reranker = (config: ModelConfig, readme: string, writer: MetadataWriter): boolean => {
  const name = config.get('_name_or_path');
  const isReranker = readmeTitle.test(readme) || (typeof name === 'string' && qwen3RerankerName.test(name));
  if (isReranker) writeRankPooling(writer);
  return isReranker;
};
