import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { RE2JS } from 're2js';
import { TookTooLong, withinTime } from '../within-time.ts';

/** Violations that are listed. */
const mostTold = 20;
/** Violations that are formatted; many may give the same text. */
const mostErrors = 1000;
/** Characters of one violation. */
const mostSentence = 500;
/** CPU time limit of compiling a schema, and of one validation. */
const mostMs = 500;

/** Lists the violations of a value; empty when it is valid. */
export type Check = (value: unknown) => string[];

const checks = new WeakMap<object, Check>();

/** The validator of a schema, compiled once. A schema that cannot be compiled accepts every value. */
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
    // Not tried again for this schema.
    checks.set(schema, () => [endless]);
    return [endless];
  }
  const told = new Set((validate.errors ?? []).slice(0, mostErrors).map(sentence));
  const some = [...told].slice(0, mostTold);
  return told.size > some.length ? [...some, `and ${told.size - some.length} more`] : some;
}

/** Patterns are untrusted, so they are matched in linear time. */
const regExp = Object.assign(
  (pattern: string) => {
    const expression = RE2JS.compile(pattern);
    // Ajv identifies a pattern by its text.
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

/** Compiles as JSON Schema 2020-12, or else as draft-07. */
function compiled(schema: object): ValidateFunction | undefined {
  const { $schema: _, ...plain } = schema as Record<string, unknown>;
  for (const Draft of [Ajv2020, Ajv]) {
    try {
      const ajv = new Draft(options);
      (formats as unknown as (to: unknown) => void)(ajv);
      return ajv.compile(plain);
    } catch {
      // The next draft may accept it. A time limit is enforced by the caller.
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
