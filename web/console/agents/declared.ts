import { isRecord } from '../../../src/util/json.ts';

const kinds = ['string', 'number', 'integer', 'boolean', 'array', 'object'] as const;

/** A value that a workflow or a gate asks for. */
export interface Declared {
  readonly name: string;
  /** `any`: a schema says it in a way that no field can show; it is written as JSON. */
  readonly type: (typeof kinds)[number] | 'any';
  readonly required: boolean;
  readonly default?: unknown;
  readonly description?: string;
  readonly enum?: readonly unknown[];
}

function declared(name: string, about: unknown, required: boolean): Declared {
  const of = isRecord(about) ? about : {};
  const { description } = of;
  return {
    name,
    type: kinds.find((kind) => kind === of['type']) ?? 'any',
    required,
    ...('default' in of ? { default: of['default'] } : {}),
    ...(typeof description === 'string' ? { description } : {}),
    ...(Array.isArray(of['enum']) ? { enum: of['enum'] as unknown[] } : {}),
  };
}

/** Of `[inputs.NAME]`. */
export const inputsOf = (inputs: unknown): Declared[] =>
  isRecord(inputs)
    ? Object.entries(inputs).map(([name, about]) =>
        declared(name, about, isRecord(about) && about['required'] === true),
      )
    : [];

/** Of the schema of a gate; nothing where it names no members, and anything may be given. */
export function fieldsOf(schema: unknown): Declared[] | undefined {
  if (!isRecord(schema) || !isRecord(schema['properties']))
    return isRecord(schema) && schema['additionalProperties'] === false ? [] : undefined;
  const required = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : [];
  return Object.entries(schema['properties']).map(([name, about]) =>
    declared(name, about, required.includes(name)),
  );
}

/** What stands in the field before anybody wrote in it. */
export function textOf(value: unknown, { type, enum: allowed }: Declared): string {
  if (value === undefined) return '';
  return type === 'string' && !allowed && typeof value === 'string' ? value : JSON.stringify(value);
}

export type Typed = { readonly value: unknown } | { readonly fault: string } | { readonly absent: true };

/** What a field says. Left empty, it is absent, or an empty text where there is a default that was taken away. */
export function typedOf(field: Declared, text: string): Typed {
  const { type, required, enum: allowed } = field;
  const isText = type === 'string' && !allowed;
  if (isText && (text !== '' || field.default !== undefined)) return { value: text };
  if (text.trim() === '') return required ? { fault: 'is required' } : { absent: true };
  if (type === 'number' || type === 'integer') {
    const number = Number(text);
    if (!Number.isFinite(number)) return { fault: 'expected a number' };
    return type === 'integer' && !Number.isInteger(number)
      ? { fault: 'expected a whole number' }
      : { value: number };
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: `expected JSON: ${(error as Error).message}` };
  }
  if (type === 'array' && !Array.isArray(value)) return { fault: 'expected a list, as [1, 2]' };
  if (type === 'object' && !isRecord(value)) return { fault: 'expected an object, as {"name": 1}' };
  return { value };
}
