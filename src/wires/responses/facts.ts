import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import { optionalInteger } from '../core/members.ts';
import { isCallCount, maxCallCount } from '../core/hosted-calls.ts';
import { readHostedTools } from './hosted-tools.ts';
import type { RequestFacts } from '../core/wire.ts';
import { routedFacts, routedMembers } from '../chat/request-schema.ts';
import { describeType } from '../core/json.ts';
import { InputCounter, unknownSizeBytes } from '../core/input-counter.ts';

import { Violations } from '../core/violations.ts';

const factsSchema = z.object({ ...routedMembers, max_output_tokens: optionalInteger(1) });

/** Reads what the gateway needs to know of a request; lenient about the rest. @throws WireError 400 */
export function readFacts(body: Json): RequestFacts {
  const violations = new Violations();
  refuseStorage(body, violations);
  const members = violations.parse(factsSchema, body) ?? { model: '' };
  const tools = violations.list(body['tools'], 'tools');
  const counter = new InputCounter();
  counter.addText(body['instructions']);
  const { input } = body;
  if (typeof input === 'string') counter.addPart(input);
  else if (Array.isArray(input)) input.forEach((item, index) => countItem(counter, item, index, violations));
  else violations.add('input', `expected a text or an array of items, got ${describeType(input)}`);
  const hostedTools = readHostedTools(tools);
  const { max_tool_calls: maxHostedCalls } = body;
  if (hostedTools.length > 0 && maxHostedCalls != null && !isCallCount(maxHostedCalls))
    violations.add('max_tool_calls', `expected a whole number from 1 to ${maxCallCount}`);
  const format = isRecord(body['text']) ? body['text']['format'] : undefined;
  countTools(counter, tools, format, violations);
  violations.throwIfAny();
  return {
    ...routedFacts(members),
    maxTokens: members.max_output_tokens ?? undefined,
    answers: 1,
    needs: [
      ...(tools.length > 0 ? [{ cap: 'tools', param: 'tools' } as const] : []),
      ...(counter.images > 0 ? [{ cap: 'images', param: 'input' } as const] : []),
      ...(isRecord(format) && format['type'] !== 'text'
        ? [{ cap: 'structured_output', param: 'text.format' } as const]
        : []),
    ],
    ...counter.counts,
    ...(hostedTools.length > 0 ? { hostedTools } : {}),
    ...(isCallCount(maxHostedCalls) ? { maxHostedCalls } : {}),
    serviceTier: body['service_tier'],
  };
}

/**
 * Refuses members that need storage. The gateway stores no answers, and what a provider stores in its account belongs
 * to no caller.
 */
function refuseStorage(body: Json, violations: Violations): void {
  const sendAllItems = 'this gateway stores no responses; send all items of the conversation in input';
  const refusals = {
    previous_response_id: sendAllItems,
    conversation: sendAllItems,
    background: 'answers are not made in the background here; wait for it or use stream',
    prompt: 'stored prompts are not used here; send instructions and input',
  };
  for (const [member, reason] of Object.entries(refusals))
    if ((body[member] ?? false) !== false) violations.addUnsupported(member, reason);
}

/** Counts a value of unknown shape as JSON; images and files are counted separately. */
function countUnknown(counter: InputCounter, value: unknown, path: string, violations: Violations): void {
  counter.parts++;
  try {
    const text = JSON.stringify(value, (key, member: unknown) => {
      if (typeof member !== 'string' || (key !== 'image_url' && key !== 'file_data')) return member;
      if (key === 'image_url') counter.images++;
      else counter.addFile(member);
      return '';
    });
    counter.textBytes += Buffer.byteLength(text ?? '');
  } catch {
    violations.add(path, 'expected JSON with fewer levels of nesting');
  }
}

const textPartTypes = new Set(['input_text', 'output_text', 'text', 'summary_text', 'reasoning_text']);

function countItem(counter: InputCounter, item: unknown, index: number, violations: Violations): void {
  const path = `input.${index}`;
  if (!isRecord(item)) {
    violations.add(
      path,
      `expected an item such as {role: 'user', content: '...'}, got ${describeType(item)}`,
    );
    return;
  }
  const { type } = item;
  if (type === 'item_reference' || (type == null && item['role'] === undefined && 'id' in item)) {
    violations.addUnsupported(path, 'this gateway stores no items to refer to; send the item itself');
    return;
  }
  if (type == null || type === 'message')
    countContent(counter, item['content'], `${path}.content`, violations);
  else if (type === 'function_call') {
    counter.addPart(item['name']);
    counter.addText(item['arguments']);
  } else if (type === 'function_call_output') {
    countContent(counter, item['output'], `${path}.output`, violations);
  } else if (type === 'reasoning') {
    countContent(counter, item['summary'], `${path}.summary`, violations);
    countContent(counter, item['content'], `${path}.content`, violations);
    counter.addText(item['encrypted_content']);
  } else countUnknown(counter, item, path, violations);
}

function countContent(counter: InputCounter, content: unknown, path: string, violations: Violations): void {
  if (typeof content === 'string') counter.addPart(content);
  else if (Array.isArray(content))
    content.forEach((part, index) => countPart(counter, part, `${path}.${index}`, violations));
}

function countPart(counter: InputCounter, part: unknown, path: string, violations: Violations): void {
  if (!isRecord(part)) {
    countUnknown(counter, part, path, violations);
    return;
  }
  const { type, text, refusal } = part;
  if (typeof text === 'string' && textPartTypes.has(String(type))) counter.addPart(text);
  else if (typeof refusal === 'string' && type === 'refusal') counter.addPart(refusal);
  else if (type === 'input_image' || type === 'input_file') countMedia(counter, part, path, violations);
  else countUnknown(counter, part, path, violations);
}

function countMedia(counter: InputCounter, part: Json, path: string, violations: Violations): void {
  counter.parts++;
  if (part['file_id'] !== undefined && part['file_id'] !== null)
    violations.addUnsupported(`${path}.file_id`, 'this gateway stores no files; send image_url or file_data');
  if (part['type'] === 'input_image') {
    counter.images++;
    return;
  }
  counter.addFile(part['file_data']);
  if (typeof part['file_url'] === 'string') counter.fileBytes += unknownSizeBytes;
  counter.addText(part['filename']);
}

/** Tools that run at the gateway or the caller; all others add text of their own. */
const localToolTypes = new Set(['function', 'custom', 'namespace']);

function countTools(
  counter: InputCounter,
  tools: readonly unknown[],
  format: unknown,
  violations: Violations,
): void {
  tools.forEach((tool, index) => {
    countUnknown(counter, tool, `tools.${index}`, violations);
    if (isRecord(tool) && !localToolTypes.has(String(tool['type']))) counter.fileBytes += unknownSizeBytes;
  });
  if (isRecord(format) && format['type'] === 'json_schema')
    countUnknown(counter, format, 'text.format', violations);
}
