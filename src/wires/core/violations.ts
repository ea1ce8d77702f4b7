import type { z } from 'zod';
import { isUnsupported, leavesOf, maxViolations, violationOf } from '../../http/violations.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { invalidRequest } from './error.ts';
import { kindOf } from './json.ts';

/** Collects the violations of a body, so that all are reported at once. */
export class Violations {
  readonly #all: { readonly path: string; readonly message: string; readonly unsupported: boolean }[] = [];

  /** @param message what was expected and what came */
  add(path: string, message: string): void {
    this.#all.push({ path, message, unsupported: false });
  }

  /** Adds a violation for a valid value that is not supported. */
  refuse(path: string, message: string): void {
    this.#all.push({ path, message, unsupported: true });
  }

  /** @throws WireError 400 where there are violations */
  throwAny(): void {
    const [first] = this.#all;
    if (!first) return;
    const told = this.#all.slice(0, maxViolations);
    const rest = this.#all.length - told.length;
    const message = [
      ...told.map((each) => `${each.path}: ${each.message}.`),
      ...(rest > 0 ? [`And ${rest} more.`] : []),
    ].join(' ');
    throw invalidRequest(message, {
      param: first.path,
      ...(this.#all.every(({ unsupported }) => unsupported) ? { code: 'unsupported_parameter' } : {}),
      violations: told.map(({ path, message: what }) => ({ path, message: what })),
    });
  }

  /**
   * Parses a value with a schema; adds violations and returns undefined where it is invalid.
   * @param at path of the value in the body
   */
  read<Shape extends z.ZodType>(
    shape: Shape,
    value: unknown,
    ...at: readonly string[]
  ): z.infer<Shape> | undefined {
    const result = shape.safeParse(value, { reportInput: false });
    if (result.success) return result.data;
    for (const issue of result.error.issues.flatMap(leavesOf)) {
      const { path, message } = violationOf({ ...issue, path: [...at, ...issue.path] });
      // A schema's message states what it expected, not what it received.
      const came = message.startsWith('expected ') ? `, got ${shown(valueAt(value, issue.path))}` : '';
      this[isUnsupported(issue) ? 'refuse' : 'add'](path, message + came);
    }
    return undefined;
  }

  /** The text at a path; '' where there is none. */
  text(value: unknown, path: string): string {
    if (typeof value === 'string') return value;
    this.add(path, `expected a text, got ${kindOf(value)}`);
    return '';
  }

  name(value: unknown, path: string): string {
    if (typeof value === 'string' && value !== '') return value;
    this.add(path, `expected a text that is not empty, got ${value === '' ? 'an empty one' : kindOf(value)}`);
    return '';
  }

  /** Undefined where the value is absent or null. */
  flag(value: unknown, path: string): boolean | undefined {
    if (value === undefined || value === null) return undefined;
    if (typeof value === 'boolean') return value;
    this.add(path, `expected true or false, got ${kindOf(value)}`);
    return undefined;
  }

  number(
    value: unknown,
    path: string,
    bounds: { readonly least: number; readonly most?: number; readonly whole?: true },
  ): number | undefined {
    if (value === undefined || value === null) return undefined;
    const { least, most = Number.POSITIVE_INFINITY, whole } = bounds;
    const isFit = typeof value === 'number' && value >= least && value <= most;
    if (isFit && (!whole || Number.isSafeInteger(value))) return value;
    const upper = most === Number.POSITIVE_INFINITY ? '' : ` and at most ${most}`;
    const came = typeof value === 'number' ? String(value) : kindOf(value);
    this.add(path, `expected a ${whole ? 'whole ' : ''}number of at least ${least}${upper}, got ${came}`);
    return undefined;
  }

  record(value: unknown, path: string): Json | undefined {
    if (value === undefined || value === null) return undefined;
    if (isRecord(value)) return value;
    this.add(path, `expected an object, got ${kindOf(value)}`);
    return undefined;
  }

  list(value: unknown, path: string): readonly unknown[] {
    if (value === undefined || value === null) return [];
    if (Array.isArray(value)) return value as unknown[];
    this.add(path, `expected an array, got ${kindOf(value)}`);
    return [];
  }
}

/**
 * Parses a value with a schema.
 * @param at path of the value in the body
 * @throws WireError 400 that lists all violations
 */
export function checked<Shape extends z.ZodType>(
  shape: Shape,
  value: unknown,
  ...at: readonly string[]
): z.infer<Shape> {
  const faults = new Violations();
  const read = faults.read(shape, value, ...at);
  faults.throwAny();
  return read as z.infer<Shape>;
}

const valueAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (inside, step) =>
      isRecord(inside) || Array.isArray(inside) ? (inside as Json)[String(step)] : undefined,
    value,
  );

const shown = (value: unknown): string => (typeof value === 'number' ? String(value) : kindOf(value));
