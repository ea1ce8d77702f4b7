import type { MetadataArray, MetadataScalar } from '../model-file.ts';

/** Metadata as GGUF has it: keys below the architecture's name, numbers as its types hold them. */
export class Keys {
  readonly entries = new Map<string, MetadataScalar | MetadataArray>();
  readonly #architecture: string;

  constructor(architecture: string) {
    this.#architecture = architecture;
    this.entries.set('general.architecture', architecture);
  }

  /** Nothing for undefined. */
  set(key: string, value: MetadataScalar | MetadataArray | undefined): void {
    if (value !== undefined) this.entries.set(`${this.#architecture}.${key}`, value);
  }

  /** An f32, rounded as the file would have rounded it. */
  float(key: string, value: number | undefined): void {
    if (value !== undefined) this.set(key, Math.fround(value));
  }
}
