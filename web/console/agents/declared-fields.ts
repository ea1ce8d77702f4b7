import { isRecord } from '../../../src/util/json.ts';

const fieldTypes = ['string', 'number', 'integer', 'boolean', 'array', 'object'] as const;

/** An input field that a workflow or a gate declares. */
export interface DeclaredField {
  readonly name: string;
  /** `any`: the schema has no single primitive type, so the value is entered as JSON. */
  readonly type: (typeof fieldTypes)[number] | 'any';
  readonly required: boolean;
  readonly default?: unknown;
  readonly description?: string;
  readonly enum?: readonly unknown[];
}

function declaredField(name: string, value: unknown, required: boolean): DeclaredField {
  const schema = isRecord(value) ? value : {};
  const { description } = schema;
  return {
    name,
    type: fieldTypes.find((kind) => kind === schema['type']) ?? 'any',
    required,
    ...('default' in schema ? { default: schema['default'] } : {}),
    ...(typeof description === 'string' ? { description } : {}),
    ...(Array.isArray(schema['enum']) ? { enum: schema['enum'] as unknown[] } : {}),
  };
}

/** Fields from the `[inputs.NAME]` tables of a workflow. */
export const inputFields = (inputs: unknown): DeclaredField[] =>
  isRecord(inputs)
    ? Object.entries(inputs).map(([name, value]) =>
        declaredField(name, value, isRecord(value) && value['required'] === true),
      )
    : [];

/** Fields from the JSON schema of a gate; undefined when the schema accepts any object. */
export function schemaFields(schema: unknown): DeclaredField[] | undefined {
  if (!isRecord(schema) || !isRecord(schema['properties']))
    return isRecord(schema) && schema['additionalProperties'] === false ? [] : undefined;
  const required = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : [];
  return Object.entries(schema['properties']).map(([name, value]) =>
    declaredField(name, value, required.includes(name)),
  );
}

/** Initial text of a field. */
export function initialText(value: unknown, { type, enum: allowed }: DeclaredField): string {
  if (value === undefined) return '';
  return type === 'string' && !allowed && typeof value === 'string' ? value : JSON.stringify(value);
}

export type ParsedField =
  | { readonly value: unknown }
  | { readonly fault: string }
  | { readonly absent: true };

/** Parses the text of a field. An empty field is absent, or an empty string when it is a text field with a default. */
export function parseField(field: DeclaredField, text: string): ParsedField {
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
