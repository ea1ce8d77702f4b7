import type { Json } from '../../../util/json.ts';
import type { Config } from './config.ts';
import type { Keys } from './keys.ts';
import type { Turns } from './turned-rows.ts';

/** How a checkpoint tensor is converted to a GGUF tensor: its name and changes to its values. */
export interface Target {
  readonly name: string;
  /**
   * Config keys of the number of heads; the first that exists counts. Rows of each head are interleaved: rotary
   * embeddings pair rows (i, i + half) in transformers and (2i, 2i + 1) in GGUF's llama.
   */
  readonly pairUp?: readonly string[];
  /** Added to every value: Gemma stores norm weights minus one. */
  readonly plus?: number;
  /** Applied to every value. */
  readonly each?: (value: number) => number;
  /** A depthwise convolution [channels, 1, taps], converted to a matrix [channels, taps]. */
  readonly taps?: true;
  /** Reorders heads from grouped to interleaved order; undefined when both orders are equal. */
  readonly turns?: (config: Config) => Turns | undefined;
  /** Converts the tensor to F32. Vectors always are. */
  readonly float?: true;
}

/** How a checkpoint stores the matrices of experts, one tensor per expert or one for all. */
export interface ExpertLayout {
  /** Name prefix of the matrices, without the prefixes of the family; `#` is the layer. */
  readonly at: string;
  /** Row order of a combined gate and up tensor: all gate rows first (`halves`), or alternating (`turns`). */
  readonly gateUp: 'halves' | 'turns';
  /** Whether tensors for all experts are [experts, columns, rows]. */
  readonly columnsFirst?: true;
}

/** Maps one transformers architecture to GGUF, as llama.cpp's converter does. */
export interface Family {
  /** `general.architecture`. */
  readonly architecture: string;
  /** The defaults of transformers for keys that config.json does not have. */
  readonly defaults?: Json;
  /** Checkpoint names to GGUF names, without `.weight` and `.bias` and without the prefixes; `#` is the layer. */
  readonly tensors: Readonly<Record<string, string | Target>>;
  /** The same for checkpoint names without such a suffix; the GGUF names are complete. */
  readonly bare?: Readonly<Record<string, string | Target>>;
  readonly experts?: ExpertLayout;
  /** The supported `quant_method` of config.json. */
  readonly packing?: string;
  /** Prefixes that a checkpoint may put before every name. */
  readonly prefixes: readonly string[];
  /** Matches the complete names of tensors that the text model does not use. */
  readonly ignored?: RegExp;
  /** Writes the model's hyperparameters; reports unsupported ones with `config.addProblem` and `config.allowOnly`. */
  metadata(config: Config, keys: Keys): void;
  /** Vectors that are computed from the configuration, by GGUF name. */
  vectors?(config: Config): ReadonlyMap<string, Float32Array>;
}
