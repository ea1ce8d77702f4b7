/** Metadata that changes the forward pass, and the architectures that implement it. All others reject it. */
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import { fieldOf, numberOf } from './metadata.ts';

interface Feature {
  readonly key: string;
  /** Plural noun for the message. */
  readonly what: string;
  /** Architectures that implement the key, or whose models are correct without it. */
  readonly handledBy?: readonly string[];
  /** True when the value changes the computation. Defaults to a number other than 0. */
  readonly isUsed?: (file: ModelFile, key: string) => boolean;
}

const isNumber = (file: ModelFile, key: string): boolean => numberOf(file, key, 0) !== 0;
/** For factors: 0 counts as missing, because writers use it that way. */
const isFactor = (file: ModelFile, key: string): boolean => ![0, 1].includes(numberOf(file, key, 0));

const usualHeadDim = (file: ModelFile): number =>
  numberOf(file, 'embedding_length', 0) / numberOf(file, 'attention.head_count', 1);

/** The default is 1 / sqrt(head dimension), but 1 for Gemma 4. */
const isOtherScale = (file: ModelFile, key: string): boolean => {
  const scale = numberOf(file, key, 0);
  const isGemma4 = file.metadata.get('general.architecture') === 'gemma4';
  const usual = isGemma4 ? 1 : numberOf(file, 'attention.key_length', usualHeadDim(file)) ** -0.5;
  return scale !== 0 && Math.abs(scale - usual) > 1e-4 * usual;
};

const isOtherThanKeys = (file: ModelFile, key: string): boolean =>
  fieldOf(file, key) !== undefined &&
  numberOf(file, key) !== numberOf(file, 'attention.key_length', usualHeadDim(file));

const encoders = ['bert', 'nomic-bert', 'gemma-embedding'];
const hybrids = ['lfm2', 'qwen35'];
const features: readonly Feature[] = [
  { key: 'expert_count', what: 'experts', handledBy: ['gpt-oss', 'qwen3moe'] },
  { key: 'nextn_predict_layers', what: 'layers that predict further tokens', handledBy: ['qwen35'] },
  { key: 'embedding_length_per_layer_input', what: 'per-layer inputs', handledBy: ['gemma4'] },
  { key: 'attention.shared_kv_layers', what: 'layers that share keys and values', handledBy: ['gemma4'] },
  { key: 'attention.value_length', what: 'values and keys of different lengths', isUsed: isOtherThanKeys },
  {
    key: 'attention.scale',
    what: 'nonstandard scales of attention scores',
    handledBy: ['gemma3', 'gemma-embedding', 'granite'],
    isUsed: isOtherScale,
  },
  { key: 'embedding_scale', what: 'scaled embeddings', handledBy: ['granite'], isUsed: isFactor },
  { key: 'residual_scale', what: 'scaled sums', handledBy: ['granite'], isUsed: isFactor },
  { key: 'logit_scale', what: 'scaled logits', handledBy: ['granite'], isUsed: isFactor },
  // Embeddings are taken before the logits are computed.
  { key: 'final_logit_softcapping', what: 'soft-capped logits', handledBy: ['gemma4', ...encoders] },
  { key: 'attn_logit_softcapping', what: 'soft-capped scores' },
  { key: 'attention.clamp_kqv', what: 'clamped queries, keys and values' },
  { key: 'attention.max_alibi_bias', what: 'ALiBi positions' },
  { key: 'attention.temperature_scale', what: 'attention scores scaled by position' },
  {
    key: 'use_parallel_residual',
    what: 'feed-forwards parallel to attention',
    isUsed: (file, key) => fieldOf(file, key) === true,
  },
  // The listed architectures apply the window, or have configurations that specify one which their models do not use.
  {
    key: 'attention.sliding_window',
    what: 'sliding windows',
    handledBy: [
      ...['gemma3', 'gemma4', 'gemma-embedding', 'gpt-oss', 'llama', 'phi3'],
      ...['granite', 'qwen2', 'qwen3', 'qwen3moe', 'smollm3'],
    ],
  },
  // The listed architectures produce an embedding when a file specifies a pooling.
  {
    key: 'pooling_type',
    what: 'embeddings',
    handledBy: [
      ...encoders,
      ...['gemma3', 'gpt-oss', 'granite', 'llama', 'phi3', 'qwen2', 'qwen3', 'qwen3moe', 'smollm3'],
    ],
  },
  {
    key: 'attention.causal',
    what: 'bidirectional attention masks',
    handledBy: encoders,
    isUsed: (file, key) => fieldOf(file, key) === false && !hasPooling(file),
  },
];

/** Decoders that make embeddings implement `attention.causal`. */
const hasPooling = (file: ModelFile): boolean =>
  !hybrids.includes(String(file.metadata.get('general.architecture'))) &&
  numberOf(file, 'pooling_type', 0) > 0;

/**
 * Rejects a file whose metadata requires a computation that its architecture's graph does not implement. Otherwise
 * outputs would be wrong, or a missing tensor would be reported that the file cannot have.
 * @throws ModelFileError `unsupported_architecture`
 */
export function refuseUnsupported(file: ModelFile): void {
  const architecture = String(file.metadata.get('general.architecture'));
  for (const { key, what, handledBy = [], isUsed = isNumber } of features) {
    if (handledBy.includes(architecture) || !isUsed(file, key)) continue;
    const others = handledBy.length > 0 ? `; supported for ${handledBy.join(', ')}` : '';
    throw new ModelFileError(
      'unsupported_architecture',
      `${file.name}: ${what} are not supported for ${architecture}${others} ` +
        `(metadata '${architecture}.${key}' is ${String(fieldOf(file, key))})`,
    );
  }
}
