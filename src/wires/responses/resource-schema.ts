import { z } from 'zod';
import { responseUsage } from './answer-schema.ts';

export const deletedResponse = z
  .object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })
  .meta({ id: 'DeletedResponse' });

export const inputItemList = z
  .object({
    object: z.literal('list'),
    data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ id: 'ResponseInputItems' });

export const inputTokenCount = z
  .object({ object: z.literal('response.input_tokens'), input_tokens: z.int() })
  .meta({ id: 'ResponseInputTokens' });

export const compactedConversation = z
  .object({
    id: z.string(),
    object: z.literal('response.compaction'),
    created_at: z.int(),
    output: z
      .array(z.looseObject({ id: z.string(), type: z.string() }))
      .describe('The shorter conversation, to send as input: messages, and one item of type `compaction`.'),
    usage: responseUsage,
  })
  .meta({ id: 'ResponseCompaction' });
