import { isRecord, type Json } from '../../util/json.ts';
import type { CacheBreakpoint, ImagePart, Message, Part } from '../core/conversation.ts';
import { toDetail, parseFileSource, parseImageSource } from '../core/data-url.ts';
import { decodeReasoning } from './encrypted-content.ts';
import { describeType } from '../core/json.ts';
import { type Violations } from '../core/violations.ts';

type ResultPart = Extract<Part, { type: 'tool_result' }>['parts'][number];

/**
 * Converts the items of a request to messages; consecutive items of the assistant or of tools form one message.
 */
export function readMessages(body: Json, violations: Violations): readonly Message[] {
  const reader = new InputItemReader(violations);
  const { instructions, input } = body;
  if (instructions !== undefined && instructions !== null)
    reader.append('system', [{ type: 'text', text: violations.text(instructions, 'instructions') }]);
  if (typeof input === 'string') reader.append('user', [{ type: 'text', text: input }]);
  else if (Array.isArray(input) && input.length === 0) violations.add('input', 'expected at least one item');
  else reader.readAll(violations.list(input, 'input').filter(isRecord));
  return reader.messages;
}

class InputItemReader {
  readonly messages: { readonly role: Message['role']; readonly parts: Part[] }[] = [];
  readonly #violations: Violations;
  /** Tool names by call id. */
  readonly #toolNames = new Map<string, string>();
  /** Signatures by call id. */
  readonly #callSignatures = new Map<string, string>();

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  append(role: Message['role'], parts: readonly Part[]): void {
    if (parts.length === 0) return;
    const last = this.messages.at(-1);
    if (last?.role === role && (role === 'assistant' || role === 'tool')) {
      for (const part of parts) last.parts.push(part);
    } else this.messages.push({ role, parts: [...parts] });
  }

  readAll(items: readonly Json[]): void {
    for (const { type, encrypted_content: encrypted } of items) {
      if (type !== 'reasoning' || typeof encrypted !== 'string') continue;
      const decoded = decodeReasoning(encrypted);
      if (typeof decoded === 'object' && decoded.form === 'call')
        this.#callSignatures.set(decoded.callId, decoded.signature);
    }
    for (const [index, item] of items.entries()) this.#readItem(item, `input.${index}`);
  }

