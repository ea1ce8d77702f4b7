import { isRecord, type Json } from '../../util/json.ts';

/** A tool's schema with an `intent` member, and a function that splits arguments into the intent and the tool's own. */
export interface IntentSchema {
  readonly schema: Json;
  readonly splitArguments: (args: Json) => { readonly intent: string; readonly args: Json };
}

const intentSchema = {
  type: 'string',
  description: 'Why this is to be done, in one sentence: a person reads it before it is done.',
};

/** Keywords that allow an additional property. Any other keyword may forbid one. */
const extensibleKeywords = new Set(
  '$schema $id $comment $defs definitions title description examples default type properties required additionalProperties'.split(
    ' ',
  ),
);

/** Adds the member `intent`, unless the tool already has one. */
export function withIntent(schema: Json): IntentSchema {
  const { properties, required, ...rest } = schema;
  const ownProperties = isRecord(properties) ? properties : {};
  if (Object.hasOwn(ownProperties, 'intent'))
    return { schema, splitArguments: (args) => ({ intent: readIntent(args), args }) };
  if (Object.keys(schema).every((key) => extensibleKeywords.has(key)))
    return {
      schema: {
        ...rest,
        properties: { ...ownProperties, intent: intentSchema },
        required: [...(Array.isArray(required) ? (required as unknown[]) : []), 'intent'],
      },
      splitArguments: ({ intent, ...args }) => ({ intent: readIntent({ intent }), args }),
    };
  return nestArguments(schema);
}

/** Nests the tool's own schema under `arguments`. Definitions stay at the root, where `$ref` points to. */
function nestArguments({ $schema, $defs, definitions, ...schema }: Json): IntentSchema {
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
    splitArguments: ({ intent, arguments: args }) => ({
      intent: readIntent({ intent }),
      args: isRecord(args) ? args : {},
    }),
  };
}

const readIntent = ({ intent }: Json): string => (typeof intent === 'string' ? intent : '');
