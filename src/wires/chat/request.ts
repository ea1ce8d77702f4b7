import type { Json } from '../../util/json.ts';
import { unsupported } from '../core/error.ts';
import type { AnswerFormat, Conversation, Message, Part, Tool } from '../core/conversation.ts';
import type { UpstreamBody, UpstreamOptions } from '../core/wire.ts';
import { countsUnasked, effortFor, isStrict, limitMember, seedMember } from './dialect.ts';
import { sealOf } from './message.ts';

type Of<Type extends Part['type']> = Extract<Part, { type: Type }>;

/**
 * Writes a conversation as a request of the chat wire.
 * @throws WireError 400 for content that the wire cannot express
 */
export function requestOf(conversation: Conversation, options: UpstreamOptions): UpstreamBody {
  const { model, stream, maxTokens } = options;
  const { tools, toolChoice, stop, topLogprobs, reasoning, topK, user } = conversation;
  const effort = reasoning && effortFor(reasoning, model, maxTokens);
  if (topK !== undefined && model.provider.wire !== 'lathe')
    throw unsupported('top_k', 'This model does not support top_k; leave it out.');
  const body = {
    model: model.upstream,
    messages: conversation.messages.flatMap((message) => messagesOf(message, options)),
    [limitMember(model)]: maxTokens,
    ...(tools.length > 0
      ? {
          tools: tools.map((tool) => toolOf(tool, options)),
          tool_choice:
            typeof toolChoice === 'object'
              ? { type: 'function', function: { name: toolChoice.name } }
              : toolChoice,
          parallel_tool_calls: conversation.parallelToolCalls,
        }
      : {}),
    temperature: conversation.temperature,
    top_p: conversation.topP,
    top_k: topK,
    [seedMember(model)]: conversation.seed,
    stop: stop.length > 0 ? stop : undefined,
    presence_penalty: conversation.presencePenalty,
    frequency_penalty: conversation.frequencyPenalty,
    ...(topLogprobs === undefined ? {} : { logprobs: true, top_logprobs: topLogprobs }),
    reasoning_effort: effort,
    response_format: formatOf(conversation.format),
    ...(isMistral(options) ? {} : { user }),
    ...(stream ? { stream: true } : {}),
    ...(stream && !countsUnasked(model) ? { stream_options: { include_usage: true } } : {}),
    ...options.more,
  };
  return {
    path: '/chat/completions',
    headers: {},
    value: body,
    get text() {
      return JSON.stringify(body);
    },
  };
}

/** Mistral's service refuses every unknown member. */
const isMistral = ({ model }: UpstreamOptions) => model.family === 'mistral' && isStrict(model);

/** Cache breakpoints are sent to Anthropic's models only, where they are reached through a chat endpoint. */
const markOf = (
  { cache }: { readonly cache?: { readonly ttl?: string } },
  { model }: UpstreamOptions,
): Json => (cache && model.family === 'anthropic' ? { cache_control: { type: 'ephemeral', ...cache } } : {});

function messagesOf(message: Message, options: UpstreamOptions): Json[] {
  switch (message.role) {
    case 'assistant':
      return [assistantOf(message.parts, options)];
    case 'tool':
      return resultsOf(message.parts, options);
    case 'system':
    case 'user':
      return [{ role: message.role, content: contentOf(message.parts, options) }];
  }
}

function contentOf(parts: readonly Part[], options: UpstreamOptions): unknown {
  const [only] = parts;
  if (parts.length === 1 && only?.type === 'text' && !('cache_control' in markOf(only, options)))
    return only.text;
  return parts.flatMap((part): Json[] => {
    switch (part.type) {
      case 'text':
        return [{ type: 'text', text: part.text, ...markOf(part, options) }];
      case 'image': {
        const { source, detail } = part;
        const url = 'url' in source ? source.url : `data:${source.mediaType};base64,${source.data}`;
        const image = { url, ...(detail === undefined ? {} : { detail }) };
        return [{ type: 'image_url', image_url: image, ...markOf(part, options) }];
      }
      case 'file': {
        const { name = 'file.pdf', mediaType, data } = part;
        const file = { filename: name, file_data: `data:${mediaType};base64,${data}` };
        return [{ type: 'file', file, ...markOf(part, options) }];
      }
      case 'refusal':
        return [{ type: 'text', text: part.text }];
      default:
        return [];
    }
  });
}

/**
 * Writes an assistant message. Reasoning is returned to providers that read it; OpenAI and Mistral refuse the member.
 * Signatures belong to their issuers' wires, except Google's, whose models also require them on this wire.
 */
function assistantOf(parts: readonly Part[], options: UpstreamOptions): Json {
  const { model } = options;
  const thoughts = textsOf(parts, 'reasoning');
  const refusal = textsOf(parts, 'refusal');
  const texts = parts.filter((part) => part.type === 'text');
  const calls = parts.filter((part) => part.type === 'tool_call');
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : contentOf(texts, options),
    ...(refusal === '' ? {} : { refusal }),
    ...(thoughts === '' || isStrict(model) ? {} : { reasoning_content: thoughts }),
    ...(calls.length > 0
      ? {
          tool_calls: calls.map((call) => ({
            id: call.id,
            type: 'function',
            function: { name: call.name, arguments: call.arguments },
            ...(model.family === 'google' ? sealOf(call.signature) : {}),
          })),
        }
      : {}),
  };
}

const textsOf = (parts: readonly Part[], type: 'reasoning' | 'refusal'): string =>
  parts.map((part) => (part.type === type ? part.text : '')).join('');

/**
 * Writes tool results. They are text on this wire: images follow in a separate message, in the order of the results.
 */
function resultsOf(parts: readonly Part[], options: UpstreamOptions): Json[] {
  const results = parts.filter((part): part is Of<'tool_result'> => part.type === 'tool_result');
  const images = results.flatMap(({ id, parts: inner }) => {
    const shown = inner.filter((part) => part.type === 'image');
    return shown.length === 0
      ? []
      : [{ type: 'text' as const, text: `Images of the result of ${id}:` }, ...shown];
  });
  return [
    ...results.map((result) => {
      const texts = result.parts.filter((part) => part.type === 'text');
      const hasOnlyImages = texts.length === 0 && result.parts.length > 0;
      const content = hasOnlyImages ? 'The result is in the images that follow.' : contentOf(texts, options);
      return { role: 'tool', tool_call_id: result.id, content: isEmpty(content) ? '' : content };
    }),
    ...(images.length > 0 ? [{ role: 'user', content: contentOf(images, options) }] : []),
  ];
}

const isEmpty = (content: unknown): boolean => Array.isArray(content) && content.length === 0;

const toolOf = (tool: Tool, options: UpstreamOptions): Json => {
  const { name, description, parameters, strict } = tool;
  return { type: 'function', function: { name, description, parameters, strict }, ...markOf(tool, options) };
};

function formatOf(format: AnswerFormat): Json | undefined {
  switch (format.type) {
    case 'text':
      return undefined;
    case 'json':
      return { type: 'json_object' };
    case 'schema': {
      const { type: _, ...schema } = format;
      return { type: 'json_schema', json_schema: schema };
    }
  }
}
