import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { RE2JS } from 're2js';

/** Violations that are told at once. */
const mostTold = 20;

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
  const validate = compiled(schema);
  if (!validate) return () => [];
  return (value) => {
    if (validate(value)) return [];
    const told = new Set((validate.errors ?? []).map(sentence));
    const some = [...told].slice(0, mostTold);
    return told.size > some.length ? [...some, `and ${told.size - some.length} more`] : some;
  };
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
      // The next one may.
    }
  }
  return undefined;
}

function sentence({ instancePath, keyword, message, params }: ErrorObject): string {
  const at = instancePath.slice(1).replaceAll('/', '.');
  const where = at === '' ? '' : `${at}: `;
  const more = params as Readonly<Record<string, unknown>>;
  if (keyword === 'additionalProperties')
    return `${where}there is no member '${String(more.additionalProperty)}'`;
  if (keyword === 'enum') return `${where}expected one of ${JSON.stringify(more.allowedValues)}`;
  if (keyword === 'const') return `${where}expected ${JSON.stringify(more.allowedValue)}`;
  return `${where}${message ?? `does not fit '${keyword}'`}`;
}