  #readItem(item: Json, path: string): void {
    const type = item['type'] ?? 'message';
    if (type === 'message') this.#readMessage(item, path);
    else if (type === 'function_call') this.#readCall(item, path);
    else if (type === 'function_call_output') this.#readResult(item, path);
    else if (type === 'reasoning') this.append('assistant', this.#readReasoning(item, path));
    else if (typeof type !== 'string')
      this.#violations.add(`${path}.type`, `expected a text, got ${describeType(type)}`);
    else
      this.#violations.addUnsupported(
        path,
        `items of type '${type}' cannot be read by this model; send message, function_call, function_call_output and reasoning`,
      );
  }

  #readMessage({ role, content }: Json, path: string): void {
    const contentPath = `${path}.content`;
    if (role === 'assistant') this.append('assistant', this.#readContent(content, contentPath, 'assistant'));
    else if (role === 'user') this.append('user', this.#readContent(content, contentPath, 'user'));
    else if (role === 'system' || role === 'developer')
      this.append('system', this.#readContent(content, contentPath, 'system'));
    else this.#violations.add(`${path}.role`, 'expected one of user, assistant, system, developer');
  }

  #readCall(item: Json, path: string): void {
    const id = this.#violations.name(item['call_id'], `${path}.call_id`);
    const name = this.#violations.name(item['name'], `${path}.name`);
    const text = this.#violations.text(item['arguments'], `${path}.arguments`);
    this.#toolNames.set(id, name);
    const signature = this.#callSignatures.get(id);
    const signatureMember = signature === undefined ? {} : { signature };
    this.append('assistant', [{ type: 'tool_call', id, name, arguments: text, ...signatureMember }]);
  }

  #readResult(item: Json, path: string): void {
    const id = this.#violations.name(item['call_id'], `${path}.call_id`);
    const name = this.#toolNames.get(id);
    if (name === undefined && id !== '')
      this.#violations.add(
        `${path}.call_id`,
        'no earlier function_call has this call_id; this gateway stores no responses, so send the call with its output',
      );
    const parts = this.#readContent(item['output'], `${path}.output`, 'tool').filter(isResultPart);
    this.append('tool', [{ type: 'tool_result', id, name: name ?? '', parts, failed: false }]);
  }

  /** Reads a reasoning item. Its content takes precedence over its summary. */
  #readReasoning(item: Json, path: string): Part[] {
    const content = this.#readTexts(item['content'], `${path}.content`).join('\n');
    const text = content === '' ? this.#readTexts(item['summary'], `${path}.summary`).join('\n\n') : content;
    const reasoningPart: Part[] = text === '' ? [] : [{ type: 'reasoning', text }];
    const encrypted = item['encrypted_content'];
    if (encrypted === undefined || encrypted === null) return reasoningPart;
    const decoded = decodeReasoning(this.#violations.text(encrypted, `${path}.encrypted_content`));
    if (decoded === 'broken')
      this.#violations.add(
        `${path}.encrypted_content`,
        'expected the encrypted_content of a reasoning item from this gateway',
      );
    // OpenAI's encrypted reasoning can only be read by OpenAI, which is called on its own wire.
    if (typeof decoded === 'string' || decoded.form === 'call') return reasoningPart;
    if (decoded.form === 'signature') return [{ type: 'reasoning', text, signature: decoded.signature }];
    const { data, id } = decoded;
    return [...reasoningPart, { type: 'encrypted_reasoning', data, ...(id === undefined ? {} : { id }) }];
  }

  #readTexts(parts: unknown, path: string): string[] {
    return this.#violations
      .list(parts, path)
      .map((part, index) =>
        this.#violations.text(isRecord(part) ? part['text'] : undefined, `${path}.${index}.text`),
      );
  }

  #readContent(content: unknown, path: string, role: Message['role']): Part[] {
    if (typeof content === 'string') return [{ type: 'text', text: content }];
    if (!Array.isArray(content)) {
      this.#violations.add(path, `expected a text or an array of parts, got ${describeType(content)}`);
      return [];
    }
    return content
      .map((part, index) => this.#readPart(part, `${path}.${index}`, role))
      .filter((part) => part !== undefined);
  }

  #readPart(part: unknown, path: string, role: Message['role']): Part | undefined {
    if (!isRecord(part)) {
      this.#violations.add(
        path,
        `expected a part such as {type: 'input_text', text: '...'}, got ${describeType(part)}`,
      );
      return undefined;
    }
    const { type } = part;
    const cache = readCacheBreakpoint(part);
    const cacheMember = cache === undefined ? {} : { cache };
    if (type === 'input_text' || type === 'output_text' || type === 'text')
      return { type: 'text', text: this.#violations.text(part['text'], `${path}.text`), ...cacheMember };
    if (type === 'refusal' && role === 'assistant')
      return { type, text: this.#violations.text(part['refusal'], `${path}.refusal`) };
    if (type === 'input_image' && (role === 'user' || role === 'tool')) {
      const image = this.#readImage(part, path);
      return image && { ...image, ...cacheMember };
    }
    if (type === 'input_file' && role === 'user') return this.#readFile(part, path, cacheMember);
    const location = role === 'tool' ? 'outputs of tools' : `${role} messages`;
    this.#violations.addUnsupported(
      path,
      `parts of type '${String(type)}' are not supported in ${location} of this model`,
    );
    return undefined;
  }

  #readImage(part: Json, path: string): ImagePart | undefined {
    const url = this.#violations.name(part['image_url'], `${path}.image_url`);
    const source = parseImageSource(url);
    if (source) return { type: 'image', source, ...toDetail(part['detail']) };
    if (url !== '')
      this.#violations.add(`${path}.image_url`, 'expected a URL of http, https or data in base64');
    return undefined;
  }

  #readFile(part: Json, path: string, cacheMember: { readonly cache?: CacheBreakpoint }): Part | undefined {
    if (typeof part['file_url'] === 'string') {
      this.#violations.addUnsupported(
        `${path}.file_url`,
        'files are not fetched for this model; send file_data',
      );
      return undefined;
    }
    const text = this.#violations.name(part['file_data'], `${path}.file_data`);
    if (text === '') return undefined;
    const source = parseFileSource(text);
    if (!source) this.#violations.add(`${path}.file_data`, 'expected base64 or a data URL in base64');
    const { filename } = part;
    return (
      source && {
        type: 'file',
        ...source,
        ...(typeof filename === 'string' ? { name: filename } : {}),
        ...cacheMember,
      }
    );
  }
}

const isResultPart = (part: Part): part is ResultPart => part.type === 'text' || part.type === 'image';

/** Reads a cache breakpoint: OpenAI's member, or that of the messages wire. */
function readCacheBreakpoint(part: Json): CacheBreakpoint | undefined {
  if (isRecord(part['prompt_cache_breakpoint'])) return {};
  const control = part['cache_control'];
  if (!isRecord(control) || control['type'] !== 'ephemeral') return undefined;
  const { ttl } = control;
  return ttl === '5m' || ttl === '1h' ? { ttl } : {};
}
