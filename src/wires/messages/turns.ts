import type {
  CacheBreakpoint,
  Conversation,
  FilePart,
  ImagePart,
  Message,
  Part,
} from '../core/conversation.ts';
import { untagSignature } from '../core/reasoning-signatures.ts';
import { parseToolInput } from './input.ts';
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
  readonly otherBlocks: Block[];
}

/**
 * Converts a conversation to turns: system texts separate, consecutive messages of a role joined, tool results at the
 * beginning of the user turn. Blank texts, which the wire refuses, are dropped, and so is reasoning without this
 * provider's signature.
 */
export function toTurns({ messages }: Conversation, violations: Violations): Turns {
  const ids = new ToolIds();
  const system: Block[] = [];
  const openTurns: OpenTurn[] = [];
  messages.forEach((message, n) => {
    const blocks = message.parts.flatMap((part, m) =>
      toBlocks(part, { ids, violations, path: `messages.${n}.content.${m}` }),
    );
    if (message.role === 'system') {
      for (const block of blocks) system.push(block);
      return;
    }
    const role = toRole(message);
    for (const block of blocks) {
      if (openTurns.at(-1)?.role !== role) openTurns.push({ role, results: [], otherBlocks: [] });
      const turn = openTurns.at(-1);
      (block.type === 'tool_result' ? turn?.results : turn?.otherBlocks)?.push(block);
    }
  });
  const turns: Turn[] = openTurns.map(({ role, results, otherBlocks }) => ({
    role,
    content: [...results, ...otherBlocks],
  }));
  // At least one turn is required, so instructions alone become a user turn.
  if (turns.length === 0 && system.length > 0)
    return { system: [], turns: [{ role: 'user', content: system }] };
  return { system, turns: withoutTrailingSpace(turns) };
}

const toRole = ({ role }: Message): Turn['role'] => (role === 'assistant' ? 'assistant' : 'user');

/** A prefilled answer must not end with white space. */
function withoutTrailingSpace(turns: readonly Turn[]): Turn[] {
  const last = turns.at(-1);
  const block = last?.content.at(-1);
  if (last?.role !== 'assistant' || block?.type !== 'text') return [...turns];
  const trimmed = { ...block, text: String(block.text).trimEnd() };
  return [...turns.slice(0, -1), { role: 'assistant', content: [...last.content.slice(0, -1), trimmed] }];
}

interface BlockContext {
  readonly ids: ToolIds;
  readonly violations: Violations;
  readonly path: string;
}

function toBlocks(part: Part, context: BlockContext): Block[] {
  switch (part.type) {
    case 'text':
      return textBlocks(part);
    case 'refusal':
      return textBlocks(part);
    case 'image':
      return [imageBlock(part)];
    case 'file':
      return fileBlocks(part, context);
    case 'reasoning': {
      const signature = untagSignature('anthropic', part.signature);
      return signature ? [{ type: 'thinking', thinking: part.text, signature }] : [];
    }
    case 'encrypted_reasoning': {
      const data = untagSignature('anthropic', part.data);
      return data === undefined ? [] : [{ type: 'redacted_thinking', data }];
    }
    case 'tool_call':
      return [
        {
          type: 'tool_use',
          id: context.ids.map(part.id),
          name: part.name,
          input: parseToolInput(part.arguments),
          ...cacheControlOf(part.cache),
        },
      ];
    case 'tool_result':
      return [
        {
          type: 'tool_result',
          tool_use_id: context.ids.map(part.id),
          ...resultContent(part.parts),
          ...(part.failed ? { is_error: true } : {}),
          ...cacheControlOf(part.cache),
        },
      ];
  }
}

const cacheControlOf = (cache: CacheBreakpoint | undefined) =>
  cache
    ? { cache_control: { type: 'ephemeral', ...(cache.ttl === undefined ? {} : { ttl: cache.ttl }) } }
    : {};

const textBlocks = ({ text, cache }: { readonly text: string; readonly cache?: CacheBreakpoint }): Block[] =>
  text.trim() === '' ? [] : [{ type: 'text', text, ...cacheControlOf(cache) }];

const dataUrl = /^data:([^;,]+)(?:;[^,]*)?;base64,(.*)$/s;

function imageBlock({ source, cache }: ImagePart): Block {
  const resolved = 'url' in source ? parseDataUrlSource(source.url) : source;
  return {
    type: 'image',
    source:
      'url' in resolved
        ? { type: 'url', url: resolved.url }
        : { type: 'base64', media_type: resolved.mediaType, data: resolved.data },
    ...cacheControlOf(cache),
  };
}

function parseDataUrlSource(url: string): ImagePart['source'] {
  const [, mediaType, data] = dataUrl.exec(url) ?? [];
  return mediaType === undefined || data === undefined ? { url } : { mediaType, data };
}

function fileBlocks({ mediaType, data, name, cache }: FilePart, { violations, path }: BlockContext): Block[] {
  const title = name === undefined || name === '' ? {} : { title: name };
  const kind = mediaType.split(';')[0]?.trim().toLowerCase() ?? '';
  if (kind.startsWith('image/'))
    return [imageBlock({ type: 'image', source: { mediaType: kind, data }, ...(cache ? { cache } : {}) })];
  if (kind === 'application/pdf') {
    const source = { type: 'base64', media_type: kind, data };
    return [{ type: 'document', source, ...title, ...cacheControlOf(cache) }];
  }
  if (kind.startsWith('text/') || kind === 'application/json') {
    const text = Buffer.from(data, 'base64').toString('utf8');
    const source = { type: 'text', media_type: 'text/plain', data: text };
    return [{ type: 'document', source, ...title, ...cacheControlOf(cache) }];
  }
  violations.addUnsupported(
    path,
    `files of type '${mediaType}' cannot be read by this model; it reads PDF and text`,
  );
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
  readonly #mappedIds = new Map<string, string>();
  readonly #usedIds = new Set<string>();

  map(id: string): string {
    const existing = this.#mappedIds.get(id);
    if (existing !== undefined) return existing;
    let mapped = id.replaceAll(/[^\w-]/g, '_') || 'call';
    while (this.#usedIds.has(mapped)) mapped += '_';
    this.#mappedIds.set(id, mapped);
    this.#usedIds.add(mapped);
    return mapped;
  }
}
