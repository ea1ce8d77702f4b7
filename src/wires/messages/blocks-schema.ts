import { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import { list } from '../../http/schema/list.ts';
import { flag, text, toolName, typeOf } from '../core/members.ts';

/** Block types of the wire that contain something other than text. */
const mediaBlockTypes = new Set(['image', 'document', 'search_result', 'container_upload']);

const unsupportedBlock = (role: string) => ({
  error: ({ input }: { input: unknown }) => {
    const type = typeOf(input);
    if (type === '') return "expected a block such as {type: 'text', text: '...'}";
    return mediaBlockTypes.has(type)
      ? `blocks of type '${type}' cannot be read by this model; it reads text`
      : `blocks of type '${type}' are not allowed in ${role}`;
  },
});

const textBlock = z.object({ type: z.literal('text'), text });
const contentError = 'expected a text or an array of blocks';

const contentSchema = <Block extends z.ZodType>(block: Block) =>
  z.union([text, list(block, { error: contentError })], { error: contentError });
const textContentSchema = (role: string) =>
  contentSchema(z.discriminatedUnion('type', [textBlock], unsupportedBlock(role)));

export const system = textContentSchema('the system prompt');

const toolResult = z.object({
  type: z.literal('tool_result'),
  tool_use_id: text.describe('Id of an earlier `tool_use` block.'),
  content: textContentSchema('a tool result').nullish(),
  is_error: flag.nullish().describe('Prefixes the result with `Error: ` in the prompt.'),
});
const toolUse = z.object({
  type: z.literal('tool_use'),
  id: text,
  name: toolName,
  input: jsonObject('expected an object'),
});
const thinking = z.object({
  type: z.literal('thinking'),
  thinking: text.describe('Included in the prompt or omitted, depending on the chat template.'),
  signature: text.nullish().describe('Not checked.'),
});
const redactedThinking = z.object({ type: z.literal('redacted_thinking') }).describe('Ignored.');

const userBlock = z.discriminatedUnion('type', [textBlock, toolResult], unsupportedBlock('a user message'));
const assistantBlock = z.discriminatedUnion(
  'type',
  [textBlock, toolUse, thinking, redactedThinking],
  unsupportedBlock('an assistant message'),
);
export type UserBlock = z.infer<typeof userBlock>;
export type AssistantBlock = z.infer<typeof assistantBlock>;

const roles = ['user', 'assistant', 'system'] as const;
export const message = z.discriminatedUnion(
  'role',
  [
    z.object({ role: z.literal('user'), content: contentSchema(userBlock) }),
    z.object({ role: z.literal('assistant'), content: contentSchema(assistantBlock) }),
    z.object({ role: z.literal('system'), content: textContentSchema('a system message') }),
  ],
  {
    error: ({ input }) =>
      typeof input === 'object' && input !== null
        ? `expected one of the roles ${roles.join(', ')}`
        : 'expected a message such as {role, content}',
  },
);
export type Message = z.infer<typeof message>;
