import type { Json } from '../../util/json.ts';
import { commonFacts, mostAnswers } from '../chat/facts.ts';
import { Measure } from '../core/measure.ts';
import { eachOf, text, textsOrIds } from '../core/members.ts';
import { Violations } from '../core/violations.ts';
import type { RequestFacts } from '../core/wire.ts';

const mostBestOf = 20;
const prompt = textsOrIds(text).nullish();

/** What the gateway has to know of a request. @throws WireError 400 */
export function factsOf(body: Json): RequestFacts {
  const faults = new Violations();
  const base = commonFacts(body, faults);
  const maxTokens = faults.number(body['max_tokens'], 'max_tokens', { least: 0, whole: true });
  const n = faults.number(body['n'], 'n', { least: 1, most: mostAnswers, whole: true }) ?? 1;
  const bestOf = faults.number(body['best_of'], 'best_of', { least: 0, most: mostBestOf, whole: true }) ?? 1;
  // Without any the model begins a document.
  const prompts = eachOf(faults.read(prompt, body['prompt'], 'prompt') ?? '');
  faults.throwAny();

  const measure = new Measure();
  for (const one of prompts) measure.part(one);
  measure.text(body['suffix']);
  return {
    ...base,
    maxTokens,
    answers: prompts.length * Math.max(n, bestOf),
    needs: [],
    ...measure.counts,
  };
}
