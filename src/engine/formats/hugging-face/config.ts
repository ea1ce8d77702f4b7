import { isRecord, type Json } from '../../../util/json.ts';
import { ModelFileError } from '../model-file.ts';

/**
 * Typed access to config.json, with the defaults of transformers for absent keys. Collects problems, and `assertValid`
 * reports all of them at once; until then a missing or invalid number is NaN.
 */
export class ModelConfig {
  readonly #name: string;
  readonly #values: Json;
  readonly #problems: string[] = [];
  readonly #sections: ModelConfig[] = [];
  #sectionPrefix = '';

  /** @param name names the model in error messages */
  constructor(name: string, values: Json, defaults: Json = {}) {
    this.#name = name;
    this.#values = { ...defaults, ...values };
  }

  /** The value of the first key that has one. Families and versions of transformers use different keys. */
  get(...keys: string[]): unknown {
    return keys.map((key) => this.#values[key]).find((value) => value !== undefined && value !== null);
  }

  /** A required number. */
  number(...keys: string[]): number {
    const value = this.get(...keys);
    if (value === undefined) return this.#reportProblem(`${keys.join(' or ')} is missing`);
    return this.#asNumber(keys, value);
  }

  optionalNumber(...keys: string[]): number | undefined {
    const value = this.get(...keys);
    return value === undefined ? undefined : this.#asNumber(keys, value);
  }

  /** A required integer >= 1. */
  count(...keys: string[]): number {
    return this.#asCount(keys, this.number(...keys));
  }

  optionalCount(...keys: string[]): number | undefined {
    const value = this.optionalNumber(...keys);
    return value === undefined ? undefined : this.#asCount(keys, value);
  }

  object(...keys: string[]): Json | undefined {
    const value = this.get(...keys);
    if (value === undefined || isRecord(value)) return value;
    this.#reportProblem(`${keys.join(' or ')} must be an object, got ${JSON.stringify(value)}`);
    return undefined;
  }

  /** A nested object of the configuration. `assertValid` reports its problems together with this one's. */
  section(sectionName: string, values: Json): ModelConfig {
    const config = new ModelConfig(this.#name, values);
    config.#sectionPrefix = `${sectionName}.`;
    this.#sections.push(config);
    return config;
  }

  /** Reports a problem unless the key is absent or has one of the values that the engine implements. */
  allowOnly(key: string, ...allowed: unknown[]): void {
    const value = this.get(key);
    if (value === undefined || allowed.includes(value)) return;
    const wanted = allowed.map((one) => JSON.stringify(one)).join(' or ') || 'none';
    this.#reportProblem(`${key} ${JSON.stringify(value)} is not supported (supported: ${wanted})`);
  }

  /** Adds a problem that the other methods do not cover. */
  addProblem(reportProblem: string): void {
    this.#reportProblem(reportProblem);
  }

  /** @throws ModelFileError `bad_config`, listing every problem */
  assertValid(): void {
    const problems = [this, ...this.#sections].flatMap((section) => section.#problems);
    if (problems.length === 0) return;
    throw new ModelFileError(
      'bad_config',
      `${this.#name}: config.json: ${[...new Set(problems)].join('; ')}`,
    );
  }

  #asNumber(keys: readonly string[], value: unknown): number {
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    return this.#reportProblem(`${keys.join(' or ')} must be a number, got ${JSON.stringify(value)}`);
  }

  #asCount(keys: readonly string[], value: number): number {
    if (Number.isNaN(value) || (Number.isSafeInteger(value) && value >= 1)) return value;
    return this.#reportProblem(`${keys.join(' or ')} must be a whole number >= 1, got ${value}`);
  }

  #reportProblem(text: string): number {
    this.#problems.push(this.#sectionPrefix + text);
    return Number.NaN;
  }
}
