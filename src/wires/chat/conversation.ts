import { invalidRequest } from '../core/error.ts';
import type {
  AnswerFormat,
  CacheBreakpoint,
  Conversation,
  FilePart,
  ImagePart,
  Message,
  Part,
  Tool,
} from '../core/conversation.ts';
import { toDetail, parseFileSource, parseImageSource } from '../core/data-url.ts';
import { omitNullish } from '../core/json.ts';
import { parseOrThrow, Violations } from '../core/violations.ts';
import type { ClientRequest } from '../core/wire.ts';
import {
  type ChatMessage,
  type ChatRequest,
  chatRequest,
  type ReasoningDetail,
  readReasoning,
} from './request-schema.ts';
import { allowedTools, toToolChoice, findToolViolations } from './tools-schema.ts';

type CacheControl = Extract<ChatMessage, { role: 'user' }>['cache_control'];
type ContentPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number];
type PartOf<Type extends Part['type']> = Extract<Part, { type: Type }>;

/** Converts a chat request to a provider-neutral conversation. @throws WireError 400 with all violations */
export function readConversation({ body }: ClientRequest): Conversation {
  const request = parseOrThrow(chatRequest, body);
  const violations = new Violations();
  const messages = new MessageReader(violations);
  request.messages.forEach((message, index) => messages.add(message, `messages.${index}`));
  for (const { path, message } of findToolViolations(request)) violations.add(path, message);
  if (typeof request.top_logprobs === 'number' && request.logprobs !== true)
    violations.add('top_logprobs', 'requires logprobs: true');
  violations.throwIfAny();
  const { stop, logprobs } = request;
  return {
    messages: messages.messages,
    tools: allowedTools(request.tools ?? [], request.tool_choice).map(toTool),
    stop: stop === null || stop === undefined ? [] : typeof stop === 'string' ? [stop] : stop,
    format: toAnswerFormat(request.response_format),
    ...omitNullish({
      toolChoice: toToolChoice(request.tool_choice),
      parallelToolCalls: request.parallel_tool_calls,
      maxTokens: request.max_completion_tokens ?? request.max_tokens,
      temperature: request.temperature,
      topP: request.top_p,
      topK: request.top_k,
      seed: request.seed,
      presencePenalty: request.presence_penalty,
      frequencyPenalty: request.frequency_penalty,
      topLogprobs: logprobs ? (request.top_logprobs ?? 0) : undefined,
      reasoning: readReasoning(request),
      webSearch: request.web_search_options ? true : undefined,
      user: request.user ?? request.safety_identifier,
    }),
  };
}

const toCacheBreakpoint = (control: CacheControl): { readonly cache?: CacheBreakpoint } =>
  control ? { cache: control.ttl ? { ttl: control.ttl } : {} } : {};

function withoutCache(part: PartOf<'text'> | ImagePart | FilePart): object {
  const { cache: _, ...rest } = part;
  return rest;
}

