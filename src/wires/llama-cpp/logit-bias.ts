import { z } from 'zod';
import { maxViolations } from '../../http/violations.ts';
import { isTokenId } from '../core/members.ts';

export type BiasEntry = readonly [token: number | string, bias: number];

/** Limits of all entries together. */
const limits = { entries: 10_000, characters: 20_000 };
/** From this bias on, the engine bans a token or always samples it. */
const maxBias = 100;
const entryError = 'expected [token id or text, number or false]';
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
    const addIssue = (path: string | undefined, message: string) => {
      const issuePath = path === undefined ? [] : [path];
      context.issues.push({ code: 'custom', message, path: issuePath, input: value });
    };
    if (value === undefined || value === null) return [];
    if (typeof value !== 'object') {
      addIssue(undefined, 'expected an array of [token id or text, number or false], or an object');
      return [];
    }
    const rawEntries: [string, unknown, unknown][] = Array.isArray(value)
      ? value.map((pair: unknown, index) =>
          Array.isArray(pair) && pair.length === 2
            ? [String(index), pair[0], pair[1]]
            : [String(index), undefined, undefined],
        )
      : Object.entries(value).map(([key, bias]) => [key, /^\d{1,9}$/.test(key) ? Number(key) : key, bias]);
    let characters = 0;
    const entries: BiasEntry[] = [];
    for (const [path, token, bias] of rawEntries.slice(0, limits.entries)) {
      if (typeof token === 'string') characters += token.length;
      if (isToken(token) && bias === false) entries.push([token, -maxBias]);
      else if (isToken(token) && typeof bias === 'number' && Number.isFinite(bias))
        entries.push([token, Math.max(-maxBias, Math.min(maxBias, bias))]);
      else addIssue(path, entryError);
      if (context.issues.length > maxViolations) break;
    }
    if (rawEntries.length > limits.entries) addIssue(undefined, `at most ${limits.entries} entries`);
    if (characters > limits.characters)
      addIssue(undefined, `at most ${limits.characters} characters of text`);
    return entries;
  });
