import type { Json } from '../../util/json.ts';
import type { UpstreamModel } from '../core/types.ts';
import { unsupported } from '../core/error.ts';
import { resolveEffort } from '../chat/dialect.ts';
import type { AnswerFormat, Conversation, FilePart, ImagePart, Message, Part } from '../core/conversation.ts';
import { untagSignature } from '../core/reasoning-signatures.ts';
import type { UpstreamBody, UpstreamOptions } from '../core/wire.ts';

/**
 * Writes a conversation as a Responses request without storage.
 * @throws WireError 400 for content that the wire cannot express
 */
export function writeRequest(conversation: Conversation, options: UpstreamOptions): UpstreamBody {
  refuseUnsupported(conversation);
  const { model, stream, maxTokens } = options;
  const { tools, toolChoice, parallelToolCalls, temperature, topP, topLogprobs, user } = conversation;
  const reasoning = writeReasoning(conversation, model, maxTokens);
  const include = [
    // Required to return reasoning in later requests, because the provider does not store it.
    ...(model.caps.has('reasoning') ? ['reasoning.encrypted_content'] : []),
    ...(topLogprobs === undefined ? [] : ['message.output_text.logprobs']),
  ];
  const body: Json = {
    model: model.upstream,
    input: conversation.messages.flatMap(writeItems),
    stream,
    store: false,
    max_output_tokens: maxTokens,
    ...(include.length > 0 ? { include } : {}),
    ...(tools.length > 0 ? { tools: tools.map(writeTool) } : {}),
    ...(toolChoice === undefined || tools.length === 0 ? {} : { tool_choice: writeToolChoice(toolChoice) }),
    ...(parallelToolCalls === undefined || tools.length === 0
      ? {}
      : { parallel_tool_calls: parallelToolCalls }),
    ...(conversation.format.type === 'text' ? {} : { text: { format: writeFormat(conversation.format) } }),
    ...(reasoning ? { reasoning } : {}),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(topLogprobs === undefined ? {} : { top_logprobs: topLogprobs }),
    ...(user === undefined ? {} : { user }),
  };
  return { path: '/responses', headers: {}, text: JSON.stringify(body) };
}

function refuseUnsupported({ stop, topK, seed, presencePenalty, frequencyPenalty }: Conversation): void {
  const usedMembers = {
    seed: seed !== undefined,
    stop: stop.length > 0,
    top_k: topK !== undefined,
    presence_penalty: (presencePenalty ?? 0) !== 0,
    frequency_penalty: (frequencyPenalty ?? 0) !== 0,
  };
  for (const [param, isUsed] of Object.entries(usedMembers))
    if (isUsed) throw unsupported(param, `This model does not support ${param}; leave it out.`);
}

function writeReasoning(
  { reasoning }: Conversation,
  model: UpstreamModel,
  maxTokens: number,
): Json | undefined {
  const effort = reasoning && resolveEffort(reasoning, model, maxTokens);
  if (effort === undefined) return undefined;
  // OpenAI returns reasoning only as a summary, and only on request.
  return effort === 'none' ? { effort } : { effort, summary: 'auto' };
}

const writeTool = ({ name, description, parameters, strict }: Conversation['tools'][number]): Json => ({
  type: 'function',
  name,
  ...(description === undefined ? {} : { description }),
  parameters,
  // The default is true on this wire and false on all others.
  strict: strict ?? false,
});

const writeToolChoice = (choice: NonNullable<Conversation['toolChoice']>): unknown =>
  typeof choice === 'string' ? choice : { type: 'function', name: choice.name };

function writeFormat(format: AnswerFormat): Json {
  if (format.type !== 'schema') return { type: format.type === 'json' ? 'json_object' : 'text' };
  const { type: _, ...members } = format;
  return { type: 'json_schema', ...members };
}

function writeItems({ role, parts }: Message): Json[] {
  if (role === 'assistant') return writeAssistantItems(parts);
  if (role === 'tool')
    return parts.flatMap((part) => (part.type === 'tool_result' ? [writeResult(part)] : []));
  const content = parts.flatMap((part) => writeContent(part) ?? []);
  return content.length === 0 ? [] : [{ type: 'message', role, content }];
}

/** Writes text, reasoning and calls in order; consecutive texts form one message. */
function writeAssistantItems(parts: readonly Part[]): Json[] {
  const items: Json[] = [];
  let messageContent: Json[] = [];
  let summary: Json[] = [];
  const closeMessage = () => {
    if (messageContent.length > 0)
      items.push({ type: 'message', role: 'assistant', content: messageContent });
    messageContent = [];
  };
  for (const part of parts) {
    switch (part.type) {
      case 'text':
        messageContent.push({ type: 'output_text', text: part.text, annotations: [] });
        break;
      case 'refusal':
        messageContent.push({ type: 'refusal', refusal: part.text });
        break;
      case 'reasoning':
        // Summary of the encrypted reasoning that follows. Without it, or with a signature of another provider, it is
        // not accepted.
        if (part.signature === undefined) summary.push({ type: 'summary_text', text: part.text });
        break;
      case 'encrypted_reasoning': {
        const encrypted = untagSignature('openai', part.data);
        closeMessage();
        if (encrypted !== undefined && part.id !== undefined)
          items.push({ type: 'reasoning', id: part.id, summary: summary, encrypted_content: encrypted });
        summary = [];
        break;
      }
      case 'tool_call': {
        closeMessage();
        const { id, name, arguments: text } = part;
        items.push({ type: 'function_call', call_id: id, name, arguments: text });
        break;
      }
      default:
        throw new Error(`an assistant's message held a part of type ${part.type}`);
    }
  }
  closeMessage();
  return items;
}

function writeResult({ id, parts }: Extract<Part, { type: 'tool_result' }>): Json {
  const [first, ...others] = parts;
  const isPlain = others.length === 0 && (first === undefined || first.type === 'text');
  const output = isPlain
    ? first?.type === 'text'
      ? first.text
      : ''
    : parts.flatMap((part) => writeContent(part) ?? []);
  return { type: 'function_call_output', call_id: id, output };
}

function writeContent(part: Part): Json | undefined {
  if (part.type === 'text') return { type: 'input_text', text: part.text };
  if (part.type === 'image')
    return { type: 'input_image', image_url: toImageUrl(part), detail: part.detail ?? 'auto' };
  if (part.type === 'file') return writeFile(part);
  return undefined;
}

const toImageUrl = ({ source }: ImagePart): string =>
  'url' in source ? source.url : `data:${source.mediaType};base64,${source.data}`;

/** The wire requires a name for file data. */
const writeFile = ({ mediaType, data, name }: FilePart): Json => ({
  type: 'input_file',
  filename: name ?? `file.${mediaType.split('/')[1]}`,
  file_data: `data:${mediaType};base64,${data}`,
});
