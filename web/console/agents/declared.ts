import { isRecord } from '../../../src/util/json.ts';

const kinds = ['string', 'number', 'integer', 'boolean', 'array', 'object'] as const;

/** An input field that a workflow or a gate declares. */
export interface Declared {
  readonly name: string;
  /** `any`: the schema has no single primitive type, so the value is entered as JSON. */
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

/** Fields from the `[inputs.NAME]` tables of a workflow. */
export const inputsOf = (inputs: unknown): Declared[] =>
  isRecord(inputs)
    ? Object.entries(inputs).map(([name, about]) =>
        declared(name, about, isRecord(about) && about['required'] === true),
      )
    : [];

/** Fields from the JSON schema of a gate; undefined when the schema accepts any object. */
export function fieldsOf(schema: unknown): Declared[] | undefined {
  if (!isRecord(schema) || !isRecord(schema['properties']))
    return isRecord(schema) && schema['additionalProperties'] === false ? [] : undefined;
  const required = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : [];
  return Object.entries(schema['properties']).map(([name, about]) =>
    declared(name, about, required.includes(name)),
  );
}

/** Initial text of a field. */
export function textOf(value: unknown, { type, enum: allowed }: Declared): string {
  if (value === undefined) return '';
  return type === 'string' && !allowed && typeof value === 'string' ? value : JSON.stringify(value);
}

export type Typed = { readonly value: unknown } | { readonly fault: string } | { readonly absent: true };

/** Parses the text of a field. An empty field is absent, or an empty string when it is a text field with a default. */
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
  if (type === 'array' && !Array.isArray(value)) return { fault: 'expected an array such as [1, 2]' };
  if (type === 'object' && !isRecord(value)) return { fault: 'expected an object such as {"name": 1}' };
  return { value };
}
