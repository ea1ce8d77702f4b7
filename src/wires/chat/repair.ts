import { isRecord } from '../../util/json.ts';
import type { AnswerAbout } from '../core/wire.ts';
import { type ChoiceReader, partsIn, reasons } from './choices.ts';
import { answerId } from './resident-form.ts';

/**
 * Repairs answers of providers that omit members, or write null where OpenAI's schema does not allow it. Every function
 * modifies its argument in place, leaves valid members unchanged, and returns whether it changed anything.
 */

type Open = Record<string, unknown>;
const isOpen = (value: unknown): value is Open => isRecord(value);

/** Finish reasons in OpenAI's schema. */
const published = new Set<unknown>(['stop', 'length', 'tool_calls', 'content_filter', 'function_call']);

/** Repairs a complete answer. */
export function repairBody(body: Open, about: AnswerAbout): boolean {
  let changed = repairHead(body, 'chat.completion', about);
  const choices = body['choices'] as unknown[];
  choices.forEach((choice, place) => {
    if (!isOpen(choice)) return;
    changed = fill(choice, 'index', place) || changed;
    if (!published.has(choice['finish_reason'])) {
      const said = choice['finish_reason'];
      choice['finish_reason'] = (typeof said === 'string' ? reasons[said] : undefined) ?? 'stop';
      changed = true;
    }
    changed = fill(choice, 'logprobs', null) || changed;
    const message = isOpen(choice['message']) ? choice['message'] : {};
    if (choice['message'] !== message) {
      choice['message'] = message;
      changed = true;
    }
    changed = repairMessage(message) || changed;
  });
  return changed;
}

function repairMessage(message: Open): boolean {
  let changed = false;
  if (message['role'] !== 'assistant') {
    message['role'] = 'assistant';
    changed = true;
  }
  changed = flatten(message) || changed;
  changed = fill(message, 'content', null) || changed;
  changed = fill(message, 'refusal', null) || changed;
  changed = dropNull(message, 'tool_calls', 'function_call', 'annotations') || changed;
  const { tool_calls: calls } = message;
  if (Array.isArray(calls))
    for (const call of calls as unknown[]) {
      if (!isOpen(call)) continue;
      changed = fill(call, 'type', 'function') || changed;
      if (isOpen(call['function'])) changed = asText(call['function']) || changed;
    }
  return changed;
}

/** Repairs the common members of bodies and chunks. */
export function repairHead(body: Open, object: string, about: AnswerAbout): boolean {
  let changed = false;
  if (typeof body['id'] !== 'string') {
    body['id'] = answerId(object === 'text_completion' ? 'cmpl' : 'chatcmpl', about.requestId);
    changed = true;
  }
  if (body['object'] !== object) {
    body['object'] = object;
    changed = true;
  }
  if (!Number.isInteger(body['created'])) {
    body['created'] = about.created;
    changed = true;
  }
  if (typeof body['model'] !== 'string') {
    body['model'] = about.model;
    changed = true;
  }
  changed = dropNull(body, 'system_fingerprint') || changed;
  return repairUsage(body) || changed;
}

function repairUsage(body: Open): boolean {
  const { usage } = body;
  if (!isOpen(usage)) return false;
  let changed = dropNull(usage, 'prompt_tokens_details', 'completion_tokens_details');
  for (const name of ['prompt_tokens', 'completion_tokens']) changed = fill(usage, name, 0) || changed;
  changed =
    fill(usage, 'total_tokens', Number(usage['prompt_tokens']) + Number(usage['completion_tokens'])) ||
    changed;
  const hit = usage['prompt_cache_hit_tokens'];
  if (typeof hit === 'number' && usage['prompt_tokens_details'] === undefined) {
    usage['prompt_tokens_details'] = { cached_tokens: hit };
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
  choice: Open,
  place: number,
  isFirst: boolean,
  reader: ChoiceReader | undefined,
): boolean {
  let changed = fill(choice, 'index', place);
  const reason = choice['finish_reason'];
  if (reason !== null && !published.has(reason)) {
    choice['finish_reason'] =
      typeof reason === 'string' && reason !== '' ? (reasons[reason] ?? 'stop') : null;
    changed = true;
  }
  if (!isOpen(choice['delta'])) {
    choice['delta'] = isOpen(choice['message']) ? choice['message'] : {};
    delete choice['message'];
    changed = true;
  }
  const delta = choice['delta'] as Open;
  const { role } = delta;
  if (isFirst && role !== 'assistant') {
    choice['delta'] = { role: 'assistant', ...delta, ...(role === undefined ? {} : { role: 'assistant' }) };
    changed = true;
  } else if (role === null || role === '') {
    delete delta['role'];
    changed = true;
  }
  return repairDelta(choice['delta'] as Open, reader) || changed;
}

function repairDelta(delta: Open, reader: ChoiceReader | undefined): boolean {
  let changed = dropNull(delta, 'tool_calls', 'function_call');
  changed = flatten(delta) || changed;
  const { tool_calls: calls } = delta;
  if (!Array.isArray(calls)) return changed;
  let place = 0;
  for (const call of calls as unknown[]) {
    if (!isOpen(call)) continue;
    const placed = reader?.calls.placed[place++];
    changed = dropNull(call, 'id', 'type', 'function') || changed;
    if (placed && call['index'] !== placed.index) {
      call['index'] = placed.index;
      changed = true;
    }
    if (placed?.isFirst && placed.id !== undefined && (call['id'] === undefined || call['id'] === '')) {
      call['id'] = placed.id;
      changed = true;
    }
    if (placed?.isFirst) changed = fill(call, 'type', 'function') || changed;
    if (isOpen(call['function'])) {
      changed = dropNull(call['function'], 'name', 'arguments') || changed;
      changed = asText(call['function']) || changed;
    }
  }
  return changed;
}

/** Replaces content in parts by text. */
function flatten(message: Open): boolean {
  const { content } = message;
  if (!Array.isArray(content)) return false;
  const { text, thoughts } = partsIn(content);
  message['content'] = text;
  if (thoughts !== '' && message['reasoning'] === undefined) message['reasoning'] = thoughts;
  return true;
}

/** Replaces arguments that arrived as an object by text. */
function asText(called: Open): boolean {
  const { arguments: args } = called;
  if (typeof args === 'string' || args === undefined) return false;
  called['arguments'] = JSON.stringify(args);
  return true;
}

export function fill(body: Open, name: string, value: unknown): boolean {
  if (body[name] !== undefined) return false;
  body[name] = value;
  return true;
}

function dropNull(body: Open, ...names: readonly string[]): boolean {
  let changed = false;
  for (const name of names)
    if (body[name] === null) {
      delete body[name];
      changed = true;
    }
  return changed;
}
