import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { RE2JS } from 're2js';
import { TookTooLong, withinTime } from '../within-time.ts';

/** Violations that are told at once. */
const mostTold = 20;
/** Violations that are put into words, of which many may be the same. */
const mostErrors = 1000;
/** Characters of one. */
const mostSentence = 500;
/** What compiling a schema may take, and what a check may. */
const mostMs = 500;

/** The violations of a value, each a sentence; empty where there is none. */
export type Check = (value: unknown) => string[];

const checks = new WeakMap<object, Check>();

/** The check of a schema, compiled once. A schema that cannot be compiled lets everything pass. */
export function checkOf(schema: object): Check {
  const known = checks.get(schema) ?? made(schema);
  checks.set(schema, known);
  return known;
}

function made(schema: object): Check {
  try {
    const validate = withinTime(mostMs, () => compiled(schema));
    return validate ? (value) => violations(validate, schema, value) : () => [];
  } catch (error) {
    if (error instanceof TookTooLong) return () => [endless];
    throw error;
  }
}

const endless = 'the schema takes too long to check with; it must be made simpler';

function violations(validate: ValidateFunction, schema: object, value: unknown): string[] {
  try {
    if (withinTime(mostMs, () => validate(value))) return [];
  } catch (error) {
    if (error instanceof RangeError) return ['it nests too deep for its schema'];
    if (!(error instanceof TookTooLong)) throw error;
    // Once is enough: nobody waits for it again.
    checks.set(schema, () => [endless]);
    return [endless];
  }
  const told = new Set((validate.errors ?? []).slice(0, mostErrors).map(sentence));
  const some = [...told].slice(0, mostTold);
  return told.size > some.length ? [...some, `and ${told.size - some.length} more`] : some;
}

/** Patterns come from strangers: matched in linear time. */
const regExp = Object.assign(
  (pattern: string) => {
    const expression = RE2JS.compile(pattern);
    // Ajv tells them apart by their texts.
    return { test: (text: string) => expression.matcher(text).find(), toString: () => pattern };
  },
  { code: 'undefined' },
);
const options: Options = {
  allErrors: true,
  strict: false,
  validateFormats: true,
  addUsedSchema: false,
  logger: false,
  code: { regExp },
};

/** As a schema of today, or else of the draft that many still write. */
function compiled(schema: object): ValidateFunction | undefined {
  const { $schema: _, ...plain } = schema as Record<string, unknown>;
  for (const Draft of [Ajv2020, Ajv]) {
    try {
      const ajv = new Draft(options);
      (formats as unknown as (to: unknown) => void)(ajv);
      return ajv.compile(plain);
    } catch {
      // The next one may. What took too long is not caught here: it ends all of the work.
    }
  }
  return undefined;
}

function sentence(error: ErrorObject): string {
  const told = worded(error);
  return told.length > mostSentence ? `${told.slice(0, mostSentence)}...` : told;
}

function worded({ instancePath, keyword, message, params }: ErrorObject): string {
  const at = instancePath.slice(1).replaceAll('/', '.');
  const where = at === '' ? '' : `${at}: `;
  const more = params as Readonly<Record<string, unknown>>;
  if (keyword === 'additionalProperties')
    return `${where}there is no member '${String(more.additionalProperty)}'`;
  if (keyword === 'enum') return `${where}expected one of ${JSON.stringify(more.allowedValues)}`;
  if (keyword === 'const') return `${where}expected ${JSON.stringify(more.allowedValue)}`;
  return `${where}${message ?? `does not fit '${keyword}'`}`;
}
