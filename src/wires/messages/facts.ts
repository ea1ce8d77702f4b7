import { isRecord, type Json } from '../../util/json.ts';
import { InputCounter } from '../core/input-counter.ts';
import { invalidRequest } from '../core/error.ts';
import type { RequestFacts } from '../core/wire.ts';
import { Violations } from '../core/violations.ts';
import { threadUnsupportedCode } from './frames.ts';
import { readHostedTools, toList, refuseProviderTool, refuseUnpriced } from './unpriced.ts';

/** File size assumed for a document that is not in the request itself: the provider's request limit. */
const assumedFileBytes = 32 * 1024 * 1024;
/**
 * Parts that account for instructions which the provider adds, at 64 tokens each: for any tools (up to 530 tokens), for
 * tools the model was trained on (up to 800 each), and for an answer with a schema.
 */
const toolsInstructionParts = 9;
const knownToolInstructionParts = 13;
const formatInstructionParts = 8;

/** Reads what the gateway needs to know of a request. @throws WireError 400 with all violations */
export function readFacts(body: Json): RequestFacts {
  refuseThread(body);
  const violations = new Violations();
  const { model, max_tokens: maxTokens, stream, messages, tools } = body;
  if (typeof model !== 'string' || model === '') violations.add('model', 'expected the id of a model');
  if (!isTokenCount(maxTokens))
    violations.add(
      'max_tokens',
      maxTokens === undefined ? 'is required on this wire: a whole number' : 'expected a whole number',
    );
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean')
    violations.add('stream', 'expected true or false');
  if (!Array.isArray(messages)) violations.add('messages', 'expected an array of messages');
  else if (messages.length === 0) violations.add('messages', 'must contain at least one message');
  if (tools !== undefined && tools !== null && !Array.isArray(tools))
    violations.add('tools', 'expected an array of tools');
  refuseUnpriced(body, violations);

  const hostedTools = readHostedTools(toList(tools), violations);

  const counter = new MessagesInputCounter(violations);
  if (body.system !== undefined && body.system !== null) counter.addContent(body.system, 'system');
  toList(messages).forEach((message, n) => counter.addMessage(message, `messages.${n}`));
  if (toList(tools).length > 0) counter.toolPath = 'tools';
  toList(tools).forEach((tool, n) => counter.addTool(tool, `tools.${n}`));
  const format = findAnswerFormat(body);
  if (format) counter.addFormat(format.value);
  violations.throwIfAny();

  const needs: { cap: RequestFacts['needs'][number]['cap']; param: string }[] = [];
  if (counter.toolPath !== undefined) needs.push({ cap: 'tools', param: counter.toolPath });
  if (counter.imagePath !== undefined) needs.push({ cap: 'images', param: counter.imagePath });
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
    ...counter.counts,
    ...(hostedTools.length > 0 ? { hostedTools } : {}),
    serviceTier: body.service_tier,
  };
}

const isTokenCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

function refuseThread({ thread }: Json): void {
  if (thread === undefined || thread === null) return;
  throw invalidRequest(
    'thread: the gateway stores no conversations; leave it out and send all messages with every request.',
    {
      code: threadUnsupportedCode,
      param: 'thread',
      extraMembers: { details: { error_code: threadUnsupportedCode, unsupported: ['thread'] } },
    },
  );
}

/** Returns the answer format and its path; `output_format` is the older member. */
export function findAnswerFormat({ output_config: config, output_format: olderFormat }: Json) {
  if (isRecord(config) && isRecord(config.format))
    return { value: config.format, param: 'output_config.format' };
  return isRecord(olderFormat) ? { value: olderFormat, param: 'output_format' } : undefined;
}

class MessagesInputCounter extends InputCounter {
  /** Path of the first image, or of the first document, whose pages the model receives as images. */
  imagePath: string | undefined;
  /** Path of the first tool definition. */
  toolPath: string | undefined;
  #toolCount = 0;
  readonly #violations: Violations;

  constructor(violations: Violations) {
    super();
    this.#violations = violations;
  }

  addMessage(message: unknown, path: string): void {
    if (!isRecord(message)) {
      this.#violations.add(path, 'expected a message such as {role, content}');
      return;
    }
    if (typeof message.role !== 'string')
      this.#violations.add(`${path}.role`, "expected 'user', 'assistant' or 'system'");
    // A system message may contain only `output_config`, which changes the settings from here on.
    if (message.role === 'system' && message.content === undefined && isRecord(message.output_config)) return;
    this.addContent(message.content, `${path}.content`);
  }

  addContent(content: unknown, path: string): void {
    if (typeof content === 'string') {
      this.parts++;
      this.addText(content);
    } else if (Array.isArray(content)) {
      content.forEach((block, n) => this.#addBlock(block, `${path}.${n}`));
    } else {
      this.#violations.add(path, 'expected a text or an array of blocks');
    }
  }

  addTool(tool: unknown, path: string): void {
    if (!isRecord(tool)) {
      this.#violations.add(path, 'expected a tool such as {name, input_schema}');
      return;
    }
    if (this.#toolCount++ === 0) this.parts += toolsInstructionParts;
    this.parts += typeof tool.type === 'string' && tool.type !== 'custom' ? knownToolInstructionParts : 1;
    this.addBytes(JSON.stringify(tool));
  }

  addFormat(format: unknown): void {
    this.parts += formatInstructionParts;
    this.addBytes(JSON.stringify(format));
  }

  #addBlock(block: unknown, path: string): void {
    if (typeof block === 'string') {
      this.addText(block);
      return;
    }
    if (!isRecord(block)) {
      this.#violations.add(path, "expected a block such as {type: 'text', text: '...'}");
      return;
    }
    this.parts++;
    const { type, source } = block;
    if (type === 'image') {
      this.images++;
      this.imagePath ??= path;
      return;
    }
    if (type === 'document' && isRecord(source)) {
      this.#addDocument(source, path);
      for (const name of ['title', 'context']) if (typeof block[name] === 'string') this.addText(block[name]);
      return;
    }
    if (type === 'tool_addition' && isRecord(block.tool) && block.tool.definition !== undefined) {
      const definitionPath = `${path}.tool.definition`;
      this.toolPath ??= definitionPath;
      refuseProviderTool(block.tool.definition, definitionPath, this.#violations);
      this.addTool(block.tool.definition, definitionPath);
      return;
    }
    if (type === 'container_upload') this.fileBytes += assumedFileBytes;
    if (type === 'text' && typeof block.text === 'string') {
      this.addText(block.text);
      return;
    }
    if (type === 'tool_result') {
      if (block.content !== undefined && block.content !== null)
        this.addContent(block.content, `${path}.content`);
      return;
    }
    // Calls, thinking and other blocks are counted by their JSON, which includes thinking encrypted in a signature.
    this.addBytes(JSON.stringify(block));
  }

  #addDocument(source: Json, path: string): void {
    if (source.type === 'text' && typeof source.data === 'string') {
      this.addText(source.data);
    } else if (source.type === 'content') {
      this.addContent(source.content, `${path}.source.content`);
    } else if (source.type === 'base64' && typeof source.data === 'string') {
      this.addFile(source.data);
      this.imagePath ??= path;
    } else {
      // Referenced content has an unknown size.
      this.fileBytes += assumedFileBytes;
      this.imagePath ??= path;
    }
  }
}
