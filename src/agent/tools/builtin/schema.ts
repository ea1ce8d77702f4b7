type Member = Readonly<Record<string, unknown>>;

/** Builders of input schemas. They use only keywords that constrained decoding enforces. */
export const aText = (description: string, maxLength?: number): Member => ({
  type: 'string',
  ...(maxLength === undefined ? {} : { maxLength }),
  description,
});

export const oneOf = (values: readonly string[], description: string): Member => ({
  type: 'string',
  enum: values,
  description,
});
export const aFlag = (description: string): Member => ({ type: 'boolean', description });
export const aNumber = (minimum: number, maximum: number, description: string): Member => ({
  type: 'integer',
  minimum,
  maximum,
  description,
});
export const aList = (items: Member, minItems: number, maxItems: number, description: string): Member => ({
  type: 'array',
  items,
  minItems,
  maxItems,
  description,
});

export const anObject = (
  properties: Readonly<Record<string, Member>>,
  required: readonly string[],
): Member => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

/**
 * The last member of every change tool, shown to the person who decides. It is last because a small model that gives
 * its reasons first gets path and contents wrong (3 of 120 right instead of 69).
 */
const intent = aText('Why you make this change, in one sentence for the person who decides about it.', 500);
export const aChange = (properties: Readonly<Record<string, Member>>, required: readonly string[]): Member =>
  anObject({ ...properties, intent }, [...required, 'intent']);

export const aPath = aText('Absolute, or relative to the working folder.', 4096);
