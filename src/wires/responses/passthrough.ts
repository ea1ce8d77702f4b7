import { isRecord, type Json } from '../../util/json.ts';
import type { HttpError } from '../../http/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { resolveEffort, tierEdit } from '../chat/dialect.ts';
import { editMembers } from '../core/json-edit.ts';
import type {
  AnswerMetadata,
  ClientRequest,
  SseFrame,
  StreamTranslation,
  StreamWriter,
  Translation,
  UpstreamBody,
  UpstreamOptions,
} from '../core/wire.ts';
import { responsesWire } from './client.ts';
import { createErrorEvent, sseFrame, toResponseError } from './events.ts';
import { effortSchema, readReasoning } from '../chat/request-schema.ts';
import { isKnownEvent, ResponseReader } from './reader.ts';
import { encodedPrefix } from './encrypted-content.ts';
import { openaiResponses } from './upstream.ts';
import { parseOrThrow } from '../core/violations.ts';

/** Translation where both sides speak Responses: everything passes unchanged except for required edits. */
export const responsesPassthrough: Translation = {
  request: editRequest,
  answer: (text) => ({ text, events: openaiResponses.answer(text) }),
  stream: (metadata) => new PassthroughStream(metadata),
  failure: openaiResponses.failure,
};

function editRequest({ text, body }: ClientRequest, options: UpstreamOptions): UpstreamBody {
  const { model, stream, maxTokens } = options;
  const edits: Record<string, unknown> = {
    model: model.upstream,
    ...(body['max_output_tokens'] === maxTokens ? {} : { max_output_tokens: maxTokens }),
    ...((body['stream'] === true) === stream ? {} : { stream }),
    ...storeEdits(body, options),
    ...tierEdit(body, model),
    ...(options.maxHostedCalls === undefined ? {} : { max_tool_calls: options.maxHostedCalls }),
    ...streamOptionEdits(body),
    ...reasoningEdits(body, options),
    ...inputEdits(text, body, options),
  };
  return { path: '/responses', headers: {}, text: editMembers(text, edits) };
}

/**
 * Disables storage. The account at the provider is the gateway's, so one caller could otherwise find another's
 * responses, and the gateway has no route to look them up. Reasoning is returned encrypted instead, as for callers that
 * set `store: false` themselves.
 */
function storeEdits(body: Json, { model }: UpstreamOptions): Json {
  if (body['store'] === false) return {};
  const include = Array.isArray(body['include']) ? (body['include'] as unknown[]) : [];
  const encryptedReasoning = 'reasoning.encrypted_content';
  const needsEncrypted = model.caps.has('reasoning') && !include.includes(encryptedReasoning);
  return { store: false, ...(needsEncrypted ? { include: [...include, encryptedReasoning] } : {}) };
}

/** `include_usage` is a member of the gateway; this wire always reports usage. */
function streamOptionEdits(body: Json): Json {
  const options = body['stream_options'];
  if (!isRecord(options) || !('include_usage' in options)) return {};
  const { include_usage: _, ...rest } = options;
  return { stream_options: Object.keys(rest).length > 0 ? rest : undefined };
}

/**
 * Maps the effort to a level of the model; a token budget and the chat wire's `reasoning_effort` are members of the
 * gateway.
 */
function reasoningEdits(body: Json, { model, maxTokens }: UpstreamOptions): Json {
  const requested = readReasoning(parseOrThrow(effortSchema, body));
  const reasoning = isRecord(body['reasoning']) ? body['reasoning'] : undefined;
  const effort = requested && resolveEffort(requested, model, maxTokens);
  const alias = 'reasoning_effort' in body ? { reasoning_effort: undefined } : {};
  const isUnchanged =
    effort === (reasoning?.['effort'] ?? undefined) && !(reasoning && 'max_tokens' in reasoning);
  if (isUnchanged) return alias;
  const { effort: _, max_tokens: __, ...rest } = reasoning ?? {};
  const members = { ...(effort === undefined ? {} : { effort }), ...rest };
  return { ...alias, reasoning: Object.keys(members).length > 0 ? members : undefined };
}

