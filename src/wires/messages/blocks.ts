import { isRecord, type Json } from '../../util/json.ts';
import type { CacheMark, ImagePart, Part } from '../core/conversation.ts';
import type { Violations } from '../core/violations.ts';
import { readSeal } from './seals.ts';

type TextPart = Extract<Part, { type: 'text' }>;

/** Reads `cache_control` of a block, a tool or a request. */
export function cacheOf({ cache_control: control }: Json): { readonly cache?: CacheMark } {
  if (!isRecord(control)) return {};
  return { cache: control.ttl === '5m' || control.ttl === '1h' ? { ttl: control.ttl } : {} };
}

/** Reads the contents of messages in order; tool results get the tool name of the earlier call. */
export class BlockReader {
  readonly faults: Violations;
  readonly #toolNames = new Map<string, string>();

  constructor(faults: Violations) {
    this.faults = faults;
  }

  read(content: unknown, path: string): Part[] {
    if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
    if (!Array.isArray(content)) {
      this.faults.add(path, 'expected a text or an array of blocks');
      return [];
    }
    return content.flatMap((block: unknown, n) => this.#block(block, `${path}.${n}`));
  }

  #block(block: unknown, path: string): Part[] {
    if (!isRecord(block)) return this.#wrong(path, "expected a block such as {type: 'text', text: '...'}");
    const cache = cacheOf(block);
    switch (block.type) {
      case 'text':
        if (typeof block.text !== 'string') return this.#wrong(`${path}.text`, 'expected a text');
        return block.text === '' ? [] : [{ type: 'text', text: block.text, ...cache }];
      case 'image':
        return this.#image(block, path);
      case 'document':
        return this.#document(block, path);
      case 'thinking':
        if (typeof block.thinking !== 'string') return this.#wrong(`${path}.thinking`, 'expected a text');
        return [
          {
            type: 'reasoning',
            text: block.thinking,
            ...(typeof block.signature === 'string' && block.signature !== ''
              ? { signature: readSeal(block.signature) }
              : {}),
          },
        ];
      case 'redacted_thinking':
        if (typeof block.data !== 'string') return this.#wrong(`${path}.data`, 'expected a text');
        return [{ type: 'sealed_reasoning', data: readSeal(block.data) }];
      case 'tool_use': {
        const { id, name, input } = block;
        if (typeof id !== 'string' || typeof name !== 'string' || !isRecord(input))
          return this.#wrong(path, 'expected a call such as {id, name, input}');
        this.#toolNames.set(id, name);
        return [{ type: 'tool_call', id, name, arguments: JSON.stringify(input), ...cache }];
      }
      case 'tool_result':
        return this.#result(block, path);
      default:
        this.faults.refuse(
          `${path}.type`,
          `blocks of type '${String(block.type)}' are not supported by this model`,
        );
        return [];
    }
  }

  #result(block: Json, path: string): Part[] {
    const { tool_use_id: id, content } = block;
    if (typeof id !== 'string') return this.#wrong(`${path}.tool_use_id`, 'expected the id of a call');
    const parts = content === undefined || content === null ? [] : this.read(content, `${path}.content`);
    const readable = parts.filter(
      (part): part is ImagePart | TextPart => part.type === 'image' || part.type === 'text',
    );
    if (readable.length < parts.length)
      this.faults.refuse(`${path}.content`, 'tool results for this model may contain only text and images');
    return [
      {
        type: 'tool_result',
        id,
        name: this.#toolNames.get(id) ?? '',
        parts: readable,
        failed: block.is_error === true,
        ...cacheOf(block),
      },
    ];
  }

  #image(block: Json, path: string): Part[] {
    const { source } = block;
    if (isRecord(source) && typeof source.url === 'string')
      return [{ type: 'image', source: { url: source.url }, ...cacheOf(block) }];
    if (isRecord(source) && typeof source.data === 'string' && typeof source.media_type === 'string') {
      const { media_type: mediaType, data } = source;
      return [{ type: 'image', source: { mediaType, data }, ...cacheOf(block) }];
    }
    return this.#notHere(source, `${path}.source`);
  }

  #document(block: Json, path: string): Part[] {
    const { source, title } = block;
    const name = typeof title === 'string' && title !== '' ? { name: title } : {};
    if (isRecord(source) && typeof source.data === 'string') {
      const isText = source.type === 'text';
      const mediaType =
        typeof source.media_type === 'string' ? source.media_type : isText ? 'text/plain' : 'application/pdf';
      const data = isText ? Buffer.from(source.data).toString('base64') : source.data;
      return [{ type: 'file', mediaType, data, ...name, ...cacheOf(block) }];
    }
    if (isRecord(source) && source.type === 'content')
      return this.read(source.content, `${path}.source.content`);
    return this.#notHere(source, `${path}.source`);
  }

  /** Refuses a source that refers to a URL or to a file stored at the provider. */
  #notHere(source: unknown, path: string): Part[] {
    if (!isRecord(source)) return this.#wrong(path, 'expected a source such as {type, media_type, data}');
    this.faults.refuse(path, 'this model only accepts content sent with the request; send it as base64');
    return [];
  }

  #wrong(path: string, message: string): Part[] {
    this.faults.add(path, message);
    return [];
  }
}
