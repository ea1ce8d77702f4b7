import { isRecord, type Json } from '../../util/json.ts';
import type { CacheMark, ImagePart, Message, Part } from '../core/conversation.ts';
import { detailOf, fileSource, imageSource } from '../core/data-url.ts';
import { decodeSeal } from './sealed.ts';
import { kindOf } from '../core/json.ts';
import { type Violations } from '../core/violations.ts';

type ResultPart = Extract<Part, { type: 'tool_result' }>['parts'][number];

/**
 * Converts the items of a request to messages; consecutive items of the assistant or of tools form one message.
 */
export function messagesOf(body: Json, faults: Violations): readonly Message[] {
  const reader = new ItemReader(faults);
  const { instructions, input } = body;
  if (instructions !== undefined && instructions !== null)
    reader.say('system', [{ type: 'text', text: faults.text(instructions, 'instructions') }]);
  if (typeof input === 'string') reader.say('user', [{ type: 'text', text: input }]);
  else if (Array.isArray(input) && input.length === 0) faults.add('input', 'expected at least one item');
  else reader.readAll(faults.list(input, 'input').filter(isRecord));
  return reader.messages;
}

class ItemReader {
  readonly messages: { readonly role: Message['role']; readonly parts: Part[] }[] = [];
  readonly #faults: Violations;
  /** Tool names by call id. */
  readonly #calls = new Map<string, string>();
  /** Signatures by call id. */
  readonly #seals = new Map<string, string>();

  constructor(faults: Violations) {
    this.#faults = faults;
  }

  say(role: Message['role'], parts: readonly Part[]): void {
    if (parts.length === 0) return;
    const last = this.messages.at(-1);
    if (last?.role === role && (role === 'assistant' || role === 'tool')) {
      for (const part of parts) last.parts.push(part);
    } else this.messages.push({ role, parts: [...parts] });
  }

  readAll(items: readonly Json[]): void {
    for (const { type, encrypted_content: sealed } of items) {
      if (type !== 'reasoning' || typeof sealed !== 'string') continue;
      const seal = decodeSeal(sealed);
      if (typeof seal === 'object' && seal.form === 'call') this.#seals.set(seal.callId, seal.signature);
    }
    for (const [index, item] of items.entries()) this.#read(item, `input.${index}`);
  }

