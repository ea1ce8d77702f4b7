import { z } from 'zod';
import type { Tokenizer } from '../../engine/index.ts';
import { invalidBody, maxViolations } from '../../http/violations.ts';

type Entry = readonly [token: number | string, bias: number];

/** What is encoded of all texts together. */
const most = { entries: 10_000, characters: 20_000 };
/** From here on the engine bans a token, or draws no other. */
const extreme = 100;
const entryForm = 'expected [token id or text, number or false]';
const isToken = (value: unknown): value is number | string =>
  typeof value === 'string' || (Number.isSafeInteger(value) && (value as number) >= 0);

/** llama.cpp's forms: pairs of a token id or a text and an amount, or an object of them; false bans. */
export const logitBias = z
  .unknown()
  .optional()
  .meta({
    description:
      'Pairs `[token id or text, amount]`, or an object of them; `false` bans. A text means each of its tokens.',
    anyOf: [{ type: 'array', items: { type: 'array' } }, { type: 'object' }],
  })
  .transform((value, context): readonly Entry[] => {
    const fail = (path: string | undefined, message: string) => {
      const place = path === undefined ? [] : [path];
      context.issues.push({ code: 'custom', message, path: place, input: value });
    };
    if (value === undefined || value === null) return [];
    if (typeof value !== 'object') {
      fail(undefined, 'expected an array of [token id or text, number or false], or an object');
      return [];
    }
    const given: [string, unknown, unknown][] = Array.isArray(value)
      ? value.map((pair: unknown, index) =>
          Array.isArray(pair) && pair.length === 2
            ? [String(index), pair[0], pair[1]]
            : [String(index), undefined, undefined],
        )
      : Object.entries(value).map(([key, bias]) => [key, /^\d{1,9}$/.test(key) ? Number(key) : key, bias]);
    let characters = 0;
    const entries: Entry[] = [];
    for (const [path, token, bias] of given.slice(0, most.entries)) {
      if (typeof token === 'string') characters += token.length;
      if (isToken(token) && bias === false) entries.push([token, -extreme]);
      else if (isToken(token) && typeof bias === 'number' && Number.isFinite(bias))
        entries.push([token, Math.max(-extreme, Math.min(extreme, bias))]);
      else fail(path, entryForm);
      if (context.issues.length > maxViolations) break;
    }
    if (given.length > most.entries) fail(undefined, `at most ${most.entries} entries`);
    if (characters > most.characters) fail(undefined, `at most ${most.characters} characters of text`);
    return entries;
  });

/** By token; of two amounts for one token the last counts. */
export function toBias(entries: readonly Entry[], tokenizer: Tokenizer): Map<number, number> {
  const bias = new Map<number, number>();
  for (const [token, amount] of entries) {
    if (typeof token === 'string') {
      for (const id of tokenizer.encode(token)) bias.set(id, amount);
    } else if (token < tokenizer.vocabSize) {
      bias.set(token, amount);
    } else {
      const message = `no such token: ${token} (the model has ids 0 to ${tokenizer.vocabSize - 1})`;
      throw invalidBody([{ path: 'logit_bias', message }]);
    }
  }
  return bias;
}
