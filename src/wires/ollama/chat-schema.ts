import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { flag, requestBodySchema, text, toolList, toolName } from '../core/members.ts';
import { answerMembers, images } from './options-schema.ts';

const callError = 'expected a call such as {function: {name, arguments}}';
const call = z.object(
  {
    id: text.nullish(),
    function: z.object(
      {
        name: toolName,
        arguments: z
          .union([jsonObject('expected an object'), text], { error: 'expected an object' })
          .nullish(),
      },
      { error: callError },
    ),
  },
  { error: callError },
);

const contentMembers = { content: text.nullish(), images };
const roles = ['system', 'user', 'assistant', 'tool'] as const;
const message = z.discriminatedUnion(
  'role',
  [
    z.object({ role: z.literal(['system', 'user']), ...contentMembers }),
    z.object({
      role: z.literal('assistant'),
      ...contentMembers,
      thinking: text.nullish(),
      tool_calls: list(call, { error: 'expected an array of calls' }).nullish(),
    }),
    z.object({
      role: z.literal('tool'),
      ...contentMembers,
      tool_name: text.nullish(),
      tool_call_id: text.nullish(),
      name: text.nullish(),
    }),
  ],
  {
    error: ({ input }) =>
      typeof input === 'object' && input !== null
        ? `expected one of the roles ${roles.join(', ')}`
        : 'expected a message such as {role, content}',
  },
);
export type OllamaMessage = z.infer<typeof message>;

const tool = z.object(
  {
    type: z.literal('function', { error: "expected 'function'" }).nullish(),
    function: z.object(
      {
        name: toolName,
        description: text.nullish(),
        parameters: jsonObject('expected a JSON schema of an object').nullish(),
      },
      { error: 'expected {name, description, parameters}' },
    ),
  },
  { error: "expected a tool such as {type: 'function', function: {name, parameters}}" },
);

export const chatRequest = requestBodySchema('OllamaChatRequest', {
  ...answerMembers,
  messages: list(message, { error: 'expected an array of messages' })
    .nullish()
    .describe('Without messages the model is only loaded.'),
  tools: toolList(tool).nullish().describe('Functions that the model may call.'),
  truncate: flag
    .nullish()
    .describe(
      'Drop the oldest messages where the context cannot hold all. Default true, with `--no-truncate` false.',
    ),
});
export type ChatRequest = z.infer<typeof chatRequest>;