  #read(item: Json, path: string): void {
    const type = item['type'] ?? 'message';
    if (type === 'message') this.#message(item, path);
    else if (type === 'function_call') this.#call(item, path);
    else if (type === 'function_call_output') this.#result(item, path);
    else if (type === 'reasoning') this.say('assistant', this.#thoughts(item, path));
    else if (typeof type !== 'string')
      this.#faults.add(`${path}.type`, `expected a text, got ${kindOf(type)}`);
    else
      this.#faults.refuse(
        path,
        `items of type '${type}' cannot be read by this model; send message, function_call, function_call_output and reasoning`,
      );
  }

  #message({ role, content }: Json, path: string): void {
    const at = `${path}.content`;
    if (role === 'assistant') this.say('assistant', this.#contents(content, at, 'assistant'));
    else if (role === 'user') this.say('user', this.#contents(content, at, 'user'));
    else if (role === 'system' || role === 'developer')
      this.say('system', this.#contents(content, at, 'system'));
    else this.#faults.add(`${path}.role`, 'expected one of user, assistant, system, developer');
  }

  #call(item: Json, path: string): void {
    const id = this.#faults.name(item['call_id'], `${path}.call_id`);
    const name = this.#faults.name(item['name'], `${path}.name`);
    const text = this.#faults.text(item['arguments'], `${path}.arguments`);
    this.#calls.set(id, name);
    const signature = this.#seals.get(id);
    const sealed = signature === undefined ? {} : { signature };
    this.say('assistant', [{ type: 'tool_call', id, name, arguments: text, ...sealed }]);
  }

  #result(item: Json, path: string): void {
    const id = this.#faults.name(item['call_id'], `${path}.call_id`);
    const name = this.#calls.get(id);
    if (name === undefined && id !== '')
      this.#faults.add(
        `${path}.call_id`,
        'no earlier function_call has this call_id; this gateway stores no responses, so send the call with its output',
      );
    const parts = this.#contents(item['output'], `${path}.output`, 'tool').filter(isResultPart);
    this.say('tool', [{ type: 'tool_result', id, name: name ?? '', parts, failed: false }]);
  }

  /** Reads a reasoning item. Its content takes precedence over its summary. */
  #thoughts(item: Json, path: string): Part[] {
    const trace = this.#traces(item['content'], `${path}.content`).join('\n');
    const text = trace === '' ? this.#traces(item['summary'], `${path}.summary`).join('\n\n') : trace;
    const thought: Part[] = text === '' ? [] : [{ type: 'reasoning', text }];
    const sealed = item['encrypted_content'];
    if (sealed === undefined || sealed === null) return thought;
    const seal = decodeSeal(this.#faults.text(sealed, `${path}.encrypted_content`));
    if (seal === 'broken')
      this.#faults.add(
        `${path}.encrypted_content`,
        'expected the encrypted_content of a reasoning item from this gateway',
      );
    // OpenAI's encrypted reasoning can only be read by OpenAI, which is called on its own wire.
    if (typeof seal === 'string' || seal.form === 'call') return thought;
    if (seal.form === 'signature') return [{ type: 'reasoning', text, signature: seal.signature }];
    const { data, id } = seal;
    return [...thought, { type: 'sealed_reasoning', data, ...(id === undefined ? {} : { id }) }];
  }

  #traces(parts: unknown, path: string): string[] {
    return this.#faults
      .list(parts, path)
      .map((part, index) =>
        this.#faults.text(isRecord(part) ? part['text'] : undefined, `${path}.${index}.text`),
      );
  }

  #contents(content: unknown, path: string, role: Message['role']): Part[] {
    if (typeof content === 'string') return [{ type: 'text', text: content }];
    if (!Array.isArray(content)) {
      this.#faults.add(path, `expected a text or an array of parts, got ${kindOf(content)}`);
      return [];
    }
    return content
      .map((part, index) => this.#content(part, `${path}.${index}`, role))
      .filter((part) => part !== undefined);
  }

  #content(part: unknown, path: string, role: Message['role']): Part | undefined {
    if (!isRecord(part)) {
      this.#faults.add(
        path,
        `expected a part such as {type: 'input_text', text: '...'}, got ${kindOf(part)}`,
      );
      return undefined;
    }
    const { type } = part;
    const cache = cacheMark(part);
    const marked = cache === undefined ? {} : { cache };
    if (type === 'input_text' || type === 'output_text' || type === 'text')
      return { type: 'text', text: this.#faults.text(part['text'], `${path}.text`), ...marked };
    if (type === 'refusal' && role === 'assistant')
      return { type, text: this.#faults.text(part['refusal'], `${path}.refusal`) };
    if (type === 'input_image' && (role === 'user' || role === 'tool')) {
      const image = this.#image(part, path);
      return image && { ...image, ...marked };
    }
    if (type === 'input_file' && role === 'user') return this.#file(part, path, marked);
    const speaker = role === 'tool' ? 'outputs of tools' : `${role} messages`;
    this.#faults.refuse(
      path,
      `parts of type '${String(type)}' are not supported in ${speaker} of this model`,
    );
    return undefined;
  }

  #image(part: Json, path: string): ImagePart | undefined {
    const url = this.#faults.name(part['image_url'], `${path}.image_url`);
    const source = imageSource(url);
    if (source) return { type: 'image', source, ...detailOf(part['detail']) };
    if (url !== '') this.#faults.add(`${path}.image_url`, 'expected a URL of http, https or data in base64');
    return undefined;
  }

  #file(part: Json, path: string, marked: { readonly cache?: CacheMark }): Part | undefined {
    if (typeof part['file_url'] === 'string') {
      this.#faults.refuse(`${path}.file_url`, 'files are not fetched for this model; send file_data');
      return undefined;
    }
    const text = this.#faults.name(part['file_data'], `${path}.file_data`);
    if (text === '') return undefined;
    const source = fileSource(text);
    if (!source) this.#faults.add(`${path}.file_data`, 'expected base64 or a data URL in base64');
    const { filename } = part;
    return (
      source && {
        type: 'file',
        ...source,
        ...(typeof filename === 'string' ? { name: filename } : {}),
        ...marked,
      }
    );
  }
}

const isResultPart = (part: Part): part is ResultPart => part.type === 'text' || part.type === 'image';

/** Reads a cache breakpoint: OpenAI's member, or that of the messages wire. */
function cacheMark(part: Json): CacheMark | undefined {
  if (isRecord(part['prompt_cache_breakpoint'])) return {};
  const control = part['cache_control'];
  if (!isRecord(control) || control['type'] !== 'ephemeral') return undefined;
  const { ttl } = control;
  return ttl === '5m' || ttl === '1h' ? { ttl } : {};
}
