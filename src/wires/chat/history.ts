import { isRecord, type Json } from '../../util/json.ts';
import type { UpstreamModel } from '../core/types.ts';
import { isTagged } from '../core/reasoning-signatures.ts';
import type { UpstreamOptions } from '../core/wire.ts';
import { refusesUnknownMembers } from './dialect.ts';

/**
 * Removes message members that the provider would refuse: reasoning, signatures and cache breakpoints that come from,
 * or are meant for, other models. Providers that refuse unknown members get messages without all of these; other
 * providers get messages without foreign signatures.
 */
export function historyEdits(text: string, body: Json, { model }: UpstreamOptions): Json {
  return refusesUnknownMembers(model) ? strictEdits(text, body, model) : signatureEdits(text, body, model);
}

const foreignMembers = [
  'cache_control',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'extra_content',
];
const foreignToMistral = ['refusal', 'annotations', 'audio', 'function_call'];

function strictEdits(text: string, { messages, tools }: Json, { family }: UpstreamModel): Json {
  const membersToRemove = family === 'mistral' ? [...foreignMembers, ...foreignToMistral] : foreignMembers;
  const presentMembers = membersToRemove.filter((name) => text.includes(`"${name}"`));
  if (presentMembers.length === 0) return {};
  const names = new Set(presentMembers);
  return {
    ...(Array.isArray(messages) ? { messages: messages.map((message) => cleanMessage(message, names)) } : {}),
    ...(Array.isArray(tools) && names.has('cache_control')
      ? { tools: tools.map((tool) => omitMembers(tool, names)) }
      : {}),
  };
}

function omitMembers(value: unknown, names: ReadonlySet<string>): unknown {
  return isRecord(value)
    ? Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)))
    : value;
}

function cleanMessage(message: unknown, names: ReadonlySet<string>): unknown {
  const cleaned = omitMembers(message, names);
  if (!isRecord(cleaned)) return cleaned;
  const { content, tool_calls: calls } = cleaned;
  return {
    ...cleaned,
    ...(Array.isArray(content) ? { content: content.map((part) => omitCacheControl(part)) } : {}),
    ...(Array.isArray(calls) ? { tool_calls: calls.map((call) => omitMembers(call, names)) } : {}),
  };
}

const cacheControlMember = new Set(['cache_control']);
const omitCacheControl = (part: unknown) => omitMembers(part, cacheControlMember);

function signatureEdits(text: string, { messages }: Json, { family }: UpstreamModel): Json {
  const mayHaveSignatures = text.includes('"reasoning_details"') || text.includes('"thought_signature"');
  if (!mayHaveSignatures || !Array.isArray(messages)) return {};
  const all = messages as readonly unknown[];
  const cleaned = all.map((message) => omitForeignSignatures(message, family));
  return cleaned.some((message, index) => message !== all[index]) ? { messages: cleaned } : {};
}

/** Returns the message itself where it contains no foreign signature. */
function omitForeignSignatures(message: unknown, family: string): unknown {
  if (!isRecord(message)) return message;
  const { reasoning_details: details, tool_calls: calls } = message;
  const hasDetails = Array.isArray(details) && details.some(hasForeignSignature);
  const hasCalls = family !== 'google' && Array.isArray(calls) && calls.some(hasGoogleSignature);
  if (!hasDetails && !hasCalls) return message;
  return {
    ...message,
    ...(hasDetails ? { reasoning_details: details.filter((detail) => !hasForeignSignature(detail)) } : {}),
    ...(hasCalls
      ? {
          tool_calls: calls.map((call) =>
            hasGoogleSignature(call) ? omitMembers(call, extraContentMember) : call,
          ),
        }
      : {}),
  };
}

const extraContentMember = new Set(['extra_content']);

/** Whether the gateway tagged the signature, so it belongs to a provider on another wire. */
const hasForeignSignature = (detail: unknown): boolean =>
  isRecord(detail) &&
  [detail['signature'], detail['data']].some(
    (signature) => typeof signature === 'string' && isTagged(signature),
  );

function hasGoogleSignature(call: unknown): boolean {
  const extra = isRecord(call) ? call['extra_content'] : undefined;
  const google = isRecord(extra) ? extra['google'] : undefined;
  return isRecord(google) && 'thought_signature' in google;
}
