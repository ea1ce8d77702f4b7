import { invalidRequest } from '../core/error.ts';
import type {
  AnswerFormat,
  CacheMark,
  Conversation,
  FilePart,
  ImagePart,
  Message,
  Part,
  Tool,
} from '../core/conversation.ts';
import { detailOf, fileSource, imageSource } from '../core/data-url.ts';
import { present } from '../core/json.ts';
import { checked, Violations } from '../core/violations.ts';
import type { ClientRequest } from '../core/wire.ts';
import {
  type ChatMessage,
  type ChatRequest,
  chatRequest,
  type ReasoningDetail,
  reasoningOf,
} from './request-schema.ts';
import { offered, toolChoiceOf, toolViolations } from './tools-schema.ts';

type CacheControl = Extract<ChatMessage, { role: 'user' }>['cache_control'];
type ContentPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number];
type Of<Type extends Part['type']> = Extract<Part, { type: Type }>;

/** Converts a chat request to a provider-neutral conversation. @throws WireError 400 with all violations */
export function conversationOf({ body }: ClientRequest): Conversation {
  const request = checked(chatRequest, body);
  const faults = new Violations();
  const messages = new Messages(faults);
  request.messages.forEach((message, index) => messages.add(message, `messages.${index}`));
  for (const { path, message } of toolViolations(request)) faults.add(path, message);
  if (typeof request.top_logprobs === 'number' && request.logprobs !== true)
    faults.add('top_logprobs', 'requires logprobs: true');
  faults.throwAny();
  const { stop, logprobs } = request;
  return {
    messages: messages.all,
    tools: offered(request.tools ?? [], request.tool_choice).map(toolOf),
    stop: stop === null || stop === undefined ? [] : typeof stop === 'string' ? [stop] : stop,
    format: formatOf(request.response_format),
    ...present({
      toolChoice: toolChoiceOf(request.tool_choice),
      parallelToolCalls: request.parallel_tool_calls,
      maxTokens: request.max_completion_tokens ?? request.max_tokens,
      temperature: request.temperature,
      topP: request.top_p,
      topK: request.top_k,
      seed: request.seed,
      presencePenalty: request.presence_penalty,
      frequencyPenalty: request.frequency_penalty,
      topLogprobs: logprobs ? (request.top_logprobs ?? 0) : undefined,
      reasoning: reasoningOf(request),
      user: request.user ?? request.safety_identifier,
    }),
  };
}

const cacheOf = (control: CacheControl): { readonly cache?: CacheMark } =>
  control ? { cache: control.ttl ? { ttl: control.ttl } : {} } : {};

function withoutCache(part: Of<'text'> | ImagePart | FilePart): object {
  const { cache: _, ...rest } = part;
  return rest;
}

class Messages {
  readonly all: Message[] = [];
  readonly #faults: Violations;
  /** Names of the called tools, by call id. */
  readonly #called = new Map<string, string>();

  constructor(faults: Violations) {
    this.#faults = faults;
  }

