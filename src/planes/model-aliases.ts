import { type ModelAlias, residentTarget } from '../words/model-alias.ts';

/** Further names of models (`--alias`), which requests use as `model`. */
export class ModelAliases {
  readonly #targets: ReadonlyMap<string, string>;

  constructor(aliases: readonly ModelAlias[] = []) {
    this.#targets = new Map(aliases.map(({ name, target }) => [name, target]));
  }

  get names(): readonly string[] {
    return [...this.#targets.keys()];
  }

  has(name: string): boolean {
    return this.#targets.has(stripLatestTag(name));
  }

  /** The name of the model that a request means; undefined for the resident model. Names without an alias stay. */
  resolve(requestedModel: string | undefined): string | undefined {
    const target = this.#targets.get(stripLatestTag(requestedModel ?? ''));
    return target === residentTarget ? undefined : (target ?? requestedModel);
  }
}

/** Removes Ollama's default tag, which has no meaning here. */
export const stripLatestTag = (requestedModel: string): string => requestedModel.replace(/:latest$/, '');
