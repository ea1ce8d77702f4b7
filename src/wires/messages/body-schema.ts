import { z } from 'zod';
import { routedMembers } from '../chat/request-schema.ts';

const { model, stream } = routedMembers;
const record = z.looseObject({});
const content = z.union([z.string(), z.array(z.union([z.string(), record]))]);

/**
 * Documents the body; `readFacts` validates every request, and `readConversation` those for providers of another wire.
 */
export const messagesBody = z
  .looseObject({
    model,
    stream,
    max_tokens: z.int().min(0).describe('Maximum tokens of the answer, thinking included.'),
    messages: z.array(z.looseObject({ role: z.string(), content: content.optional() })).min(1),
    system: content.nullish(),
    tools: z
      .array(record)
      .nullish()
      .describe('Tools that the caller runs. Others are refused, because their cost is unbounded.'),
    thinking: record.nullish(),
    output_config: record.nullish().describe('`format` constrains the answer.'),
    thread: z
      .null()
      .optional()
      .describe('Not supported, because conversations are not stored: send all `messages`.'),
  })
  .meta({ id: 'MessageRequest' });
