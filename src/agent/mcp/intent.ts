import { isRecord, type Json } from '../../util/json.ts';

/** A tool's schema with an `intent` member, and a function that splits arguments into the intent and the tool's own. */
export interface AskingSchema {
  readonly schema: Json;
  readonly split: (args: Json) => { readonly intent: string; readonly args: Json };
}

const intentSchema = {
  type: 'string',
  description: 'Why this is to be done, in one sentence: a person reads it before it is done.',
};

/** Keywords that allow an additional property. Any other keyword may forbid one. */
const plain = new Set(
  '$schema $id $comment $defs definitions title description examples default type properties required additionalProperties'.split(
    ' ',
  ),
);

/** Adds the member `intent`, unless the tool already has one. */
export function askingIntent(schema: Json): AskingSchema {
  const { properties, required, ...rest } = schema;
  const own = isRecord(properties) ? properties : {};
  if (Object.hasOwn(own, 'intent')) return { schema, split: (args) => ({ intent: textOf(args), args }) };
  if (Object.keys(schema).every((key) => plain.has(key)))
    return {
      schema: {
        ...rest,
        properties: { ...own, intent: intentSchema },
        required: [...(Array.isArray(required) ? (required as unknown[]) : []), 'intent'],
      },
      split: ({ intent, ...args }) => ({ intent: textOf({ intent }), args }),
    };
  return nested(schema);
}

/** Nests the tool's own schema under `arguments`. Definitions stay at the root, where `$ref` points to. */
function nested({ $schema, $defs, definitions, ...schema }: Json): AskingSchema {
  return {
    schema: {
      ...($schema === undefined ? {} : { $schema }),
      ...($defs === undefined ? {} : { $defs }),
      ...(definitions === undefined ? {} : { definitions }),
      type: 'object',
      properties: { arguments: schema, intent: intentSchema },
      required: ['arguments', 'intent'],
      additionalProperties: false,
    },
    split: ({ intent, arguments: args }) => ({
      intent: textOf({ intent }),
      args: isRecord(args) ? args : {},
    }),
  };
}

const textOf = ({ intent }: Json): string => (typeof intent === 'string' ? intent : '');
