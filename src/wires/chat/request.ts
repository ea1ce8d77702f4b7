import type { Json } from '../../util/json.ts';
import { unsupported } from '../core/error.ts';
import type { AnswerFormat, Conversation, Message, Part, Tool } from '../core/conversation.ts';
import type { UpstreamBody, UpstreamOptions } from '../core/wire.ts';
import {
  alwaysReportsUsage,
  resolveEffort,
  refusesUnknownMembers,
  maxTokensMember,
  seedMember,
} from './dialect.ts';
import { signatureMember } from './message.ts';

type PartOf<Type extends Part['type']> = Extract<Part, { type: Type }>;

/**
 * Writes a conversation as a request of the chat wire.
 * @throws WireError 400 for content that the wire cannot express
 */
export function writeRequest(conversation: Conversation, options: UpstreamOptions): UpstreamBody {
  const { model, stream, maxTokens } = options;
  const { tools, toolChoice, stop, topLogprobs, reasoning, topK, user } = conversation;
  const effort = reasoning && resolveEffort(reasoning, model, maxTokens);
  if (topK !== undefined && model.provider.wire !== 'lathe')
    throw unsupported('top_k', 'This model does not support top_k; leave it out.');
  const body = {
    model: model.upstream,
    messages: conversation.messages.flatMap((message) => writeMessages(message, options)),
    [maxTokensMember(model)]: maxTokens,
    ...(tools.length > 0
      ? {
          tools: tools.map((tool) => writeTool(tool, options)),
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
    response_format: writeResponseFormat(conversation.format),
    ...(isMistral(options) ? {} : { user }),
    ...(stream ? { stream: true } : {}),
    ...(stream && !alwaysReportsUsage(model) ? { stream_options: { include_usage: true } } : {}),
    ...options.extraMembers,
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
const isMistral = ({ model }: UpstreamOptions) => model.family === 'mistral' && refusesUnknownMembers(model);

/** Cache breakpoints are sent to Anthropic's models only, where they are reached through a chat endpoint. */
const cacheControlOf = (
  { cache }: { readonly cache?: { readonly ttl?: string } },
  { model }: UpstreamOptions,
): Json => (cache && model.family === 'anthropic' ? { cache_control: { type: 'ephemeral', ...cache } } : {});

function writeMessages(message: Message, options: UpstreamOptions): Json[] {
  switch (message.role) {
    case 'assistant':
      return [writeAssistant(message.parts, options)];
    case 'tool':
      return writeResults(message.parts, options);
    case 'system':
    case 'user':
      return [{ role: message.role, content: writeContent(message.parts, options) }];
  }
}

function writeContent(parts: readonly Part[], options: UpstreamOptions): unknown {
  const [only] = parts;
  if (parts.length === 1 && only?.type === 'text' && !('cache_control' in cacheControlOf(only, options)))
    return only.text;
  return parts.flatMap((part): Json[] => {
    switch (part.type) {
      case 'text':
        return [{ type: 'text', text: part.text, ...cacheControlOf(part, options) }];
      case 'image': {
        const { source, detail } = part;
        const url = 'url' in source ? source.url : `data:${source.mediaType};base64,${source.data}`;
        const image = { url, ...(detail === undefined ? {} : { detail }) };
        return [{ type: 'image_url', image_url: image, ...cacheControlOf(part, options) }];
      }
      case 'file': {
        const { name = 'file.pdf', mediaType, data } = part;
        const file = { filename: name, file_data: `data:${mediaType};base64,${data}` };
        return [{ type: 'file', file, ...cacheControlOf(part, options) }];
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
function writeAssistant(parts: readonly Part[], options: UpstreamOptions): Json {
  const { model } = options;
  const reasoning = joinTexts(parts, 'reasoning');
  const refusal = joinTexts(parts, 'refusal');
  const texts = parts.filter((part) => part.type === 'text');
  const calls = parts.filter((part) => part.type === 'tool_call');
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : writeContent(texts, options),
    ...(refusal === '' ? {} : { refusal }),
    ...(reasoning === '' || refusesUnknownMembers(model) ? {} : { reasoning_content: reasoning }),
    ...(calls.length > 0
      ? {
          tool_calls: calls.map((call) => ({
            id: call.id,
            type: 'function',
            function: { name: call.name, arguments: call.arguments },
            ...(model.family === 'google' ? signatureMember(call.signature) : {}),
          })),
        }
      : {}),
  };
}

const joinTexts = (parts: readonly Part[], type: 'reasoning' | 'refusal'): string =>
  parts.map((part) => (part.type === type ? part.text : '')).join('');

/**
 * Writes tool results. They are text on this wire: images follow in a separate message, in the order of the results.
 */
function writeResults(parts: readonly Part[], options: UpstreamOptions): Json[] {
  const results = parts.filter((part): part is PartOf<'tool_result'> => part.type === 'tool_result');
  const images = results.flatMap(({ id, parts: inner }) => {
    const imageParts = inner.filter((part) => part.type === 'image');
    return imageParts.length === 0
      ? []
      : [{ type: 'text' as const, text: `Images of the result of ${id}:` }, ...imageParts];
  });
  return [
    ...results.map((result) => {
      const texts = result.parts.filter((part) => part.type === 'text');
      const hasOnlyImages = texts.length === 0 && result.parts.length > 0;
      const content = hasOnlyImages
        ? 'The result is in the images that follow.'
        : writeContent(texts, options);
      return { role: 'tool', tool_call_id: result.id, content: isEmpty(content) ? '' : content };
    }),
    ...(images.length > 0 ? [{ role: 'user', content: writeContent(images, options) }] : []),
  ];
}

const isEmpty = (content: unknown): boolean => Array.isArray(content) && content.length === 0;

const writeTool = (tool: Tool, options: UpstreamOptions): Json => {
  const { name, description, parameters, strict } = tool;
  return {
    type: 'function',
    function: { name, description, parameters, strict },
    ...cacheControlOf(tool, options),
  };
};

function writeResponseFormat(format: AnswerFormat): Json | undefined {
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
