import type { MetadataArray, MetadataScalar } from '../model-file.ts';

/** Builds GGUF metadata. Keys are prefixed with the architecture's name. */
export class MetadataWriter {
  readonly entries = new Map<string, MetadataScalar | MetadataArray>();
  readonly #architecture: string;

  constructor(architecture: string) {
    this.#architecture = architecture;
    this.entries.set('general.architecture', architecture);
  }

  /** Does nothing when `value` is undefined. */
  set(key: string, value: MetadataScalar | MetadataArray | undefined): void {
    if (value !== undefined) this.entries.set(`${this.#architecture}.${key}`, value);
  }

  /** Sets a number rounded to f32, as a GGUF file would store it. */
  setFloat(key: string, value: number | undefined): void {
    if (value !== undefined) this.set(key, Math.fround(value));
  }
}
