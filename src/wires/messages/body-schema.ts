import { z } from 'zod';
import { routedMembers } from '../chat/request-schema.ts';

const { model, stream } = routedMembers;
const record = z.looseObject({});
const content = z.union([z.string(), z.array(z.union([z.string(), record]))]);

/** For the document; `factsOf` reads every request, `conversationOf` those to providers of another wire. */
export const messagesBody = z
  .looseObject({
    model,
    stream,
    max_tokens: z.int().min(0).describe("The answer's greatest length, thinking included."),
    messages: z.array(z.looseObject({ role: z.string(), content: content.optional() })).min(1),
    system: content.nullish(),
    tools: z
      .array(record)
      .nullish()
      .describe('Those that the caller runs: others have no bound on their cost.'),
    thinking: record.nullish(),
    output_config: record.nullish().describe('In `format` what form the answer has.'),
    thread: z.null().optional().describe('Nothing is stored here: send all `messages`.'),
  })
  .meta({ id: 'MessageRequest' });
