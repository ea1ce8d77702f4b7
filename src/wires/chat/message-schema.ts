import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { text, typeOf } from '../core/members.ts';
import { unserved } from '../core/sampling-schema.ts';

const part = z.discriminatedUnion(
  'type',
  [z.object({ type: z.literal('text'), text }), z.object({ type: z.literal('refusal'), refusal: text })],
  {
    error: ({ input }) => {
      const type = typeOf(input);
      return type !== ''
        ? `parts of type '${type}' cannot be read by this model; it reads text`
        : "expected a part such as {type: 'text', text: '...'}";
    },
  },
);
export type ContentPart = z.infer<typeof part>;

const contentForm = 'expected a text or an array of parts';
const content = z.union([text, list(part, { error: contentForm })], { error: contentForm });
const name = text.nullish();

const toolCall = z.object(
  {
    id: text,
    type: z.literal('function', { error: "expected 'function'" }),
    function: z.object({ name: text, arguments: text }, { error: 'expected {name, arguments}' }),
  },
  { error: 'expected a tool call such as {id, type, function}' },
);

const roles = ['system', 'developer', 'user', 'assistant', 'tool'] as const;
export const message = z.discriminatedUnion(
  'role',
  [
    z.object({ role: z.literal(['system', 'developer', 'user']), content, name }),
    z.object({
      role: z.literal('assistant'),
      content: content.nullish(),
      name,
      refusal: text.nullish(),
      reasoning_content: text.nullish().describe('What it thought before the answer.'),
      reasoning: text.nullish().describe('The same as `reasoning_content`.'),
      tool_calls: list(toolCall, { error: 'expected an array of tool calls' }).nullish(),
      function_call: unserved('function_call, the older form of `tool_calls`,'),
      audio: unserved('audio'),
    }),
    z.object({ role: z.literal('tool'), content, tool_call_id: text.nullish(), name }),
  ],
  {
    error: ({ input }) =>
      typeof input === 'object' && input !== null
        ? `expected one of the roles ${roles.join(', ')}`
        : 'expected a message such as {role, content}',
  },
);
export type Message = z.infer<typeof message>;
