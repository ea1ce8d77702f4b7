import { isRecord, type Json } from '../../util/json.ts';
import type { UpstreamModel } from '../core/types.ts';
import { isMarked } from '../core/seals.ts';
import type { UpstreamOptions } from '../core/wire.ts';
import { isStrict } from './dialect.ts';

/**
 * Removes message members that the provider would refuse: reasoning, signatures and cache breakpoints that come from,
 * or are meant for, other models. Providers that refuse unknown members get messages without all of these; other
 * providers get messages without foreign signatures.
 */
export function historyEdits(text: string, body: Json, { model }: UpstreamOptions): Json {
  return isStrict(model) ? strictEdits(text, body, model) : sealEdits(text, body, model);
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
  const foreign = family === 'mistral' ? [...foreignMembers, ...foreignToMistral] : foreignMembers;
  const found = foreign.filter((name) => text.includes(`"${name}"`));
  if (found.length === 0) return {};
  const names = new Set(found);
  return {
    ...(Array.isArray(messages) ? { messages: messages.map((message) => cleaned(message, names)) } : {}),
    ...(Array.isArray(tools) && names.has('cache_control')
      ? { tools: tools.map((tool) => without(tool, names)) }
      : {}),
  };
}

function without(value: unknown, names: ReadonlySet<string>): unknown {
  return isRecord(value)
    ? Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)))
    : value;
}

function cleaned(message: unknown, names: ReadonlySet<string>): unknown {
  const plain = without(message, names);
  if (!isRecord(plain)) return plain;
  const { content, tool_calls: calls } = plain;
  return {
    ...plain,
    ...(Array.isArray(content) ? { content: content.map((part) => withoutMark(part)) } : {}),
    ...(Array.isArray(calls) ? { tool_calls: calls.map((call) => without(call, names)) } : {}),
  };
}

const breakpoint = new Set(['cache_control']);
const withoutMark = (part: unknown) => without(part, breakpoint);

function sealEdits(text: string, { messages }: Json, { family }: UpstreamModel): Json {
  const mayBeSealed = text.includes('"reasoning_details"') || text.includes('"thought_signature"');
  if (!mayBeSealed || !Array.isArray(messages)) return {};
  const all = messages as readonly unknown[];
  const unsealed = all.map((message) => withoutSeals(message, family));
  return unsealed.some((message, place) => message !== all[place]) ? { messages: unsealed } : {};
}

/** Returns the message itself where it contains no foreign signature. */
function withoutSeals(message: unknown, family: string): unknown {
  if (!isRecord(message)) return message;
  const { reasoning_details: details, tool_calls: calls } = message;
  const hasDetails = Array.isArray(details) && details.some(isAnothers);
  const hasCalls = family !== 'google' && Array.isArray(calls) && calls.some(isGoogles);
  if (!hasDetails && !hasCalls) return message;
  return {
    ...message,
    ...(hasDetails ? { reasoning_details: details.filter((detail) => !isAnothers(detail)) } : {}),
    ...(hasCalls
      ? { tool_calls: calls.map((call) => (isGoogles(call) ? without(call, extraContent) : call)) }
      : {}),
  };
}

const extraContent = new Set(['extra_content']);

/** Whether the gateway tagged the signature, so it belongs to a provider on another wire. */
const isAnothers = (detail: unknown): boolean =>
  isRecord(detail) &&
  [detail['signature'], detail['data']].some((seal) => typeof seal === 'string' && isMarked(seal));

function isGoogles(call: unknown): boolean {
  const extra = isRecord(call) ? call['extra_content'] : undefined;
  const google = isRecord(extra) ? extra['google'] : undefined;
  return isRecord(google) && 'thought_signature' in google;
}