class MessageReader {
  readonly messages: Message[] = [];
  readonly #violations: Violations;
  /** Names of the called tools, by call id. */
  readonly #calledTools = new Map<string, string>();

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  add(message: ChatMessage, path: string): void {
    switch (message.role) {
      case 'assistant':
        this.messages.push({ role: 'assistant', parts: this.#assistant(message) });
        return;
      case 'tool':
        this.#result(message, path);
        return;
      case 'system':
      case 'developer':
      case 'user': {
        const role = message.role === 'developer' ? 'system' : message.role;
        this.messages.push({ role, parts: this.#parts(message, path) });
      }
    }
  }

  #parts(
    message: Exclude<ChatMessage, { role: 'assistant' }>,
    path: string,
  ): (PartOf<'text'> | ImagePart | FilePart)[] {
    const { content, cache_control: control } = message;
    const breakpoint = toCacheBreakpoint(control);
    if (typeof content === 'string') return [{ type: 'text', text: content, ...breakpoint }];
    const contentParts: readonly ContentPart[] = content;
    return contentParts.flatMap((part, index): (PartOf<'text'> | ImagePart | FilePart)[] => {
      const isLast = index === contentParts.length - 1;
      const cache = part.cache_control || !isLast ? toCacheBreakpoint(part.cache_control) : breakpoint;
      const partPath = `${path}.content.${index}`;
      switch (part.type) {
        case 'text':
          return [{ type: 'text', text: part.text, ...cache }];
        case 'image_url':
          return this.#image(part.image_url, cache, `${partPath}.image_url.url`);
        case 'file':
          return this.#file(part.file, cache, `${partPath}.file.file_data`);
      }
    });
  }

  #image(
    { url, detail }: { readonly url: string; readonly detail?: unknown },
    cache: { readonly cache?: CacheBreakpoint },
    path: string,
  ): ImagePart[] {
    const source = parseImageSource(url);
    if (!source) {
      this.#violations.add(
        path,
        'expected an http(s) URL or a data URL in base64, as data:image/png;base64,...',
      );
      return [];
    }
    return [{ type: 'image', source, ...toDetail(detail), ...cache }];
  }

  #file(
    file: { readonly file_data?: string | null | undefined; readonly filename?: string | null | undefined },
    cache: { readonly cache?: CacheBreakpoint },
    path: string,
  ): FilePart[] {
    const { file_data: fileData, filename } = file;
    if (!fileData) {
      this.#violations.add(path, 'expected the data of the file in base64');
      return [];
    }
    const source = parseFileSource(fileData);
    if (!source) {
      this.#violations.add(
        path,
        'expected base64 or a data URL in base64, as data:application/pdf;base64,...',
      );
      return [];
    }
    return [{ type: 'file', ...source, ...omitNullish({ name: filename }), ...cache }];
  }

  #assistant(message: Extract<ChatMessage, { role: 'assistant' }>): Part[] {
    const {
      content,
      refusal,
      tool_calls: calls,
      reasoning_details: details,
      cache_control: control,
    } = message;
    const parts: Part[] = details?.length
      ? details.flatMap(toReasoningParts)
      : [message.reasoning ?? message.reasoning_content]
          .filter((thoughts) => thoughts !== null && thoughts !== undefined && thoughts !== '')
          .map((thoughts) => ({ type: 'reasoning' as const, text: thoughts as string }));
    const breakpoint = toCacheBreakpoint(control);
    if (typeof content === 'string') {
      if (content !== '') parts.push({ type: 'text', text: content, ...breakpoint });
    } else
      for (const part of content ?? [])
        parts.push(
          part.type === 'text'
            ? { type: 'text', text: part.text, ...toCacheBreakpoint(part.cache_control) }
            : { type: 'refusal', text: part.refusal },
        );
    if (refusal) parts.push({ type: 'refusal', text: refusal });
    for (const { id, function: functionMember, extra_content: extra } of calls ?? []) {
      this.#calledTools.set(id, functionMember.name);
      const signature = extra?.google?.thought_signature;
      parts.push({
        type: 'tool_call',
        id,
        name: functionMember.name,
        arguments: functionMember.arguments,
        ...omitNullish({ signature }),
      });
    }
    return parts;
  }

  /** Merges consecutive results into one message, because they belong to the calls of one message. */
  #result(message: Extract<ChatMessage, { role: 'tool' }>, path: string): void {
    const { tool_call_id: id, cache_control: control } = message;
    const name = this.#calledTools.get(id);
    if (name === undefined)
      this.#violations.add(
        `${path}.tool_call_id`,
        `expected the id of a call of an earlier message, got '${id.slice(0, 80)}'`,
      );
    // A cache breakpoint on a part applies to the whole result, which is cached or not.
    const contentParts = this.#parts({ ...message, cache_control: undefined }, path);
    const inner = contentParts.find((part) => part.cache)?.cache;
    const cache = control ? toCacheBreakpoint(control) : inner ? { cache: inner } : {};
    const parts = contentParts.map((part) => withoutCache(part)) as PartOf<'tool_result'>['parts'];
    const result: Part = { type: 'tool_result', id, name: name ?? '', parts, failed: false, ...cache };
    const last = this.messages.at(-1);
    if (last?.role === 'tool')
      this.messages[this.messages.length - 1] = { role: 'tool', parts: [...last.parts, result] };
    else this.messages.push({ role: 'tool', parts: [result] });
  }
}

function toReasoningParts(detail: ReasoningDetail): Part[] {
  if (detail.type === 'reasoning.encrypted') {
    const { data, id } = detail as Extract<ReasoningDetail, { type: 'reasoning.encrypted' }>;
    return [{ type: 'encrypted_reasoning', data, ...omitNullish({ id }) }];
  }
  if (detail.type !== 'reasoning.text') return [];
  const { text, signature } = detail as Extract<ReasoningDetail, { type: 'reasoning.text' }>;
  return text || signature ? [{ type: 'reasoning', text: text ?? '', ...omitNullish({ signature }) }] : [];
}

const toTool = (tool: NonNullable<ChatRequest['tools']>[number]): Tool => {
  const { name, description, parameters, strict } = tool.function;
  return {
    name,
    ...omitNullish({ description, strict }),
    parameters: parameters ?? { type: 'object', properties: {} },
    ...toCacheBreakpoint(tool.cache_control),
  };
};

function toAnswerFormat(format: ChatRequest['response_format']): AnswerFormat {
  if (!format || format.type === 'text') return { type: 'text' };
  const nested = format.type === 'json_schema' ? format.json_schema : undefined;
  const schema = nested?.schema ?? format.schema;
  if (!schema && format.type === 'json_object') return { type: 'json' };
  if (!schema)
    throw invalidRequest('response_format.json_schema.schema: expected a JSON schema of an object.', {
      param: 'response_format.json_schema.schema',
    });
  return {
    type: 'schema',
    name: nested?.name ?? 'answer',
    schema,
    ...omitNullish({ description: nested?.description, strict: nested?.strict }),
  };
}
