import { z } from 'zod';
import type { Json } from '../../util/json.ts';
import { commonFacts, mostAnswers } from '../chat/facts.ts';
import { Measure } from '../core/measure.ts';
import { routedMembers } from '../chat/request-schema.ts';
import { kindOf } from '../core/json.ts';
import { Violations } from '../core/violations.ts';
import type { RequestFacts } from '../core/wire.ts';

const mostBestOf = 20;

const ids = z.array(z.int().min(0));

/** What `factsOf` takes, for the document: zod would make an issue of each of a million ids. */
export const completionsBody = z
  .looseObject({
    ...routedMembers,
    prompt: z
      .union([z.string(), z.array(z.union([z.string(), ids])).min(1), ids.min(1)])
      .nullish()
      .describe('Texts, or the ids of tokens. Without any the model begins a document.'),
    max_tokens: z.int().min(0).nullish(),
    n: z.int().min(1).max(mostAnswers).nullish(),
    best_of: z.int().min(0).max(mostBestOf).nullish(),
  })
  .meta({ id: 'CompletionRequest' });

/** What the gateway has to know of a request. @throws WireError 400 */
export function factsOf(body: Json): RequestFacts {
  const faults = new Violations();
  const base = commonFacts(body, faults);
  const maxTokens = faults.number(body['max_tokens'], 'max_tokens', { least: 0, whole: true });
  const n = faults.number(body['n'], 'n', { least: 1, most: mostAnswers, whole: true }) ?? 1;
  const bestOf = faults.number(body['best_of'], 'best_of', { least: 0, most: mostBestOf, whole: true }) ?? 1;
  const prompts = promptsOf(body['prompt'], faults);
  faults.throwAny();

  const measure = new Measure();
  for (const prompt of prompts) {
    measure.parts++;
    if (typeof prompt === 'string') measure.text(prompt);
    // A byte at the most is a token at the most: an id is a token.
    else measure.textBytes += prompt.length;
  }
  measure.text(body['suffix']);
  return {
    ...base,
    maxTokens,
    answers: prompts.length * Math.max(n, bestOf),
    needs: [],
    ...measure.counts,
  };
}

const isId = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;
const isIds = (value: unknown): value is readonly number[] => Array.isArray(value) && value.every(isId);

/** A text, a list of texts, the ids of tokens, or a list of those. Without any the model begins a document. */
function promptsOf(prompt: unknown, faults: Violations): readonly (string | readonly number[])[] {
  if (prompt === undefined || prompt === null) return [''];
  if (typeof prompt === 'string') return [prompt];
  const isFit = (each: unknown) => typeof each === 'string' || isIds(each);
  if (Array.isArray(prompt) && prompt.length > 0) {
    const all = prompt as readonly unknown[];
    if (isIds(all)) return [all];
    const wrong = all.findIndex((each) => !isFit(each));
    if (wrong < 0) return all as readonly (string | readonly number[])[];
    faults.add(`prompt.${wrong}`, `expected a text or ids of tokens, got ${kindOf(all[wrong])}`);
    return [];
  }
  const came = Array.isArray(prompt) ? 'an empty array' : kindOf(prompt);
  faults.add('prompt', `expected a text, texts, ids of tokens or lists of them, got ${came}`);
  return [];
}
