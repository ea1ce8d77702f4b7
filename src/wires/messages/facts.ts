import { isRecord, type Json } from '../../util/json.ts';
import { Measure } from '../core/measure.ts';
import { invalidRequest } from '../core/error.ts';
import type { RequestFacts } from '../core/wire.ts';
import { Violations } from '../core/violations.ts';
import { noThreads } from './frames.ts';
import { listOf, refuseProviderTool, refuseUnpriced } from './unpriced.ts';

/** File size assumed for a document that is not in the request itself: the provider's request limit. */
const mostFileBytes = 32 * 1024 * 1024;
/**
 * Parts that account for instructions which the provider adds, at 64 tokens each: for any tools (up to 530 tokens), for
 * tools the model was trained on (up to 800 each), and for an answer with a schema.
 */
const partsOfTools = 9;
const partsOfKnownTool = 13;
const partsOfFormat = 8;

/** Reads what the gateway needs to know of a request. @throws WireError 400 with all violations */
export function factsOf(body: Json): RequestFacts {
  refuseThread(body);
  const faults = new Violations();
  const { model, max_tokens: maxTokens, stream, messages, tools } = body;
  if (typeof model !== 'string' || model === '') faults.add('model', 'expected the id of a model');
  if (!isCount(maxTokens))
    faults.add(
      'max_tokens',
      maxTokens === undefined ? 'is required on this wire: a whole number' : 'expected a whole number',
    );
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean')
    faults.add('stream', 'expected true or false');
  if (!Array.isArray(messages)) faults.add('messages', 'expected an array of messages');
  else if (messages.length === 0) faults.add('messages', 'must contain at least one message');
  if (tools !== undefined && tools !== null && !Array.isArray(tools))
    faults.add('tools', 'expected an array of tools');
  refuseUnpriced(body, faults);

  const reading = new Reading(faults);
  if (body.system !== undefined && body.system !== null) reading.content(body.system, 'system');
  listOf(messages).forEach((message, n) => reading.message(message, `messages.${n}`));
  if (listOf(tools).length > 0) reading.toolAt = 'tools';
  listOf(tools).forEach((tool, n) => reading.tool(tool, `tools.${n}`));
  const format = formatOf(body);
  if (format) reading.format(format.value);
  faults.throwAny();

  const needs: { cap: RequestFacts['needs'][number]['cap']; param: string }[] = [];
  if (reading.toolAt !== undefined) needs.push({ cap: 'tools', param: reading.toolAt });
  if (reading.imageAt !== undefined) needs.push({ cap: 'images', param: reading.imageAt });
  if (isRecord(body.thinking) && body.thinking.type !== 'disabled')
    needs.push({ cap: 'reasoning', param: 'thinking' });
  if (format) needs.push({ cap: 'structured_output', param: format.param });
  return {
    model: model as string,
    stream: stream === true,
    // Streams of this wire always carry usage.
    includeUsage: true,
    maxTokens: maxTokens as number,
    answers: 1,
    needs,
    ...reading.counts,
  };
}

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

function refuseThread({ thread }: Json): void {
  if (thread === undefined || thread === null) return;
  throw invalidRequest(
    'thread: the gateway stores no conversations; leave it out and send all messages with every request.',
    {
      code: noThreads,
      param: 'thread',
      more: { details: { error_code: noThreads, unsupported: ['thread'] } },
    },
  );
}

/** Returns the answer format and its path; `output_format` is the older member. */
export function formatOf({ output_config: config, output_format: older }: Json) {
  if (isRecord(config) && isRecord(config.format))
    return { value: config.format, param: 'output_config.format' };
  return isRecord(older) ? { value: older, param: 'output_format' } : undefined;
}

class Reading extends Measure {
  /** Path of the first image, or of the first document, whose pages the model receives as images. */
  imageAt: string | undefined;
  /** Path of the first tool definition. */
  toolAt: string | undefined;
  #tools = 0;
  readonly #faults: Violations;

  constructor(faults: Violations) {
    super();
    this.#faults = faults;
  }

  message(message: unknown, path: string): void {
    if (!isRecord(message)) {
      this.#faults.add(path, 'expected a message such as {role, content}');
      return;
    }
    if (typeof message.role !== 'string')
      this.#faults.add(`${path}.role`, "expected 'user', 'assistant' or 'system'");
    // A system message may contain only `output_config`, which changes the settings from here on.
    if (message.role === 'system' && message.content === undefined && isRecord(message.output_config)) return;
    this.content(message.content, `${path}.content`);
  }

  content(content: unknown, path: string): void {
    if (typeof content === 'string') {
      this.parts++;
      this.text(content);
    } else if (Array.isArray(content)) {
      content.forEach((block, n) => this.#block(block, `${path}.${n}`));
    } else {
      this.#faults.add(path, 'expected a text or an array of blocks');
    }
  }

  tool(tool: unknown, path: string): void {
    if (!isRecord(tool)) {
      this.#faults.add(path, 'expected a tool such as {name, input_schema}');
      return;
    }
    if (this.#tools++ === 0) this.parts += partsOfTools;
    this.parts += typeof tool.type === 'string' && tool.type !== 'custom' ? partsOfKnownTool : 1;
    this.bytes(JSON.stringify(tool));
  }

  format(format: unknown): void {
    this.parts += partsOfFormat;
    this.bytes(JSON.stringify(format));
  }

  #block(block: unknown, path: string): void {
    if (typeof block === 'string') {
      this.text(block);
      return;
    }
    if (!isRecord(block)) {
      this.#faults.add(path, "expected a block such as {type: 'text', text: '...'}");
      return;
    }
    this.parts++;
    const { type, source } = block;
    if (type === 'image') {
      this.images++;
      this.imageAt ??= path;
      return;
    }
    if (type === 'document' && isRecord(source)) {
      this.#document(source, path);
      for (const name of ['title', 'context']) if (typeof block[name] === 'string') this.text(block[name]);
      return;
    }
    if (type === 'tool_addition' && isRecord(block.tool) && block.tool.definition !== undefined) {
      const at = `${path}.tool.definition`;
      this.toolAt ??= at;
      refuseProviderTool(block.tool.definition, at, this.#faults);
      this.tool(block.tool.definition, at);
      return;
    }
    if (type === 'container_upload') this.fileBytes += mostFileBytes;
    if (type === 'text' && typeof block.text === 'string') {
      this.text(block.text);
      return;
    }
    if (type === 'tool_result') {
      if (block.content !== undefined && block.content !== null)
        this.content(block.content, `${path}.content`);
      return;
    }
    // Calls, thinking and other blocks are counted by their JSON, which includes thinking encrypted in a signature.
    this.bytes(JSON.stringify(block));
  }

  #document(source: Json, path: string): void {
    if (source.type === 'text' && typeof source.data === 'string') {
      this.text(source.data);
    } else if (source.type === 'content') {
      this.content(source.content, `${path}.source.content`);
    } else if (source.type === 'base64' && typeof source.data === 'string') {
      this.file(source.data);
      this.imageAt ??= path;
    } else {
      // Referenced content has an unknown size.
      this.fileBytes += mostFileBytes;
      this.imageAt ??= path;
    }
  }
}
