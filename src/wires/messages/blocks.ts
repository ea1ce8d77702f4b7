import { isRecord, type Json } from '../../util/json.ts';
import type { CacheBreakpoint, ImagePart, Part } from '../core/conversation.ts';
import type { Violations } from '../core/violations.ts';
import { readSignature } from './reasoning-signatures.ts';

type TextPart = Extract<Part, { type: 'text' }>;

/** Reads `cache_control` of a block, a tool or a request. */
export function toCacheBreakpoint({ cache_control: control }: Json): { readonly cache?: CacheBreakpoint } {
  if (!isRecord(control)) return {};
  return { cache: control.ttl === '5m' || control.ttl === '1h' ? { ttl: control.ttl } : {} };
}

/** Reads the contents of messages in order; tool results get the tool name of the earlier call. */
export class BlockReader {
  readonly violations: Violations;
  readonly #toolNames = new Map<string, string>();

  constructor(violations: Violations) {
    this.violations = violations;
  }

  read(content: unknown, path: string): Part[] {
    if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
    if (!Array.isArray(content)) {
      this.violations.add(path, 'expected a text or an array of blocks');
      return [];
    }
    return content.flatMap((block: unknown, n) => this.#readBlock(block, `${path}.${n}`));
  }

  #readBlock(block: unknown, path: string): Part[] {
    if (!isRecord(block))
      return this.#addViolation(path, "expected a block such as {type: 'text', text: '...'}");
    const cache = toCacheBreakpoint(block);
    switch (block.type) {
      case 'text':
        if (typeof block.text !== 'string') return this.#addViolation(`${path}.text`, 'expected a text');
        return block.text === '' ? [] : [{ type: 'text', text: block.text, ...cache }];
      case 'image':
        return this.#readImage(block, path);
      case 'document':
        return this.#readDocument(block, path);
      case 'thinking':
        if (typeof block.thinking !== 'string')
          return this.#addViolation(`${path}.thinking`, 'expected a text');
        return [
          {
            type: 'reasoning',
            text: block.thinking,
            ...(typeof block.signature === 'string' && block.signature !== ''
              ? { signature: readSignature(block.signature) }
              : {}),
          },
        ];
      case 'redacted_thinking':
        if (typeof block.data !== 'string') return this.#addViolation(`${path}.data`, 'expected a text');
        return [{ type: 'encrypted_reasoning', data: readSignature(block.data) }];
      case 'tool_use': {
        const { id, name, input } = block;
        if (typeof id !== 'string' || typeof name !== 'string' || !isRecord(input))
          return this.#addViolation(path, 'expected a call such as {id, name, input}');
        this.#toolNames.set(id, name);
        return [{ type: 'tool_call', id, name, arguments: JSON.stringify(input), ...cache }];
      }
      case 'tool_result':
        return this.#readResult(block, path);
      default:
        this.violations.addUnsupported(
          `${path}.type`,
          `blocks of type '${String(block.type)}' are not supported by this model`,
        );
        return [];
    }
  }

  #readResult(block: Json, path: string): Part[] {
    const { tool_use_id: id, content } = block;
    if (typeof id !== 'string') return this.#addViolation(`${path}.tool_use_id`, 'expected the id of a call');
    const parts = content === undefined || content === null ? [] : this.read(content, `${path}.content`);
    const readable = parts.filter(
      (part): part is ImagePart | TextPart => part.type === 'image' || part.type === 'text',
    );
    if (readable.length < parts.length)
      this.violations.addUnsupported(
        `${path}.content`,
        'tool results for this model may contain only text and images',
      );
    return [
      {
        type: 'tool_result',
        id,
        name: this.#toolNames.get(id) ?? '',
        parts: readable,
        failed: block.is_error === true,
        ...toCacheBreakpoint(block),
      },
    ];
  }

  #readImage(block: Json, path: string): Part[] {
    const { source } = block;
    if (isRecord(source) && typeof source.url === 'string')
      return [{ type: 'image', source: { url: source.url }, ...toCacheBreakpoint(block) }];
    if (isRecord(source) && typeof source.data === 'string' && typeof source.media_type === 'string') {
      const { media_type: mediaType, data } = source;
      return [{ type: 'image', source: { mediaType, data }, ...toCacheBreakpoint(block) }];
    }
    return this.#refuseReference(source, `${path}.source`);
  }

  #readDocument(block: Json, path: string): Part[] {
    const { source, title } = block;
    const name = typeof title === 'string' && title !== '' ? { name: title } : {};
    if (isRecord(source) && typeof source.data === 'string') {
      const isText = source.type === 'text';
      const mediaType =
        typeof source.media_type === 'string' ? source.media_type : isText ? 'text/plain' : 'application/pdf';
      const data = isText ? Buffer.from(source.data).toString('base64') : source.data;
      return [{ type: 'file', mediaType, data, ...name, ...toCacheBreakpoint(block) }];
    }
    if (isRecord(source) && source.type === 'content')
      return this.read(source.content, `${path}.source.content`);
    return this.#refuseReference(source, `${path}.source`);
  }

  /** Refuses a source that refers to a URL or to a file stored at the provider. */
  #refuseReference(source: unknown, path: string): Part[] {
    if (!isRecord(source))
      return this.#addViolation(path, 'expected a source such as {type, media_type, data}');
    this.violations.addUnsupported(
      path,
      'this model only accepts content sent with the request; send it as base64',
    );
    return [];
  }

  #addViolation(path: string, message: string): Part[] {
    this.violations.add(path, message);
    return [];
  }
}
