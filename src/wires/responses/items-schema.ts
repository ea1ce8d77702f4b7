import { z } from 'zod';
import { contentSchema, contentPartsSchema, refusalPart } from '../chat/message-schema.ts';
import { text, toolName, typeOf } from '../core/members.ts';
import { decodeSummary } from './encrypted-content.ts';
import { mcpInputItems } from './mcp-schema.ts';

const textPart = z.object({
  type: z.literal(['input_text', 'output_text', 'text', 'summary_text', 'reasoning_text']),
  text,
});
const parts = contentPartsSchema([textPart, refusalPart], 'text', 'input_text');
const content = contentSchema(parts);

const roles = ['system', 'developer', 'user', 'assistant'] as const;
const message = z.object({
  type: z.literal('message').nullish(),
  role: z.enum(roles, { error: `expected one of the roles ${roles.join(', ')}` }),
  content,
});

const functionCall = z.object({
  type: z.literal('function_call'),
  call_id: text.describe('Referenced by the `function_call_output`.'),
  name: toolName,
  arguments: text.describe('JSON.'),
});

const functionCallOutput = z.object({
  type: z.literal('function_call_output'),
  call_id: text.describe('Id of an earlier `function_call`.'),
  output: content,
});

const customToolCall = z.object({
  type: z.literal('custom_tool_call'),
  call_id: text.describe('Referenced by the `custom_tool_call_output`.'),
  name: toolName,
  input: text,
});

const customToolCallOutput = z.object({
  type: z.literal('custom_tool_call_output'),
  call_id: text.describe('Id of an earlier `custom_tool_call`.'),
  output: content,
});

const reasoning = z.object({
  type: z.literal('reasoning'),
  summary: parts.nullish(),
  content: parts
    .nullish()
    .describe('Reasoning text; included in the prompt or omitted, depending on the chat template.'),
  encrypted_content: text.nullish().describe('Ignored.'),
});

const compaction = z.object({
  type: z.literal('compaction'),
  id: text.nullish(),
  encrypted_content: text.refine((value) => decodeSummary(value) !== undefined, {
    error: 'expected the encrypted_content of a compaction item of this host',
  }),
});

const itemTypes =
  'message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning, compaction and those of MCP calls';

/** An item of the conversation in a request. */
export const inputItem = z.discriminatedUnion(
  'type',
  [
    message,
    functionCall,
    functionCallOutput,
    customToolCall,
    customToolCallOutput,
    reasoning,
    compaction,
    ...mcpInputItems,
  ],
  {
    error: ({ input }) => {
      const type = typeOf(input);
      if (type === 'item_reference') return 'this host has no items to refer to; send the item itself';
      return type === ''
        ? "expected an item such as {role: 'user', content: '...'}"
        : `items of type '${type}' cannot be read here; send ${itemTypes}`;
    },
  },
);
export type InputItem = z.infer<typeof inputItem>;
