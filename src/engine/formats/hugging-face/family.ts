import type { Json } from '../../../util/json.ts';
import type { Config } from './config.ts';
import type { Keys } from './keys.ts';
import type { Turns } from './turned-rows.ts';

/** What becomes of a tensor besides its name. */
export interface Target {
  readonly name: string;
  /**
   * Config keys, the first that is there, of the number of heads whose rows lie in halves and are wanted in pairs:
   * rotation takes (i, i + half) in transformers and (2i, 2i + 1) in GGUF's llama.
   */
  readonly pairUp?: readonly string[];
  /** Added to every value: Gemma stores norms less one. */
  readonly plus?: number;
  /** What becomes of every value. */
  readonly each?: (value: number) => number;
  /** A convolution of every channel by itself, [channels, 1, taps], as a matrix. */
  readonly taps?: true;
  /** Heads that lie side by side and are wanted in turns; undefined where that is the same. */
  readonly turns?: (config: Config) => Turns | undefined;
  /** Presented as F32 whatever it is stored as. Vectors always are. */
  readonly float?: true;
}

/** Where the matrices of experts are, each expert's own or those of all in one tensor. */
export interface ExpertLayout {
  /** Before the names of matrices, without the prefixes; `#` is the layer. */
  readonly at: string;
  /** Gate and up in one tensor: all rows of gate first, or a row of each in turns. */
  readonly gateUp: 'halves' | 'turns';
  /** Tensors of all experts are [experts, columns, rows]. */
  readonly columnsFirst?: true;
}

/** One architecture of transformers in GGUF's words, as llama.cpp's converter puts it. */
export interface Family {
  /** `general.architecture`. */
  readonly architecture: string;
  /** What transformers fills in where config.json says nothing. */
  readonly defaults?: Json;
  /** Names of tensors without `.weight` and `.bias`; `#` is the layer. Both lists without the prefixes. */
  readonly tensors: Readonly<Record<string, string | Target>>;
  /** The same for names that end in neither, with the whole names of GGUF. */
  readonly bare?: Readonly<Record<string, string | Target>>;
  readonly experts?: ExpertLayout;
  /** `quant_method` of config.json whose weights are read. */
  readonly packing?: string;
  /** What a checkpoint may put before every name. */
  readonly prefixes: readonly string[];
  /** Tensors that mean nothing to the text model, by their whole names. */
  readonly ignored?: RegExp;
  /** Writes the numbers of the model; says what it cannot accept with `config.refuse` and `config.expect`. */
  metadata(config: Config, keys: Keys): void;
  /** Vectors that the checkpoint has as numbers in its configuration. */
  vectors?(config: Config): ReadonlyMap<string, Float32Array>;
}
