import { hash } from 'node:crypto';
import { isRecord, type Json } from '../../util/json.ts';
import { isLongNumber, parseExact } from '../../wires/core/json.ts';

/** What selects a stored answer. */
export interface CacheScope {
  readonly accountId: string;
  /** The wire of the request: an answer is stored in the form in which it was sent. */
  readonly wire: string;
  /** Catalog id of the model. */
  readonly model: string;
  /** What may serve the model for this caller; a model that moves to another provider or upstream starts anew. */
  readonly servedBy: readonly string[];
  /** Headers of the request that a provider receives. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The hooks that the answer has passed. */
  readonly hooks: readonly string[];
}

/**
 * Members that do not change the answer: they name the end user, or say where the provider keeps or routes the request. On the
 * Responses wire the answer repeats them, so there they count.
 */
const ignoredMembers: Readonly<Record<string, readonly string[]>> = {
  chat: ['user', 'safety_identifier', 'metadata', 'prompt_cache_key', 'prompt_cache_retention', 'store'],
  completions: ['user', 'safety_identifier', 'metadata', 'prompt_cache_key'],
  embeddings: ['user', 'safety_identifier'],
  messages: ['metadata'],
};

/**
 * The key of a request: SHA-256 (hex) over its account, its model and every member of its body that can change the answer.
 * The body counts as the caller sent it, not as a `Conversation`, because a provider of the same wire also receives members
 * that a `Conversation` does not have. The order of members, white space and the spelling of numbers do not count.
 * @param text the body, a JSON object
 */
export function cacheKey(scope: CacheScope, text: string): string {
  const ignored = new Set(['model', ...(ignoredMembers[scope.wire] ?? [])]);
  const members = Object.entries(parseExact(text) as Json).filter(
    ([name, value]) => !ignored.has(name) && !isDefault(name, value),
  );
  const { accountId, wire, model, servedBy, headers, hooks } = scope;
  return hash(
    'sha256',
    JSON.stringify(
      {
        version: 1,
        accountId,
        wire,
        model,
        servedBy: [...servedBy].sort(),
        headers,
        hooks,
        body: toObject(members),
      },
      (_name, value: unknown) => (isObject(value) ? toObject(Object.entries(value)) : value),
    ),
  );
}

/** Absent and null are the same on all wires, and so is a stream that is not wanted. */
const isDefault = (name: string, value: unknown): boolean =>
  value === null || (name === 'stream' && value === false);

const isObject = (value: unknown): value is Json => isRecord(value) && !isLongNumber(value);

/** An object with its members in one order. */
const toObject = (members: readonly (readonly [string, unknown])[]) =>
  Object.fromEntries(members.toSorted(([one], [other]) => (one < other ? -1 : 1)));
