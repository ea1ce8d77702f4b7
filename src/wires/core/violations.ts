import type { z } from 'zod';
import { isUnsupported, leafIssues, maxViolations, toViolation } from '../../http/violations.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { invalidRequest } from './error.ts';
import { describeType } from './json.ts';

/** Collects the violations of a body, so that all are reported at once. */
export class Violations {
  readonly #all: { readonly path: string; readonly message: string; readonly unsupported: boolean }[] = [];

  /** @param message what was expected and what came */
  add(path: string, message: string): void {
    this.#all.push({ path, message, unsupported: false });
  }

  /** Adds a violation for a valid value that is not supported. */
  addUnsupported(path: string, message: string): void {
    this.#all.push({ path, message, unsupported: true });
  }

  /** @throws WireError 400 where there are violations */
  throwIfAny(): void {
    const [first] = this.#all;
    if (!first) return;
    const shown = this.#all.slice(0, maxViolations);
    const hiddenCount = this.#all.length - shown.length;
    const message = [
      ...shown.map((each) => `${each.path}: ${each.message}.`),
      ...(hiddenCount > 0 ? [`And ${hiddenCount} more.`] : []),
    ].join(' ');
    throw invalidRequest(message, {
      param: first.path,
      ...(this.#all.every(({ unsupported }) => unsupported) ? { code: 'unsupported_parameter' } : {}),
      violations: shown.map(({ path, message: what }) => ({ path, message: what })),
    });
  }

  /**
   * Parses a value with a schema; adds violations and returns undefined where it is invalid.
   * @param at path of the value in the body
   */
  parse<Shape extends z.ZodType>(
    shape: Shape,
    value: unknown,
    ...at: readonly string[]
  ): z.infer<Shape> | undefined {
    const result = shape.safeParse(value, { reportInput: false });
    if (result.success) return result.data;
    for (const issue of result.error.issues.flatMap(leafIssues)) {
      const { path, message } = toViolation({ ...issue, path: [...at, ...issue.path] });
      // A schema's message states what it expected, not what it received.
      const received = message.startsWith('expected ')
        ? `, got ${describeValue(valueAt(value, issue.path))}`
        : '';
      this[isUnsupported(issue) ? 'addUnsupported' : 'add'](path, message + received);
    }
    return undefined;
  }

  /** The text at a path; '' where there is none. */
  text(value: unknown, path: string): string {
    if (typeof value === 'string') return value;
    this.add(path, `expected a text, got ${describeType(value)}`);
    return '';
  }

  name(value: unknown, path: string): string {
    if (typeof value === 'string' && value !== '') return value;
    this.add(
      path,
      `expected a text that is not empty, got ${value === '' ? 'an empty one' : describeType(value)}`,
    );
    return '';
  }

  /** Undefined where the value is absent or null. */
  flag(value: unknown, path: string): boolean | undefined {
    if (value === undefined || value === null) return undefined;
    if (typeof value === 'boolean') return value;
    this.add(path, `expected true or false, got ${describeType(value)}`);
    return undefined;
  }

  number(
    value: unknown,
    path: string,
    bounds: { readonly min: number; readonly max?: number; readonly isInteger?: true },
  ): number | undefined {
    if (value === undefined || value === null) return undefined;
    const { min, max = Number.POSITIVE_INFINITY, isInteger } = bounds;
    const isInRange = typeof value === 'number' && value >= min && value <= max;
    if (isInRange && (!isInteger || Number.isSafeInteger(value))) return value;
    const upper = max === Number.POSITIVE_INFINITY ? '' : ` and at most ${max}`;
    const received = typeof value === 'number' ? String(value) : describeType(value);
    this.add(
      path,
      `expected a ${isInteger ? 'whole ' : ''}number of at least ${min}${upper}, got ${received}`,
    );
    return undefined;
  }

  record(value: unknown, path: string): Json | undefined {
    if (value === undefined || value === null) return undefined;
    if (isRecord(value)) return value;
    this.add(path, `expected an object, got ${describeType(value)}`);
    return undefined;
  }

  list(value: unknown, path: string): readonly unknown[] {
    if (value === undefined || value === null) return [];
    if (Array.isArray(value)) return value as unknown[];
    this.add(path, `expected an array, got ${describeType(value)}`);
    return [];
  }
}

/**
 * Parses a value with a schema.
 * @param at path of the value in the body
 * @throws WireError 400 that lists all violations
 */
export function parseOrThrow<Shape extends z.ZodType>(
  shape: Shape,
  value: unknown,
  ...at: readonly string[]
): z.infer<Shape> {
  const violations = new Violations();
  const read = violations.parse(shape, value, ...at);
  violations.throwIfAny();
  return read as z.infer<Shape>;
}

const valueAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (inside, step) =>
      isRecord(inside) || Array.isArray(inside) ? (inside as Json)[String(step)] : undefined,
    value,
  );

const describeValue = (value: unknown): string =>
  typeof value === 'number' ? String(value) : describeType(value);
