import { z } from 'zod';
import { contentOf, partsOf, refusalPart } from '../chat/message-schema.ts';
import { text, toolName, typeOf } from '../core/members.ts';

const textPart = z.object({
  type: z.literal(['input_text', 'output_text', 'text', 'summary_text', 'reasoning_text']),
  text,
});
const parts = partsOf([textPart, refusalPart], 'text', 'input_text');
const content = contentOf(parts);

const roles = ['system', 'developer', 'user', 'assistant'] as const;
const message = z.object({
  type: z.literal('message').nullish(),
  role: z.enum(roles, { error: `expected one of the roles ${roles.join(', ')}` }),
  content,
});

const functionCall = z.object({
  type: z.literal('function_call'),
  call_id: text.describe('What the `function_call_output` refers to.'),
  name: toolName,
  arguments: text.describe('JSON.'),
});

const functionCallOutput = z.object({
  type: z.literal('function_call_output'),
  call_id: text.describe('Of a `function_call` that stands before.'),
  output: content,
});

const reasoning = z.object({
  type: z.literal('reasoning'),
  summary: parts.nullish(),
  content: parts.nullish().describe('What the model thought; templates show it or leave it out.'),
  encrypted_content: text.nullish().describe('Ignored.'),
});

const itemTypes = 'message, function_call, function_call_output and reasoning';

/** What a request says of a conversation. */
export const inputItem = z.discriminatedUnion(
  'type',
  [message, functionCall, functionCallOutput, reasoning],
  {
    error: ({ input }) => {
      const type = typeOf(input);
      if (type === 'item_reference') return 'this host stores nothing to refer to; send the item itself';
      return type === ''
        ? "expected an item such as {role: 'user', content: '...'}"
        : `items of type '${type}' cannot be read here; send ${itemTypes}`;
    },
  },
);
export type InputItem = z.infer<typeof inputItem>;
