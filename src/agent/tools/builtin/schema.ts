type SchemaMember = Readonly<Record<string, unknown>>;

/** Builders of input schemas. They use only keywords that constrained decoding enforces. */
export const textSchema = (description: string, maxLength?: number): SchemaMember => ({
  type: 'string',
  ...(maxLength === undefined ? {} : { maxLength }),
  description,
});

export const enumSchema = (values: readonly string[], description: string): SchemaMember => ({
  type: 'string',
  enum: values,
  description,
});
export const flagSchema = (description: string): SchemaMember => ({ type: 'boolean', description });
export const integerSchema = (minimum: number, maximum: number, description: string): SchemaMember => ({
  type: 'integer',
  minimum,
  maximum,
  description,
});
export const listSchema = (
  items: SchemaMember,
  minItems: number,
  maxItems: number,
  description: string,
): SchemaMember => ({
  type: 'array',
  items,
  minItems,
  maxItems,
  description,
});

export const objectSchema = (
  properties: Readonly<Record<string, SchemaMember>>,
  required: readonly string[],
): SchemaMember => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

/**
 * The last member of every change tool, shown to the person who decides. It is last because a small model that gives
 * its reasons first gets path and contents wrong (3 of 120 right instead of 69).
 */
const intentSchema = textSchema(
  'Why you make this change, in one sentence for the person who decides about it.',
  500,
);
export const changeSchema = (
  properties: Readonly<Record<string, SchemaMember>>,
  required: readonly string[],
): SchemaMember => objectSchema({ ...properties, intent: intentSchema }, [...required, 'intent']);

export const pathSchema = textSchema('Absolute, or relative to the working folder.', 4096);
