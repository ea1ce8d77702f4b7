import { z } from 'zod';
import { maxViolations } from '../../http/violations.ts';
import { isTokenId } from '../core/members.ts';

export type BiasEntry = readonly [token: number | string, bias: number];

/** Limits of all entries together. */
const most = { entries: 10_000, characters: 20_000 };
/** From this bias on, the engine bans a token or always samples it. */
const extreme = 100;
const entryForm = 'expected [token id or text, number or false]';
const isToken = (value: unknown): value is number | string => typeof value === 'string' || isTokenId(value);

/** llama.cpp's formats: pairs of a token id or text and a bias, or an object of them; false bans. */
export const logitBias = z
  .unknown()
  .optional()
  .meta({
    description:
      'Pairs `[token id or text, bias]`, or an object of them; `false` bans. A text applies to each of its tokens.',
    anyOf: [{ type: 'array', items: { type: 'array' } }, { type: 'object' }],
  })
  .transform((value, context): readonly BiasEntry[] => {
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
    const entries: BiasEntry[] = [];
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
