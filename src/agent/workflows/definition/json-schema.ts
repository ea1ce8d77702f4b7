import type { ErrorObject } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { Fault } from '../../errors.ts';
import { TimeLimitExceeded, runWithTimeLimit } from '../../time-limit.ts';
import { compileLinearPattern, computePatternCost } from './linear-pattern.ts';

type Schema = Readonly<Record<string, unknown>>;

const linearRegExp = Object.assign(
  // Ajv identifies a pattern by its text.
  (pattern: string) => ({ test: compileLinearPattern(pattern), toString: () => pattern }),
  { code: 'undefined' },
);

/** CPU time limit of one validation. Recursive references could make it endless. */
const maxValidationMs = 1000;

/** Maximum cost of all schemas of a workflow together, about one second. */
export const maxSchemaCost = 200_000;

/** Cost of compiling a schema: a constant per value, and the cost of its patterns. */
export function computeSchemaCost(schema: unknown): number {
  if (Array.isArray(schema)) return schema.reduce<number>((sum, one) => sum + computeSchemaCost(one), 50);
  if (!(schema instanceof Object)) return 50;
  let cost = 50;
  for (const [key, value] of Object.entries(schema)) {
    cost += computeSchemaCost(value);
    if (key === 'pattern' && typeof value === 'string') cost += computePatternCost(value);
    if (key === 'patternProperties' && value instanceof Object)
      for (const pattern of Object.keys(value)) cost += computePatternCost(pattern);
  }
  return cost;
}

/** Validates schemas against the meta-schema. It compiles no schemas, because it would cache them forever. */
const metaValidator = new Ajv2020({ strict: false, logger: false });
let isMetaValidatorReady = false;

/** Compiles the meta-schema before the first time-limited use: an interrupted compilation would break the validator. */
function prepareMetaValidator(): void {
  if (!isMetaValidatorReady) void metaValidator.validateSchema({});
  isMetaValidatorReady = true;
}

function compileSchema(schema: Schema) {
  const { $schema: _, ...withoutSchemaUri } = schema;
  if (metaValidator.validateSchema(withoutSchemaUri) !== true)
    throw new Error(metaValidator.errorsText(metaValidator.errors, { dataVar: '' }));
  const ajv = new Ajv2020({
    allErrors: true,
    strict: false,
    useDefaults: true,
    logger: false,
    addUsedSchema: false,
    meta: false,
    validateSchema: false,
    code: { regExp: linearRegExp },
  });
  (formats as unknown as (to: unknown) => void)(ajv);
  return ajv.compile(withoutSchemaUri);
}

/** Why a schema is unusable; undefined when it is usable. */
export function findSchemaFault(schema: Schema): string | undefined {
  prepareMetaValidator();
  try {
    runWithTimeLimit(maxValidationMs, () => compileSchema(schema));
    return undefined;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const reason = error instanceof RangeError ? 'it nests too deep' : error.message;
    return `expected a JSON schema: ${reason}`.slice(0, 500);
  }
}

export interface ValidationResult {
  /** The value with the schema's defaults. */
  readonly value: unknown;
  readonly faults: readonly Fault[];
}

/** Validates a copy of a value, and fills in the schema's defaults. Returns every violation. */
export function validateWithDefaults(schema: Schema, input: unknown): ValidationResult {
  const value: unknown = structuredClone(input);
  prepareMetaValidator();
  try {
    return runWithTimeLimit(maxValidationMs, () => {
      const validate = compileSchema(schema);
      return { value, faults: validate(value) ? [] : (validate.errors ?? []).map(toFault) };
    });
  } catch (error) {
    if (!(error instanceof TimeLimitExceeded || error instanceof RangeError)) throw error;
    const message = 'cannot be checked: its schema takes too long or nests too deep; make the schema simpler';
    return { value, faults: [{ path: '', message }] };
  }
}

function toFault({ instancePath, keyword, params, message }: ErrorObject): Fault {
  const parentPath = instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');
  const details = params as Readonly<Record<string, unknown>>;
  const memberPath = (name: unknown) => (parentPath === '' ? String(name) : `${parentPath}.${String(name)}`);
  if (keyword === 'required') return { path: memberPath(details['missingProperty']), message: 'is missing' };
  if (keyword === 'additionalProperties')
    return { path: memberPath(details['additionalProperty']), message: 'there is no member of this name' };
  if (keyword === 'enum')
    return { path: parentPath, message: `expected one of ${JSON.stringify(details['allowedValues'])}` };
  if (keyword === 'const')
    return { path: parentPath, message: `expected ${JSON.stringify(details['allowedValue'])}` };
  return { path: parentPath, message: message ?? `does not fit '${keyword}'` };
}
