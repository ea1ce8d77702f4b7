/** Metadata that changes the forward pass, and the architectures that implement it. All others reject it. */
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import { metadataValue, readNumber } from './metadata.ts';

interface Feature {
  readonly key: string;
  /** Plural noun for the message. */
  readonly description: string;
  /** Architectures that implement the key, or whose models are correct without it. */
  readonly handledBy?: readonly string[];
  /** True when the value changes the computation. Defaults to a number other than 0. */
  readonly isUsed?: (file: ModelFile, key: string) => boolean;
}

const isNonZero = (file: ModelFile, key: string): boolean => readNumber(file, key, 0) !== 0;
/** For factors: 0 counts as missing, because writers use it that way. */
const isScaled = (file: ModelFile, key: string): boolean => ![0, 1].includes(readNumber(file, key, 0));

const defaultHeadDim = (file: ModelFile): number =>
  readNumber(file, 'embedding_length', 0) / readNumber(file, 'attention.head_count', 1);

/** The default is 1 / sqrt(head dimension), but 1 for Gemma 4. */
const isNonstandardScale = (file: ModelFile, key: string): boolean => {
  const scale = readNumber(file, key, 0);
  const isGemma4 = file.metadata.get('general.architecture') === 'gemma4';
  const defaultScale = isGemma4 ? 1 : readNumber(file, 'attention.key_length', defaultHeadDim(file)) ** -0.5;
  return scale !== 0 && Math.abs(scale - defaultScale) > 1e-4 * defaultScale;
};

const differsFromKeys = (file: ModelFile, key: string): boolean =>
  metadataValue(file, key) !== undefined &&
  readNumber(file, key) !== readNumber(file, 'attention.key_length', defaultHeadDim(file));

const encoders = ['bert', 'nomic-bert', 'gemma-embedding'];
const hybrids = ['lfm2', 'qwen35'];
const features: readonly Feature[] = [
  { key: 'expert_count', description: 'experts', handledBy: ['gpt-oss', 'qwen3moe'] },
  { key: 'nextn_predict_layers', description: 'layers that predict further tokens', handledBy: ['qwen35'] },
  { key: 'embedding_length_per_layer_input', description: 'per-layer inputs', handledBy: ['gemma4'] },
  {
    key: 'attention.shared_kv_layers',
    description: 'layers that share keys and values',
    handledBy: ['gemma4'],
  },
  {
    key: 'attention.value_length',
    description: 'values and keys of different lengths',
    isUsed: differsFromKeys,
  },
  {
    key: 'attention.scale',
    description: 'nonstandard scales of attention scores',
    handledBy: ['gemma3', 'gemma-embedding', 'granite'],
    isUsed: isNonstandardScale,
  },
  { key: 'embedding_scale', description: 'scaled embeddings', handledBy: ['granite'], isUsed: isScaled },
  { key: 'residual_scale', description: 'scaled sums', handledBy: ['granite'], isUsed: isScaled },
  { key: 'logit_scale', description: 'scaled logits', handledBy: ['granite'], isUsed: isScaled },
  // Embeddings are taken before the logits are computed.
  { key: 'final_logit_softcapping', description: 'soft-capped logits', handledBy: ['gemma4', ...encoders] },
  { key: 'attn_logit_softcapping', description: 'soft-capped scores' },
  { key: 'attention.clamp_kqv', description: 'clamped queries, keys and values' },
  { key: 'attention.max_alibi_bias', description: 'ALiBi positions' },
  { key: 'attention.temperature_scale', description: 'attention scores scaled by position' },
  {
    key: 'use_parallel_residual',
    description: 'feed-forwards parallel to attention',
    isUsed: (file, key) => metadataValue(file, key) === true,
  },
  // The listed architectures apply the window, or have configurations that specify one which their models do not use.
  {
    key: 'attention.sliding_window',
    description: 'sliding windows',
    handledBy: [
      ...['gemma3', 'gemma4', 'gemma-embedding', 'gpt-oss', 'llama', 'phi3'],
      ...['granite', 'qwen2', 'qwen3', 'qwen3moe', 'smollm3'],
    ],
  },
  // The listed architectures produce an embedding when a file specifies a pooling.
  {
    key: 'pooling_type',
    description: 'embeddings',
    handledBy: [
      ...encoders,
      ...['gemma3', 'gpt-oss', 'granite', 'llama', 'phi3', 'qwen2', 'qwen3', 'qwen3moe', 'smollm3'],
    ],
  },
  {
    key: 'attention.causal',
    description: 'bidirectional attention masks',
    handledBy: encoders,
    isUsed: (file, key) => metadataValue(file, key) === false && !hasPooling(file),
  },
];

/** Decoders that make embeddings implement `attention.causal`. */
const hasPooling = (file: ModelFile): boolean =>
  !hybrids.includes(String(file.metadata.get('general.architecture'))) &&
  readNumber(file, 'pooling_type', 0) > 0;

/**
 * Rejects a file whose metadata requires a computation that its architecture's graph does not implement. Otherwise
 * outputs would be wrong, or a missing tensor would be reported that the file cannot have.
 * @throws ModelFileError `unsupported_architecture`
 */
export function refuseUnsupported(file: ModelFile): void {
  const architecture = String(file.metadata.get('general.architecture'));
  for (const { key, description, handledBy = [], isUsed = isNonZero } of features) {
    if (handledBy.includes(architecture) || !isUsed(file, key)) continue;
    const supportedBy = handledBy.length > 0 ? `; supported for ${handledBy.join(', ')}` : '';
    throw new ModelFileError(
      'unsupported_architecture',
      `${file.name}: ${description} are not supported for ${architecture}${supportedBy} ` +
        `(metadata '${architecture}.${key}' is ${String(metadataValue(file, key))})`,
    );
  }
}
