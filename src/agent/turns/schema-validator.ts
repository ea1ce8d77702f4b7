import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { RE2JS } from 're2js';
import { TimeLimitExceeded, runWithTimeLimit } from '../time-limit.ts';

/** Violations that are listed. */
const maxListed = 20;
/** Violations that are formatted; many may give the same text. */
const maxErrors = 1000;
/** Characters of one violation. */
const maxViolationLength = 500;
/** CPU time limit of compiling a schema, and of one validation. */
const maxMs = 500;

/** Lists the violations of a value; empty when it is valid. */
export type SchemaValidator = (value: unknown) => string[];

const validators = new WeakMap<object, SchemaValidator>();

/** The validator of a schema, compiled once. A schema that cannot be compiled accepts every value. */
export function schemaValidator(schema: object): SchemaValidator {
  const validator = validators.get(schema) ?? createValidator(schema);
  validators.set(schema, validator);
  return validator;
}

function createValidator(schema: object): SchemaValidator {
  try {
    const validate = runWithTimeLimit(maxMs, () => compileSchema(schema));
    return validate ? (value) => listViolations(validate, schema, value) : () => [];
  } catch (error) {
    if (error instanceof TimeLimitExceeded) return () => [tooSlowMessage];
    throw error;
  }
}

const tooSlowMessage = 'the schema takes too long to check with; it must be made simpler';

function listViolations(validate: ValidateFunction, schema: object, value: unknown): string[] {
  try {
    if (runWithTimeLimit(maxMs, () => validate(value))) return [];
  } catch (error) {
    if (error instanceof RangeError) return ['it nests too deep for its schema'];
    if (!(error instanceof TimeLimitExceeded)) throw error;
    // Not tried again for this schema.
    validators.set(schema, () => [tooSlowMessage]);
    return [tooSlowMessage];
  }
  const messages = new Set((validate.errors ?? []).slice(0, maxErrors).map(formatViolation));
  const listed = [...messages].slice(0, maxListed);
  return messages.size > listed.length ? [...listed, `and ${messages.size - listed.length} more`] : listed;
}

/** Patterns are untrusted, so they are matched in linear time. */
const linearRegExp = Object.assign(
  (pattern: string) => {
    const expression = RE2JS.compile(pattern);
    // Ajv identifies a pattern by its text.
    return { test: (text: string) => expression.matcher(text).find(), toString: () => pattern };
  },
  { code: 'undefined' },
);
const ajvOptions: Options = {
  allErrors: true,
  strict: false,
  validateFormats: true,
  addUsedSchema: false,
  logger: false,
  code: { regExp: linearRegExp },
};

/** Compiles as JSON Schema 2020-12, or else as draft-07. */
function compileSchema(schema: object): ValidateFunction | undefined {
  const { $schema: _, ...plain } = schema as Record<string, unknown>;
  for (const Draft of [Ajv2020, Ajv]) {
    try {
      const ajv = new Draft(ajvOptions);
      (formats as unknown as (to: unknown) => void)(ajv);
      return ajv.compile(plain);
    } catch {
      // The next draft may accept it. A time limit is enforced by the caller.
    }
  }
  return undefined;
}

function formatViolation(error: ErrorObject): string {
  const message = describeViolation(error);
  return message.length > maxViolationLength ? `${message.slice(0, maxViolationLength)}...` : message;
}

function describeViolation({ instancePath, keyword, message, params }: ErrorObject): string {
  const at = instancePath.slice(1).replaceAll('/', '.');
  const where = at === '' ? '' : `${at}: `;
  const details = params as Readonly<Record<string, unknown>>;
  if (keyword === 'additionalProperties')
    return `${where}there is no member '${String(details.additionalProperty)}'`;
  if (keyword === 'enum') return `${where}expected one of ${JSON.stringify(details.allowedValues)}`;
  if (keyword === 'const') return `${where}expected ${JSON.stringify(details.allowedValue)}`;
  return `${where}${message ?? `does not fit '${keyword}'`}`;
}
