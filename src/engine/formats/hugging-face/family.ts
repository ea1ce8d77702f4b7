import type { Json } from '../../../util/json.ts';
import type { ModelConfig } from './config.ts';
import type { MetadataWriter } from './metadata-writer.ts';
import type { HeadOrder } from './head-order.ts';

/** How a checkpoint tensor is converted to a GGUF tensor: its name and changes to its values. */
export interface TargetTensor {
  readonly name: string;
  /**
   * Config keys of the number of heads; the first that exists counts. Rows of each head are interleaved: rotary
   * embeddings pair rows (i, i + half) in transformers and (2i, 2i + 1) in GGUF's llama.
   */
  readonly interleaveHeads?: readonly string[];
  /** Added to every value: Gemma stores norm weights minus one. */
  readonly addend?: number;
  /** Applied to every value. */
  readonly mapValue?: (value: number) => number;
  /** A depthwise convolution [channels, 1, taps], converted to a matrix [channels, taps]. */
  readonly isDepthwiseConv?: true;
  /** Reorders heads from grouped to interleaved order; undefined when both orders are equal. */
  readonly reorderHeads?: (config: ModelConfig) => HeadOrder | undefined;
  /** Number of rows at the start of a matrix that the model does not use. */
  readonly skippedRows?: (config: ModelConfig) => number;
  /** Converts the tensor to F32. Vectors always are. */
  readonly asFloat?: true;
}

/** How a checkpoint stores the matrices of experts, one tensor per expert or one for all. */
export interface ExpertLayout {
  /** Name prefix of the matrices, without the prefixes of the family; `#` is the layer. */
  readonly namePrefix: string;
  /** Row order of a combined gate and up tensor: all gate rows first (`halves`), or alternating (`turns`). */
  readonly gateUpOrder: 'halves' | 'turns';
  /** Whether tensors for all experts are [experts, columns, rows]. */
  readonly isTransposed?: true;
}

/** Maps one transformers architecture to GGUF, as llama.cpp's converter does. */
export interface ModelFamily {
  /** `general.architecture`. */
  readonly architecture: string;
  /** The defaults of transformers for keys that config.json does not have. */
  readonly defaults?: Json;
  /** Checkpoint names to GGUF names, without `.weight` and `.bias` and without the prefixes; `#` is the layer. */
  readonly tensors: Readonly<Record<string, string | TargetTensor>>;
  /** The same for checkpoint names without such a suffix; the GGUF names are complete. */
  readonly unsuffixedTensors?: Readonly<Record<string, string | TargetTensor>>;
  readonly experts?: ExpertLayout;
  /** The supported `quant_method` of config.json. */
  readonly quantMethod?: string;
  /** Prefixes that a checkpoint may put before every name. */
  readonly prefixes: readonly string[];
  /** Matches the complete names of tensors that the text model does not use. */
  readonly ignoredTensors?: RegExp;
  /** Writes the model's hyperparameters; reports unsupported ones with `config.addProblem` and `config.allowOnly`. */
  writeMetadata(config: ModelConfig, keys: MetadataWriter): void;
  /** Vectors that are computed from the configuration, by GGUF name. */
  computeVectors?(config: ModelConfig): ReadonlyMap<string, Float32Array>;
}