/** Removes reasoning of another provider's model, which OpenAI cannot read. */
function inputEdits(text: string, body: Json, { model }: UpstreamOptions): Json {
  if (model.family !== 'openai' || !text.includes(encodedPrefix) || !Array.isArray(body['input'])) return {};
  const isForeign = (item: unknown) =>
    isRecord(item) &&
    item['type'] === 'reasoning' &&
    typeof item['encrypted_content'] === 'string' &&
    item['encrypted_content'].startsWith(encodedPrefix);
  const remaining = body['input'].filter((item) => !isForeign(item));
  return remaining.length === body['input'].length ? {} : { input: remaining };
}

/**
 * Events that only repeat deltas are not parsed: the last event contains what is needed of them. A tool that the provider ran
 * is read at once, because it is billed also where the last event never arrives.
 */
const isRedundant = (name: string, hasHostedTools: boolean): boolean =>
  (name === 'response.output_item.done' && !hasHostedTools) || !isKnownEvent(name);

class PassthroughStream implements StreamTranslation {
  readonly #metadata: AnswerMetadata;
  readonly #reader = new ResponseReader();
  /** Data of the first frame, and of the last frame that was passed on. */
  #firstData = '';
  #lastData = '';
  /** Data of an `error` or `response.failed` event. */
  #failureData: string | undefined;
  /** Whether the caller received the last event. */
  #isComplete = false;
  #isOver = false;
  readonly #hasHostedTools: boolean;

  constructor(metadata: AnswerMetadata) {
    this.#metadata = metadata;
    this.#hasHostedTools = metadata.request.facts.hostedTools !== undefined;
  }

  push(frame: SseFrame): { readonly text: string; readonly events: AnswerEvent[] } {
    if (this.#isOver) return { text: '', events: [] };
    const { event: name, data, raw } = frame;
    // Anything after the last event is ignored.
    if (this.#isComplete && data !== '[DONE]') return { text: '', events: [] };
    const isSkipped =
      name !== undefined && isRedundant(name, this.#hasHostedTools) && !this.#reader.isFailing;
    const events = isSkipped ? [] : this.#reader.push(frame);
    if (!isSkipped && (this.#reader.isFailing || events.some(({ type }) => type === 'failure'))) {
      // Reported by `fail`, without secrets of the provider.
      this.#failureData = data;
      return { text: '', events };
    }
    if (events.some(({ type }) => type === 'finish')) this.#isComplete = true;
    if (this.#firstData === '') this.#firstData = data;
    if (data !== '' && data !== '[DONE]') this.#lastData = data;
    return { text: raw, events };
  }

  finish(): { readonly text: string; readonly events: AnswerEvent[] } {
    return { text: '', events: this.#isOver ? [] : this.#reader.end() };
  }

  end(): string {
    this.#isOver = true;
    return '';
  }

  fail(error: HttpError): string {
    const hasEnded = this.#isOver || this.#isComplete;
    this.#isOver = true;
    if (hasEnded) return '';
    const startedResponse = parseResponse(this.#failureData ?? '') ?? parseResponse(this.#firstData);
    if (!startedResponse || this.#lastData === '') return this.#writer().fail(error);
    const sequenceNumber = parseSequenceNumber(this.#lastData) + 1;
    const response = { ...startedResponse, status: 'failed', error: toResponseError(error) };
    return (
      sseFrame(createErrorEvent(error), sequenceNumber) +
      sseFrame({ type: 'response.failed', response }, sequenceNumber + 1)
    );
  }

  #writer(): StreamWriter {
    return responsesWire.writer(this.#metadata);
  }
}

const parseEvent = (data: string): Json => {
  try {
    const event: unknown = JSON.parse(data);
    return isRecord(event) ? event : {};
  } catch {
    return {};
  }
};
const parseResponse = (data: string): Json | undefined => {
  const { response } = parseEvent(data);
  return isRecord(response) ? response : undefined;
};
const parseSequenceNumber = (data: string): number => {
  const { sequence_number: number } = parseEvent(data);
  return typeof number === 'number' ? number : -1;
};
