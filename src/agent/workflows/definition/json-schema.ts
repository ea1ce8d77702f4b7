import type { ErrorObject } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { Fault } from '../../errors.ts';
import { TookTooLong, withinTime } from '../../within-time.ts';
import { linearPattern, patternCost } from './pattern.ts';

type Schema = Readonly<Record<string, unknown>>;

const regExp = Object.assign(
  // Ajv identifies a pattern by its text.
  (pattern: string) => ({ test: linearPattern(pattern), toString: () => pattern }),
  { code: 'undefined' },
);

/** CPU time limit of one validation. Recursive references could make it endless. */
const mostMs = 1000;

/** Maximum cost of all schemas of a workflow together, about one second. */
export const mostSchemaCost = 200_000;

/** Cost of compiling a schema: a constant per value, and the cost of its patterns. */
export function schemaCost(schema: unknown): number {
  if (Array.isArray(schema)) return schema.reduce<number>((sum, one) => sum + schemaCost(one), 50);
  if (!(schema instanceof Object)) return 50;
  let cost = 50;
  for (const [key, value] of Object.entries(schema)) {
    cost += schemaCost(value);
    if (key === 'pattern' && typeof value === 'string') cost += patternCost(value);
    if (key === 'patternProperties' && value instanceof Object)
      for (const pattern of Object.keys(value)) cost += patternCost(pattern);
  }
  return cost;
}

/** Validates schemas against the meta-schema. It compiles no schemas, because it would cache them forever. */
const judge = new Ajv2020({ strict: false, logger: false });
let isReady = false;

/** Compiles the meta-schema before the first time-limited use: an interrupted compilation would break the validator. */
function readyJudge(): void {
  if (!isReady) void judge.validateSchema({});
  isReady = true;
}

function compile(schema: Schema) {
  const { $schema: _, ...plain } = schema;
  if (judge.validateSchema(plain) !== true) throw new Error(judge.errorsText(judge.errors, { dataVar: '' }));
  const ajv = new Ajv2020({
    allErrors: true,
    strict: false,
    useDefaults: true,
    logger: false,
    addUsedSchema: false,
    meta: false,
    validateSchema: false,
    code: { regExp },
  });
  (formats as unknown as (to: unknown) => void)(ajv);
  return ajv.compile(plain);
}

/** Why a schema is unusable; undefined when it is usable. */
export function schemaFault(schema: Schema): string | undefined {
  readyJudge();
  try {
    withinTime(mostMs, () => compile(schema));
    return undefined;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const why = error instanceof RangeError ? 'it nests too deep' : error.message;
    return `expected a JSON schema: ${why}`.slice(0, 500);
  }
}

export interface Fitted {
  /** The value with the schema's defaults. */
  readonly value: unknown;
  readonly faults: readonly Fault[];
}

/** Validates a copy of a value, and fills in the schema's defaults. Returns every violation. */
export function fitSchema(schema: Schema, given: unknown): Fitted {
  const value: unknown = structuredClone(given);
  readyJudge();
  try {
    return withinTime(mostMs, () => {
      const validate = compile(schema);
      return { value, faults: validate(value) ? [] : (validate.errors ?? []).map(faultOf) };
    });
  } catch (error) {
    if (!(error instanceof TookTooLong || error instanceof RangeError)) throw error;
    const message = 'cannot be checked: its schema takes too long or nests too deep; make the schema simpler';
    return { value, faults: [{ path: '', message }] };
  }
}

function faultOf({ instancePath, keyword, params, message }: ErrorObject): Fault {
  const above = instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');
  const more = params as Readonly<Record<string, unknown>>;
  const below = (name: unknown) => (above === '' ? String(name) : `${above}.${String(name)}`);
  if (keyword === 'required') return { path: below(more['missingProperty']), message: 'is missing' };
  if (keyword === 'additionalProperties')
    return { path: below(more['additionalProperty']), message: 'there is no member of this name' };
  if (keyword === 'enum')
    return { path: above, message: `expected one of ${JSON.stringify(more['allowedValues'])}` };
  if (keyword === 'const')
    return { path: above, message: `expected ${JSON.stringify(more['allowedValue'])}` };
  return { path: above, message: message ?? `does not fit '${keyword}'` };
}
