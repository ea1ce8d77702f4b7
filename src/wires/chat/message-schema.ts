import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { text, typeOf } from '../core/members.ts';
import { unsupportedMember } from '../core/sampling-schema.ts';

type ByType = readonly [z.core.$ZodTypeDiscriminable, ...z.core.$ZodTypeDiscriminable[]];

export const textPart = z.object({ type: z.literal('text'), text });
export const refusalPart = z.object({ type: z.literal('refusal'), refusal: text });

const contentError = 'expected a text or an array of parts';

/**
 * Schema of an array of content parts.
 * @param known the accepted part types, for error messages
 * @param usualType the most common type
 */
export const contentPartsSchema = <Parts extends ByType>(parts: Parts, known: string, usualType = 'text') =>
  list(
    z.discriminatedUnion('type', parts, {
      error: ({ input }) => {
        const type = typeOf(input);
        return type !== ''
          ? `parts of type '${type}' cannot be read by this model; it reads ${known}`
          : `expected a part such as {type: '${usualType}', text: '...'}`;
      },
    }),
    { error: contentError },
  );
export const contentSchema = <Parts extends z.ZodType>(parts: Parts) =>
  z.union([text, parts], { error: contentError });
const content = contentSchema(contentPartsSchema([textPart, refusalPart], 'text'));

export const toolCall = z.object(
  {
    id: text,
    type: z.literal('function', { error: "expected 'function'" }),
    function: z.object({ name: text, arguments: text }, { error: 'expected {name, arguments}' }),
  },
  { error: 'expected a tool call such as {id, type, function}' },
);
export const toolCalls = <Call extends z.ZodType>(call: Call) =>
  list(call, { error: 'expected an array of tool calls' }).nullish();

const name = text.nullish();
export const assistantMembers = {
  role: z.literal('assistant'),
  content: content.nullish(),
  name,
  refusal: text.nullish(),
  reasoning_content: text.nullish().describe('Reasoning before the answer.'),
  reasoning: text.nullish().describe('Alias of `reasoning_content`.'),
  tool_calls: toolCalls(toolCall),
  function_call: unsupportedMember('function_call, the older form of `tool_calls`,'),
  audio: unsupportedMember('audio'),
};

const roles = ['system', 'developer', 'user', 'assistant', 'tool'];
export const messagesSchema = <Roles extends ByType>(options: Roles) =>
  list(
    z.discriminatedUnion('role', options, {
      error: ({ input }) =>
        typeof input === 'object' && input !== null
          ? `expected one of the roles ${roles.join(', ')}`
          : 'expected a message such as {role, content}',
    }),
    { error: 'expected an array of messages', empty: 'must contain at least one message' },
  );

export const messages = messagesSchema([
  z.object({ role: z.literal(['system', 'developer', 'user']), content, name }),
  z.object(assistantMembers),
  z.object({ role: z.literal('tool'), content, tool_call_id: text.nullish(), name }),
]);
export type Message = z.infer<typeof messages>[number];
