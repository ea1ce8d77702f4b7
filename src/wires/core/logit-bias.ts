import { z } from 'zod';
import { maxViolations } from '../../http/violations.ts';
import { isTokenId } from './members.ts';

/** `path`: the index of a pair, or the name of an object's member. */
export type BiasEntry = readonly [token: number | string, bias: number, path: string];

/** Limits of all entries together. */
const limits = { entries: 10_000, characters: 20_000 };
/** From this bias on, the engine bans a token or always samples it. */
const maxBias = 100;
const isToken = (value: unknown): value is number | string => typeof value === 'string' || isTokenId(value);

interface LogitBiasRules {
  /** What is said of a value that is no list of biases. */
  readonly error: string;
  /** @returns the bias, or what was expected instead */
  readonly toBias: (value: unknown) => number | string;
  /** What `toBias` accepts, as a JSON schema. */
  readonly biasSchema: { readonly type: 'number'; readonly minimum?: number; readonly maximum?: number };
  /** What an object's member may be called beside a token id; undefined: any text. */
  readonly keyError?: string;
}

/** A token id as the name of an object's member. */
const idPattern = /^\d{1,9}$/;
const pairError = 'expected [token id or text, number or false]';

/** llama.cpp's rules: larger biases are cut, and a member of an object may be a text. */
export const lenientBias: LogitBiasRules = {
  error: 'expected an array of [token id or text, number or false], or an object',
  toBias: (value) =>
    typeof value === 'number' && Number.isFinite(value)
      ? Math.max(-maxBias, Math.min(maxBias, value))
      : pairError,
  biasSchema: { type: 'number' },
};

/** OpenAI's rules for the object, which are those of the pairs too. */
export const strictBias: LogitBiasRules = {
  error: `expected an object of token ids to numbers from -${maxBias} to ${maxBias}, or an array of [token id or text, number or false]`,
  toBias: (value) =>
    typeof value === 'number' && Math.abs(value) <= maxBias
      ? value
      : `expected a number from -${maxBias} to ${maxBias}, or false`,
  biasSchema: { type: 'number', minimum: -maxBias, maximum: maxBias },
  keyError: 'expected a token id',
};

/** Biases in llama.cpp's formats: pairs of a token id or text and a bias, or an object of them; false bans. */
export const logitBias = ({ error, toBias, biasSchema, keyError }: LogitBiasRules) =>
  z
    .unknown()
    .optional()
    .meta({
      description:
        'Pairs `[token id or text, bias]`, or an object of them; `false` bans. A text applies to each of its tokens.',
      anyOf: publishedForms(biasSchema, keyError === undefined ? {} : { pattern: idPattern.source }),
    })
    .transform((value, context): readonly BiasEntry[] => {
      const addIssue = (path: string | undefined, message: string) => {
        const issuePath = path === undefined ? [] : [path];
        context.issues.push({ code: 'custom', message, path: issuePath, input: value });
      };
      if (value === undefined || value === null) return [];
      if (typeof value !== 'object') {
        addIssue(undefined, error);
        return [];
      }
      let characters = 0;
      const entries: BiasEntry[] = [];
      const raw = rawEntries(value);
      for (const { path, token, rawBias, isKey } of raw.slice(0, limits.entries)) {
        if (typeof token === 'string') characters += token.length;
        const bias = rawBias === false ? -maxBias : toBias(rawBias);
        if (isKey && keyError !== undefined && typeof token === 'string') addIssue(path, keyError);
        else if (!isToken(token)) addIssue(path, pairError);
        else if (typeof bias === 'string') addIssue(path, bias);
        else entries.push([token, bias, path]);
        if (context.issues.length > maxViolations) break;
      }
      if (raw.length > limits.entries) addIssue(undefined, `at most ${limits.entries} entries`);
      if (characters > limits.characters)
        addIssue(undefined, `at most ${limits.characters} characters of text`);
      return entries;
    });

/** The forms as JSON schemas. */
function publishedForms(bias: LogitBiasRules['biasSchema'], key: { readonly pattern?: string }) {
  const value = { anyOf: [bias, { const: false }] };
  const token = {
    anyOf: [{ type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }, { type: 'string' }],
  };
  const pair = { type: 'array', prefixItems: [token, value], minItems: 2, maxItems: 2 };
  return [
    { type: 'array', items: pair, maxItems: limits.entries },
    { type: 'object', propertyNames: key, additionalProperties: value, maxProperties: limits.entries },
    { type: 'null' },
  ];
}

interface RawEntry {
  readonly path: string;
  readonly token: unknown;
  readonly rawBias: unknown;
  /** The token is the name of an object's member. */
  readonly isKey: boolean;
}

const rawEntries = (value: object): RawEntry[] =>
  Array.isArray(value)
    ? value.map((pair: unknown, index) => {
        const [token, rawBias] = Array.isArray(pair) && pair.length === 2 ? (pair as unknown[]) : [];
        return { path: String(index), token, rawBias, isKey: false };
      })
    : Object.entries(value).map(([key, rawBias]) => ({
        path: key,
        token: idPattern.test(key) ? Number(key) : key,
        rawBias,
        isKey: true,
      }));