  add(message: ChatMessage, path: string): void {
    switch (message.role) {
      case 'assistant':
        this.all.push({ role: 'assistant', parts: this.#assistant(message) });
        return;
      case 'tool':
        this.#result(message, path);
        return;
      case 'system':
      case 'developer':
      case 'user': {
        const role = message.role === 'developer' ? 'system' : message.role;
        this.all.push({ role, parts: this.#parts(message, path) });
      }
    }
  }

  #parts(
    message: Exclude<ChatMessage, { role: 'assistant' }>,
    path: string,
  ): (Of<'text'> | ImagePart | FilePart)[] {
    const { content, cache_control: control } = message;
    const mark = cacheOf(control);
    if (typeof content === 'string') return [{ type: 'text', text: content, ...mark }];
    const all: readonly ContentPart[] = content;
    return all.flatMap((part, index): (Of<'text'> | ImagePart | FilePart)[] => {
      const isLast = index === all.length - 1;
      const cache = part.cache_control || !isLast ? cacheOf(part.cache_control) : mark;
      const place = `${path}.content.${index}`;
      switch (part.type) {
        case 'text':
          return [{ type: 'text', text: part.text, ...cache }];
        case 'image_url':
          return this.#image(part.image_url, cache, `${place}.image_url.url`);
        case 'file':
          return this.#file(part.file, cache, `${place}.file.file_data`);
      }
    });
  }

  #image(
    { url, detail }: { readonly url: string; readonly detail?: unknown },
    cache: { readonly cache?: CacheMark },
    path: string,
  ): ImagePart[] {
    const source = imageSource(url);
    if (!source) {
      this.#faults.add(path, 'expected an http(s) URL or a data URL in base64, as data:image/png;base64,...');
      return [];
    }
    return [{ type: 'image', source, ...detailOf(detail), ...cache }];
  }

  #file(
    file: { readonly file_data?: string | null | undefined; readonly filename?: string | null | undefined },
    cache: { readonly cache?: CacheMark },
    path: string,
  ): FilePart[] {
    const { file_data: written, filename } = file;
    if (!written) {
      this.#faults.add(path, 'expected the data of the file in base64');
      return [];
    }
    const source = fileSource(written);
    if (!source) {
      this.#faults.add(path, 'expected base64 or a data URL in base64, as data:application/pdf;base64,...');
      return [];
    }
    return [{ type: 'file', ...source, ...present({ name: filename }), ...cache }];
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
      ? details.flatMap(detailPart)
      : [message.reasoning ?? message.reasoning_content]
          .filter((thoughts) => thoughts !== null && thoughts !== undefined && thoughts !== '')
          .map((thoughts) => ({ type: 'reasoning' as const, text: thoughts as string }));
    const mark = cacheOf(control);
    if (typeof content === 'string') {
      if (content !== '') parts.push({ type: 'text', text: content, ...mark });
    } else
      for (const part of content ?? [])
        parts.push(
          part.type === 'text'
            ? { type: 'text', text: part.text, ...cacheOf(part.cache_control) }
            : { type: 'refusal', text: part.refusal },
        );
    if (refusal) parts.push({ type: 'refusal', text: refusal });
    for (const { id, function: called, extra_content: extra } of calls ?? []) {
      this.#called.set(id, called.name);
      const signature = extra?.google?.thought_signature;
      parts.push({
        type: 'tool_call',
        id,
        name: called.name,
        arguments: called.arguments,
        ...present({ signature }),
      });
    }
    return parts;
  }

  /** Merges consecutive results into one message, because they belong to the calls of one message. */
  #result(message: Extract<ChatMessage, { role: 'tool' }>, path: string): void {
    const { tool_call_id: id, cache_control: control } = message;
    const name = this.#called.get(id);
    if (name === undefined)
      this.#faults.add(
        `${path}.tool_call_id`,
        `expected the id of a call of an earlier message, got '${id.slice(0, 80)}'`,
      );
    // A cache breakpoint on a part applies to the whole result, which is cached or not.
    const marked = this.#parts({ ...message, cache_control: undefined }, path);
    const inner = marked.find((part) => part.cache)?.cache;
    const cache = control ? cacheOf(control) : inner ? { cache: inner } : {};
    const parts = marked.map((part) => withoutCache(part)) as Of<'tool_result'>['parts'];
    const result: Part = { type: 'tool_result', id, name: name ?? '', parts, failed: false, ...cache };
    const last = this.all.at(-1);
    if (last?.role === 'tool')
      this.all[this.all.length - 1] = { role: 'tool', parts: [...last.parts, result] };
    else this.all.push({ role: 'tool', parts: [result] });
  }
}

function detailPart(detail: ReasoningDetail): Part[] {
  if (detail.type === 'reasoning.encrypted') {
    const { data, id } = detail as Extract<ReasoningDetail, { type: 'reasoning.encrypted' }>;
    return [{ type: 'sealed_reasoning', data, ...present({ id }) }];
  }
  if (detail.type !== 'reasoning.text') return [];
  const { text, signature } = detail as Extract<ReasoningDetail, { type: 'reasoning.text' }>;
  return text || signature ? [{ type: 'reasoning', text: text ?? '', ...present({ signature }) }] : [];
}

const toolOf = (tool: NonNullable<ChatRequest['tools']>[number]): Tool => {
  const { name, description, parameters, strict } = tool.function;
  return {
    name,
    ...present({ description, strict }),
    parameters: parameters ?? { type: 'object', properties: {} },
    ...cacheOf(tool.cache_control),
  };
};

function formatOf(format: ChatRequest['response_format']): AnswerFormat {
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
    ...present({ description: nested?.description, strict: nested?.strict }),
  };
}
