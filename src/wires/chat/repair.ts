import { isRecord } from '../../util/json.ts';
import type { AnswerMetadata } from '../core/wire.ts';
import { type ChoiceReader, splitContentParts, finishReasons } from './choices.ts';
import { answerId } from './resident-answer-options.ts';

/**
 * Repairs answers of providers that omit members, or write null where OpenAI's schema does not allow it. Every function
 * modifies its argument in place, leaves valid members unchanged, and returns whether it changed anything.
 */

type MutableJson = Record<string, unknown>;
const isMutableJson = (value: unknown): value is MutableJson => isRecord(value);

/** Finish reasons in OpenAI's schema. */
const knownFinishReasons = new Set<unknown>([
  'stop',
  'length',
  'tool_calls',
  'content_filter',
  'function_call',
]);

/** Repairs a complete answer. */
export function repairBody(body: MutableJson, metadata: AnswerMetadata): boolean {
  let changed = repairHead(body, 'chat.completion', metadata);
  const choices = body['choices'] as unknown[];
  choices.forEach((choice, index) => {
    if (!isMutableJson(choice)) return;
    changed = setDefault(choice, 'index', index) || changed;
    if (!knownFinishReasons.has(choice['finish_reason'])) {
      const rawReason = choice['finish_reason'];
      choice['finish_reason'] =
        (typeof rawReason === 'string' ? finishReasons[rawReason] : undefined) ?? 'stop';
      changed = true;
    }
    changed = setDefault(choice, 'logprobs', null) || changed;
    const message = isMutableJson(choice['message']) ? choice['message'] : {};
    if (choice['message'] !== message) {
      choice['message'] = message;
      changed = true;
    }
    changed = repairMessage(message) || changed;
  });
  return changed;
}

function repairMessage(message: MutableJson): boolean {
  let changed = false;
  if (message['role'] !== 'assistant') {
    message['role'] = 'assistant';
    changed = true;
  }
  changed = flattenContent(message) || changed;
  changed = setDefault(message, 'content', null) || changed;
  changed = setDefault(message, 'refusal', null) || changed;
  changed = deleteNulls(message, 'tool_calls', 'function_call', 'annotations') || changed;
  const { tool_calls: calls } = message;
  if (Array.isArray(calls))
    for (const call of calls as unknown[]) {
      if (!isMutableJson(call)) continue;
      changed = setDefault(call, 'type', 'function') || changed;
      if (isMutableJson(call['function'])) changed = stringifyArguments(call['function']) || changed;
    }
  return changed;
}

/** Repairs the common members of bodies and chunks. */
export function repairHead(body: MutableJson, object: string, metadata: AnswerMetadata): boolean {
  let changed = false;
  if (typeof body['id'] !== 'string') {
    body['id'] = answerId(object === 'text_completion' ? 'cmpl' : 'chatcmpl', metadata.requestId);
    changed = true;
  }
  if (body['object'] !== object) {
    body['object'] = object;
    changed = true;
  }
  if (!Number.isInteger(body['created'])) {
    body['created'] = metadata.created;
    changed = true;
  }
  if (typeof body['model'] !== 'string') {
    body['model'] = metadata.model;
    changed = true;
  }
  changed = deleteNulls(body, 'system_fingerprint') || changed;
  return repairUsage(body) || changed;
}

function repairUsage(body: MutableJson): boolean {
  const { usage } = body;
  if (!isMutableJson(usage)) return false;
  let changed = deleteNulls(usage, 'prompt_tokens_details', 'completion_tokens_details');
  for (const name of ['prompt_tokens', 'completion_tokens']) changed = setDefault(usage, name, 0) || changed;
  changed =
    setDefault(usage, 'total_tokens', Number(usage['prompt_tokens']) + Number(usage['completion_tokens'])) ||
    changed;
  const cacheHitTokens = usage['prompt_cache_hit_tokens'];
  if (typeof cacheHitTokens === 'number' && usage['prompt_tokens_details'] === undefined) {
    usage['prompt_tokens_details'] = { cached_tokens: cacheHitTokens };
    changed = true;
  }
  return changed;
}

/**
 * Repairs a choice of a chunk.
 * @param isFirst whether the chunk is the first of its answer and carries the role
 * @param reader the reader that has read the choice
 */
export function repairChoice(
  choice: MutableJson,
  index: number,
  isFirst: boolean,
  reader: ChoiceReader | undefined,
): boolean {
  let changed = setDefault(choice, 'index', index);
  const reason = choice['finish_reason'];
  if (reason !== null && !knownFinishReasons.has(reason)) {
    choice['finish_reason'] =
      typeof reason === 'string' && reason !== '' ? (finishReasons[reason] ?? 'stop') : null;
    changed = true;
  }
  if (!isMutableJson(choice['delta'])) {
    choice['delta'] = isMutableJson(choice['message']) ? choice['message'] : {};
    delete choice['message'];
    changed = true;
  }
  const delta = choice['delta'] as MutableJson;
  const { role } = delta;
  if (isFirst && role !== 'assistant') {
    choice['delta'] = { role: 'assistant', ...delta, ...(role === undefined ? {} : { role: 'assistant' }) };
    changed = true;
  } else if (role === null || role === '') {
    delete delta['role'];
    changed = true;
  }
  return repairDelta(choice['delta'] as MutableJson, reader) || changed;
}

function repairDelta(delta: MutableJson, reader: ChoiceReader | undefined): boolean {
  let changed = deleteNulls(delta, 'tool_calls', 'function_call');
  changed = flattenContent(delta) || changed;
  const { tool_calls: calls } = delta;
  if (!Array.isArray(calls)) return changed;
  let index = 0;
  for (const call of calls as unknown[]) {
    if (!isMutableJson(call)) continue;
    const placed = reader?.calls.lastPieces[index++];
    changed = deleteNulls(call, 'id', 'type', 'function') || changed;
    if (placed && call['index'] !== placed.index) {
      call['index'] = placed.index;
      changed = true;
    }
    if (placed?.isFirst && placed.id !== undefined && (call['id'] === undefined || call['id'] === '')) {
      call['id'] = placed.id;
      changed = true;
    }
    if (placed?.isFirst) changed = setDefault(call, 'type', 'function') || changed;
    if (isMutableJson(call['function'])) {
      changed = deleteNulls(call['function'], 'name', 'arguments') || changed;
      changed = stringifyArguments(call['function']) || changed;
    }
  }
  return changed;
}

/** Replaces content in parts by text. */
function flattenContent(message: MutableJson): boolean {
  const { content } = message;
  if (!Array.isArray(content)) return false;
  const { text, reasoning } = splitContentParts(content);
  message['content'] = text;
  if (reasoning !== '' && message['reasoning'] === undefined) message['reasoning'] = reasoning;
  return true;
}

/** Replaces arguments that arrived as an object by text. */
function stringifyArguments(functionMember: MutableJson): boolean {
  const { arguments: args } = functionMember;
  if (typeof args === 'string' || args === undefined) return false;
  functionMember['arguments'] = JSON.stringify(args);
  return true;
}

export function setDefault(body: MutableJson, name: string, value: unknown): boolean {
  if (body[name] !== undefined) return false;
  body[name] = value;
  return true;
}

function deleteNulls(body: MutableJson, ...names: readonly string[]): boolean {
  let changed = false;
  for (const name of names)
    if (body[name] === null) {
      delete body[name];
      changed = true;
    }
  return changed;
}
