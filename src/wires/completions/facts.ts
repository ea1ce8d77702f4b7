import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import type { Json } from '../../util/json.ts';
import { routedFacts, routedMembers } from '../chat/request-schema.ts';
import { Measure } from '../core/measure.ts';
import { eachOf, inputsForm, text, tokenIds, whole } from '../core/members.ts';
import { answerCount } from '../core/sampling-schema.ts';
import { checked } from '../core/violations.ts';
import type { RequestFacts } from '../core/wire.ts';

const form = { error: inputsForm.error };

export const completionsBody = z
  .looseObject({
    ...routedMembers,
    max_tokens: whole(0),
    n: answerCount,
    best_of: whole(0, 20),
    prompt: z
      .union([text, tokenIds, list(z.union([text, tokenIds], form), inputsForm)], form)
      .nullish()
      .describe('Texts or token ids. Without a prompt the model begins a document.'),
  })
  .meta({ id: 'CompletionRequest' });

/** Reads what the gateway needs to know of a request. @throws WireError 400 */
export function factsOf(body: Json): RequestFacts {
  const request = checked(completionsBody, body);
  const prompts = eachOf(request.prompt ?? '');
  const measure = new Measure();
  for (const prompt of prompts) measure.part(prompt);
  measure.text(body['suffix']);
  return {
    ...routedFacts(request),
    maxTokens: request.max_tokens ?? undefined,
    answers: prompts.length * Math.max(request.n ?? 1, request.best_of ?? 1),
    needs: [],
    ...measure.counts,
  };
}
