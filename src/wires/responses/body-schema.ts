import { z } from 'zod';
import { routedMembers } from '../chat/request-schema.ts';
import { effort } from '../core/members.ts';

const record = z.looseObject({});
const stored = z.null().optional().describe('Nothing is stored here: send all items in `input`.');

/** For the document; `factsOf` reads every request, `conversationOf` those to providers of another wire. */
export const responsesBody = z
  .looseObject({
    ...routedMembers,
    input: z.union([z.string(), z.array(record)]).describe('A text, or all items of the conversation.'),
    instructions: z.string().nullish(),
    max_output_tokens: z.int().min(1).nullish(),
    tools: z.array(record).nullish(),
    reasoning: z.looseObject({ effort: effort.nullish() }).nullish(),
    text: record.nullish().describe('In `format` what form the answer has.'),
    background: z.literal(false).nullish(),
    previous_response_id: stored,
    conversation: stored,
    prompt: stored,
  })
  .meta({ id: 'ResponseRequest' });
