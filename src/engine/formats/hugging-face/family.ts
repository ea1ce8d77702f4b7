import type { Config } from './config.ts';
import type { JsonObject } from '../json-file.ts';
import type { Keys } from './keys.ts';

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
  /** Presented as F32 whatever it is stored as. Vectors always are. */
  readonly float?: true;
}

/** One architecture of transformers in GGUF's words, as llama.cpp's converter puts it. */
export interface Family {
  /** `general.architecture`. */
  readonly architecture: string;
  /** What transformers fills in where config.json says nothing. */
  readonly defaults?: JsonObject;
  /** Names of tensors without `.weight` and `.bias`; `#` is the layer. Both lists without the prefixes. */
  readonly tensors: Readonly<Record<string, string | Target>>;
  /** What a checkpoint may put before every name. */
  readonly prefixes: readonly string[];
  /** Tensors that mean nothing to the text model, by their whole names. */
  readonly ignored?: RegExp;
  /** Writes the numbers of the model; says what it cannot accept with `config.refuse` and `config.expect`. */
  metadata(config: Config, keys: Keys): void;
  /** Vectors that the checkpoint has as numbers in its configuration. */
  vectors?(config: Config): ReadonlyMap<string, Float32Array>;
}
