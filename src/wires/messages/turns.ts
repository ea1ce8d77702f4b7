import type { CacheMark, Conversation, FilePart, ImagePart, Message, Part } from '../core/conversation.ts';
import { unmarkSeal } from '../core/seals.ts';
import { inputOf } from './input.ts';
import type { Violations } from '../core/violations.ts';

export type Block = { readonly type: string; readonly [member: string]: unknown };

export interface Turn {
  readonly role: 'user' | 'assistant';
  readonly content: readonly Block[];
}

export interface Turns {
  readonly system: readonly Block[];
  readonly turns: readonly Turn[];
}

interface OpenTurn {
  readonly role: Turn['role'];
  /** Tool results; the wire requires them first. */
  readonly results: Block[];
  readonly others: Block[];
}

/**
 * Converts a conversation to turns: system texts separate, consecutive messages of a role joined, tool results at the
 * beginning of the user turn. Blank texts, which the wire refuses, are dropped, and so is reasoning without this
 * provider's signature.
 */
export function turnsOf({ messages }: Conversation, faults: Violations): Turns {
  const ids = new ToolIds();
  const system: Block[] = [];
  const open: OpenTurn[] = [];
  messages.forEach((message, n) => {
    const blocks = message.parts.flatMap((part, m) =>
      blocksOf(part, { ids, faults, path: `messages.${n}.content.${m}` }),
    );
    if (message.role === 'system') {
      for (const block of blocks) system.push(block);
      return;
    }
    const role = roleOf(message);
    for (const block of blocks) {
      if (open.at(-1)?.role !== role) open.push({ role, results: [], others: [] });
      const turn = open.at(-1);
      (block.type === 'tool_result' ? turn?.results : turn?.others)?.push(block);
    }
  });
  const turns: Turn[] = open.map(({ role, results, others }) => ({ role, content: [...results, ...others] }));
  // At least one turn is required, so instructions alone become a user turn.
  if (turns.length === 0 && system.length > 0)
    return { system: [], turns: [{ role: 'user', content: system }] };
  return { system, turns: withoutTrailingSpace(turns) };
}

const roleOf = ({ role }: Message): Turn['role'] => (role === 'assistant' ? 'assistant' : 'user');

/** A prefilled answer must not end with white space. */
function withoutTrailingSpace(turns: readonly Turn[]): Turn[] {
  const last = turns.at(-1);
  const block = last?.content.at(-1);
  if (last?.role !== 'assistant' || block?.type !== 'text') return [...turns];
  const trimmed = { ...block, text: String(block.text).trimEnd() };
  return [...turns.slice(0, -1), { role: 'assistant', content: [...last.content.slice(0, -1), trimmed] }];
}

interface Place {
  readonly ids: ToolIds;
  readonly faults: Violations;
  readonly path: string;
}

function blocksOf(part: Part, place: Place): Block[] {
  switch (part.type) {
    case 'text':
      return textBlocks(part);
    case 'refusal':
      return textBlocks(part);
    case 'image':
      return [imageBlock(part)];
    case 'file':
      return fileBlocks(part, place);
    case 'reasoning': {
      const signature = unmarkSeal('anthropic', part.signature);
      return signature ? [{ type: 'thinking', thinking: part.text, signature }] : [];
    }
    case 'sealed_reasoning': {
      const data = unmarkSeal('anthropic', part.data);
      return data === undefined ? [] : [{ type: 'redacted_thinking', data }];
    }
    case 'tool_call':
      return [
        {
          type: 'tool_use',
          id: place.ids.of(part.id),
          name: part.name,
          input: inputOf(part.arguments),
          ...marked(part.cache),
        },
      ];
    case 'tool_result':
      return [
        {
          type: 'tool_result',
          tool_use_id: place.ids.of(part.id),
          ...resultContent(part.parts),
          ...(part.failed ? { is_error: true } : {}),
          ...marked(part.cache),
        },
      ];
  }
}

const marked = (cache: CacheMark | undefined) =>
  cache
    ? { cache_control: { type: 'ephemeral', ...(cache.ttl === undefined ? {} : { ttl: cache.ttl }) } }
    : {};

const textBlocks = ({ text, cache }: { readonly text: string; readonly cache?: CacheMark }): Block[] =>
  text.trim() === '' ? [] : [{ type: 'text', text, ...marked(cache) }];

const dataUrl = /^data:([^;,]+)(?:;[^,]*)?;base64,(.*)$/s;

function imageBlock({ source, cache }: ImagePart): Block {
  const given = 'url' in source ? asData(source.url) : source;
  return {
    type: 'image',
    source:
      'url' in given
        ? { type: 'url', url: given.url }
        : { type: 'base64', media_type: given.mediaType, data: given.data },
    ...marked(cache),
  };
}

function asData(url: string): ImagePart['source'] {
  const [, mediaType, data] = dataUrl.exec(url) ?? [];
  return mediaType === undefined || data === undefined ? { url } : { mediaType, data };
}

function fileBlocks({ mediaType, data, name, cache }: FilePart, { faults, path }: Place): Block[] {
  const title = name === undefined || name === '' ? {} : { title: name };
  const kind = mediaType.split(';')[0]?.trim().toLowerCase() ?? '';
  if (kind.startsWith('image/'))
    return [imageBlock({ type: 'image', source: { mediaType: kind, data }, ...(cache ? { cache } : {}) })];
  if (kind === 'application/pdf') {
    const source = { type: 'base64', media_type: kind, data };
    return [{ type: 'document', source, ...title, ...marked(cache) }];
  }
  if (kind.startsWith('text/') || kind === 'application/json') {
    const text = Buffer.from(data, 'base64').toString('utf8');
    const source = { type: 'text', media_type: 'text/plain', data: text };
    return [{ type: 'document', source, ...title, ...marked(cache) }];
  }
  faults.refuse(path, `files of type '${mediaType}' cannot be read by this model; it reads PDF and text`);
  return [];
}

type ResultParts = Extract<Part, { type: 'tool_result' }>['parts'];

function resultContent(parts: ResultParts): { readonly content?: string | readonly Block[] } {
  const blocks = parts.flatMap((part) => (part.type === 'image' ? [imageBlock(part)] : textBlocks(part)));
  const [only] = blocks;
  if (!only) return {};
  return blocks.length === 1 && only.type === 'text' ? { content: String(only.text) } : { content: blocks };
}

/**
 * Maps call ids to the wire's characters (letters, digits, `_` and `-`); other providers allow more. Distinct ids stay
 * distinct.
 */
class ToolIds {
  readonly #known = new Map<string, string>();
  readonly #taken = new Set<string>();

  of(id: string): string {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    let written = id.replaceAll(/[^\w-]/g, '_') || 'call';
    while (this.#taken.has(written)) written += '_';
    this.#known.set(id, written);
    this.#taken.add(written);
    return written;
  }
}
