import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import { whole } from '../core/members.ts';
import type { RequestFacts } from '../core/wire.ts';
import { routedFacts, routedMembers } from '../chat/request-schema.ts';
import { kindOf } from '../core/json.ts';
import { Measure, unknownSize } from '../core/measure.ts';

import { Violations } from '../core/violations.ts';

const asked = z.object({ ...routedMembers, max_output_tokens: whole(1) });

/** Reads what the gateway needs to know of a request; lenient about the rest. @throws WireError 400 */
export function factsOf(body: Json): RequestFacts {
  const faults = new Violations();
  refuseStored(body, faults);
  const said = faults.read(asked, body) ?? { model: '' };
  const tools = faults.list(body['tools'], 'tools');
  const measure = new Measure();
  measure.text(body['instructions']);
  const { input } = body;
  if (typeof input === 'string') measure.part(input);
  else if (Array.isArray(input)) input.forEach((item, index) => measureItem(measure, item, index, faults));
  else faults.add('input', `expected a text or an array of items, got ${kindOf(input)}`);
  const format = isRecord(body['text']) ? body['text']['format'] : undefined;
  measureTools(measure, tools, format, faults);
  faults.throwAny();
  return {
    ...routedFacts(said),
    maxTokens: said.max_output_tokens ?? undefined,
    answers: 1,
    needs: [
      ...(tools.length > 0 ? [{ cap: 'tools', param: 'tools' } as const] : []),
      ...(measure.images > 0 ? [{ cap: 'images', param: 'input' } as const] : []),
      ...(isRecord(format) && format['type'] !== 'text'
        ? [{ cap: 'structured_output', param: 'text.format' } as const]
        : []),
    ],
    ...measure.counts,
  };
}

/**
 * Refuses members that need storage. The gateway stores no answers, and what a provider stores in its account belongs
 * to no caller.
 */
function refuseStored(body: Json, faults: Violations): void {
  const send = 'this gateway stores no responses; send all items of the conversation in input';
  const stored = {
    previous_response_id: send,
    conversation: send,
    background: 'answers are not made in the background here; wait for it or use stream',
    prompt: 'stored prompts are not used here; send instructions and input',
  };
  for (const [member, why] of Object.entries(stored))
    if ((body[member] ?? false) !== false) faults.refuse(member, why);
}

/** Counts a value of unknown shape as JSON; images and files are counted separately. */
function measureUnknown(measure: Measure, value: unknown, path: string, faults: Violations): void {
  measure.parts++;
  try {
    const text = JSON.stringify(value, (key, each: unknown) => {
      if (typeof each !== 'string' || (key !== 'image_url' && key !== 'file_data')) return each;
      if (key === 'image_url') measure.images++;
      else measure.file(each);
      return '';
    });
    measure.textBytes += Buffer.byteLength(text ?? '');
  } catch {
    faults.add(path, 'expected JSON with fewer levels of nesting');
  }
}

const texts = new Set(['input_text', 'output_text', 'text', 'summary_text', 'reasoning_text']);

function measureItem(measure: Measure, item: unknown, index: number, faults: Violations): void {
  const path = `input.${index}`;
  if (!isRecord(item)) {
    faults.add(path, `expected an item such as {role: 'user', content: '...'}, got ${kindOf(item)}`);
    return;
  }
  const { type } = item;
  if (type === 'item_reference' || (type == null && item['role'] === undefined && 'id' in item)) {
    faults.refuse(path, 'this gateway stores no items to refer to; send the item itself');
    return;
  }
  if (type == null || type === 'message') measureContent(measure, item['content'], `${path}.content`, faults);
  else if (type === 'function_call') {
    measure.part(item['name']);
    measure.text(item['arguments']);
  } else if (type === 'function_call_output') {
    measureContent(measure, item['output'], `${path}.output`, faults);
  } else if (type === 'reasoning') {
    measureContent(measure, item['summary'], `${path}.summary`, faults);
    measureContent(measure, item['content'], `${path}.content`, faults);
    measure.text(item['encrypted_content']);
  } else measureUnknown(measure, item, path, faults);
}

function measureContent(measure: Measure, content: unknown, path: string, faults: Violations): void {
  if (typeof content === 'string') measure.part(content);
  else if (Array.isArray(content))
    content.forEach((part, index) => measurePart(measure, part, `${path}.${index}`, faults));
}

function measurePart(measure: Measure, part: unknown, path: string, faults: Violations): void {
  if (!isRecord(part)) {
    measureUnknown(measure, part, path, faults);
    return;
  }
  const { type, text, refusal } = part;
  if (typeof text === 'string' && texts.has(String(type))) measure.part(text);
  else if (typeof refusal === 'string' && type === 'refusal') measure.part(refusal);
  else if (type === 'input_image' || type === 'input_file') measureMedia(measure, part, path, faults);
  else measureUnknown(measure, part, path, faults);
}

function measureMedia(measure: Measure, part: Json, path: string, faults: Violations): void {
  measure.parts++;
  if (part['file_id'] !== undefined && part['file_id'] !== null)
    faults.refuse(`${path}.file_id`, 'this gateway stores no files; send image_url or file_data');
  if (part['type'] === 'input_image') {
    measure.images++;
    return;
  }
  measure.file(part['file_data']);
  if (typeof part['file_url'] === 'string') measure.fileBytes += unknownSize;
  measure.text(part['filename']);
}

/** Tools that run at the gateway or the caller; all others add text of their own. */
const plainTools = new Set(['function', 'custom', 'namespace']);

function measureTools(
  measure: Measure,
  tools: readonly unknown[],
  format: unknown,
  faults: Violations,
): void {
  tools.forEach((tool, index) => {
    measureUnknown(measure, tool, `tools.${index}`, faults);
    if (isRecord(tool) && !plainTools.has(String(tool['type']))) measure.fileBytes += unknownSize;
  });
  if (isRecord(format) && format['type'] === 'json_schema')
    measureUnknown(measure, format, 'text.format', faults);
}
