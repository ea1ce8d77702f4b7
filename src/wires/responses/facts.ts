import { isRecord, type Json } from '../../util/json.ts';
import type { Cap } from '../core/types.ts';
import type { RequestFacts } from '../core/wire.ts';
import { Measure, unknownSize } from '../core/measure.ts';
import { kindOf } from '../core/json.ts';
import { Violations } from '../core/violations.ts';

/** What the gateway has to know of a request, read leniently. @throws WireError 400 */
export function factsOf(body: Json): RequestFacts {
  const faults = new Violations();
  refuseStored(body, faults);
  const model = faults.name(body['model'], 'model');
  const stream = faults.flag(body['stream'], 'stream') ?? false;
  const options = faults.record(body['stream_options'], 'stream_options');
  const includeUsage = faults.flag(options?.['include_usage'], 'stream_options.include_usage') ?? false;
  const limits = { least: 1, whole: true } as const;
  const maxTokens = faults.number(body['max_output_tokens'], 'max_output_tokens', limits);
  const tools = faults.list(body['tools'], 'tools');
  const size = new Size();
  if (typeof body['instructions'] === 'string') size.text(body['instructions']);
  const { input } = body;
  if (typeof input === 'string') size.part(input);
  else if (Array.isArray(input)) input.forEach((item, index) => measureItem(size, item, index, faults));
  else faults.add('input', `expected a text or an array of items, got ${kindOf(input)}`);
  const format = isRecord(body['text']) ? body['text']['format'] : undefined;
  measureTools(size, tools, format, faults);
  faults.throwAny();
  return {
    model,
    stream,
    includeUsage,
    maxTokens,
    answers: 1,
    needs: needsOf({ tools, format, images: size.images }),
    ...size.counts,
  };
}

/** The gateway keeps nothing of an answer, and what a provider keeps for its account is nobody's own here. */
function refuseStored(body: Json, faults: Violations): void {
  const send = 'this gateway stores no responses; send all items of the conversation in input';
  for (const member of ['previous_response_id', 'conversation'])
    if (body[member] !== undefined && body[member] !== null) faults.refuse(member, send);
  if (body['background'] === true)
    faults.refuse('background', 'answers are not made in the background here; wait for it or use stream');
  if (body['prompt'] !== undefined && body['prompt'] !== null)
    faults.refuse('prompt', 'stored prompts are not used here; send instructions and input');
}

class Size extends Measure {
  part(text: string): void {
    this.parts++;
    this.text(text);
  }

  /** What has no form that we know: as JSON, images and files apart. */
  unknown(value: unknown, path: string, faults: Violations): void {
    this.parts++;
    try {
      const text = JSON.stringify(value, (key, each: unknown) => {
        if (typeof each !== 'string') return each;
        if (key === 'image_url') {
          this.images++;
          return '';
        }
        if (key !== 'file_data') return each;
        this.file(each);
        return '';
      });
      this.bytes(text ?? '');
    } catch {
      faults.add(path, 'it is nested too deeply');
    }
  }
}

const texts = new Set(['input_text', 'output_text', 'text', 'summary_text', 'reasoning_text']);

function measureItem(size: Size, item: unknown, index: number, faults: Violations): void {
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
  if (type == null || type === 'message') measureContent(size, item['content'], `${path}.content`, faults);
  else if (type === 'function_call') {
    size.part(typeof item['name'] === 'string' ? item['name'] : '');
    if (typeof item['arguments'] === 'string') size.text(item['arguments']);
  } else if (type === 'function_call_output') {
    measureContent(size, item['output'], `${path}.output`, faults);
  } else if (type === 'reasoning') {
    measureContent(size, item['summary'], `${path}.summary`, faults);
    measureContent(size, item['content'], `${path}.content`, faults);
    if (typeof item['encrypted_content'] === 'string') size.text(item['encrypted_content']);
  } else size.unknown(item, path, faults);
}

function measureContent(size: Size, content: unknown, path: string, faults: Violations): void {
  if (typeof content === 'string') size.part(content);
  else if (Array.isArray(content))
    content.forEach((part, index) => measurePart(size, part, `${path}.${index}`, faults));
}

function measurePart(size: Size, part: unknown, path: string, faults: Violations): void {
  if (!isRecord(part)) {
    size.unknown(part, path, faults);
    return;
  }
  const { type, text, refusal } = part;
  if (typeof text === 'string' && texts.has(String(type))) size.part(text);
  else if (typeof refusal === 'string' && type === 'refusal') size.part(refusal);
  else if (type === 'input_image' || type === 'input_file') measureMedia(size, part, path, faults);
  else size.unknown(part, path, faults);
}

function measureMedia(size: Size, part: Json, path: string, faults: Violations): void {
  size.parts++;
  if (part['file_id'] !== undefined && part['file_id'] !== null)
    faults.refuse(`${path}.file_id`, 'this gateway stores no files; send image_url or file_data');
  if (part['type'] === 'input_image') {
    size.images++;
    return;
  }
  if (typeof part['file_data'] === 'string') size.file(part['file_data']);
  if (typeof part['file_url'] === 'string') size.fileBytes += unknownSize;
  if (typeof part['filename'] === 'string') size.text(part['filename']);
}

/** Tools that run here or at the caller; all others bring text of their own. */
const plainTools = new Set(['function', 'custom', 'namespace']);

function measureTools(size: Size, tools: readonly unknown[], format: unknown, faults: Violations): void {
  tools.forEach((tool, index) => {
    size.unknown(tool, `tools.${index}`, faults);
    if (isRecord(tool) && !plainTools.has(String(tool['type']))) size.fileBytes += unknownSize;
  });
  if (isRecord(format) && format['type'] === 'json_schema') size.unknown(format, 'text.format', faults);
}

function needsOf(asked: {
  readonly tools: readonly unknown[];
  readonly format: unknown;
  readonly images: number;
}): RequestFacts['needs'] {
  const needs: { readonly cap: Cap; readonly param: string }[] = [];
  if (asked.tools.length > 0) needs.push({ cap: 'tools', param: 'tools' });
  if (asked.images > 0) needs.push({ cap: 'images', param: 'input' });
  const { format } = asked;
  if (isRecord(format) && format['type'] !== 'text')
    needs.push({ cap: 'structured_output', param: 'text.format' });
  return needs;
}
