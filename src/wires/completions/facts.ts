import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import type { Json } from '../../util/json.ts';
import { routedFacts, routedMembers } from '../chat/request-schema.ts';
import { InputCounter } from '../core/input-counter.ts';
import { splitInputs, inputMessages, text, tokenIds, optionalInteger } from '../core/members.ts';
import { answerCount } from '../core/sampling-schema.ts';
import { parseOrThrow } from '../core/violations.ts';
import type { RequestFacts } from '../core/wire.ts';

const promptError = { error: inputMessages.error };

export const completionsBody = z
  .looseObject({
    ...routedMembers,
    max_tokens: optionalInteger(0),
    n: answerCount,
    best_of: optionalInteger(0, 20),
    prompt: z
      .union([text, tokenIds, list(z.union([text, tokenIds], promptError), inputMessages)], promptError)
      .nullish()
      .describe('Texts or token ids. Without a prompt the model begins a document.'),
  })
  .meta({ id: 'CompletionRequest' });

/** Reads what the gateway needs to know of a request. @throws WireError 400 */
export function readFacts(body: Json): RequestFacts {
  const request = parseOrThrow(completionsBody, body);
  const prompts = splitInputs(request.prompt ?? '');
  const counter = new InputCounter();
  for (const prompt of prompts) counter.addPart(prompt);
  counter.addText(body['suffix']);
  return {
    ...routedFacts(request),
    maxTokens: request.max_tokens ?? undefined,
    answers: prompts.length * Math.max(request.n ?? 1, request.best_of ?? 1),
    needs: [],
    ...counter.counts,
    serviceTier: body['service_tier'],
  };
}
