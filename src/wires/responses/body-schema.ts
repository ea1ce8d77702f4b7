import { z } from 'zod';
import { routedMembers } from '../chat/request-schema.ts';
import { effort } from '../core/members.ts';

const record = z.looseObject({});
const unsupportedStorage = z
  .null()
  .optional()
  .describe('Not supported, because responses are not stored: send all items in `input`.');

/**
 * Documents the body; `readFacts` validates every request, and `readConversation` those for providers of another wire.
 */
export const responsesBody = z
  .looseObject({
    ...routedMembers,
    input: z.union([z.string(), z.array(record)]).describe('A text, or all items of the conversation.'),
    instructions: z.string().nullish(),
    max_output_tokens: z.int().min(1).nullish(),
    tools: z.array(record).nullish(),
    reasoning: z.looseObject({ effort: effort.nullish() }).nullish(),
    text: record.nullish().describe('`format` constrains the answer.'),
    background: z.literal(false).nullish(),
    previous_response_id: unsupportedStorage,
    conversation: unsupportedStorage,
    prompt: unsupportedStorage,
  })
  .meta({ id: 'ResponseRequest' });
