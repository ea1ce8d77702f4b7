import { isRecord, type Json } from '../../util/json.ts';
import type { HttpError } from '../../http/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { effortFor, isUsualTier } from '../chat/dialect.ts';
import { editMembers } from '../core/json-edit.ts';
import type {
  AnswerAbout,
  ClientRequest,
  SseFrame,
  StreamTranslation,
  StreamWriter,
  Translation,
  UpstreamBody,
  UpstreamOptions,
} from '../core/wire.ts';
import { responsesWire } from './client.ts';
import { errorEvent, framed, responseError } from './events.ts';
import { askedEffort, reasoningOf } from '../chat/request-schema.ts';
import { isRead, ResponseReader } from './reader.ts';
import { sealMark } from './sealed.ts';
import { openaiResponses } from './upstream.ts';
import { checked } from '../core/violations.ts';

/** Translation where both sides speak Responses: everything passes unchanged except for required edits. */
export const responsesSame: Translation = {
  request: requestOf,
  answer: (text) => ({ text, events: openaiResponses.answer(text) }),
  stream: (about) => new SameStream(about),
  failure: openaiResponses.failure,
};

function requestOf({ text, body }: ClientRequest, options: UpstreamOptions): UpstreamBody {
  const { model, stream, maxTokens } = options;
  const edits: Record<string, unknown> = {
    model: model.upstream,
    ...(body['max_output_tokens'] === maxTokens ? {} : { max_output_tokens: maxTokens }),
    ...((body['stream'] === true) === stream ? {} : { stream }),
    ...storeEdits(body, options),
    ...tierEdits(body),
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
  const sealed = 'reasoning.encrypted_content';
  const needsSeal = model.caps.has('reasoning') && !include.includes(sealed);
  return { store: false, ...(needsSeal ? { include: [...include, sealed] } : {}) };
}

/** Prices are configured for the default tier only. */
const tierEdits = ({ service_tier: tier }: Json): Json =>
  isUsualTier(tier) ? {} : { service_tier: undefined };

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
  const asked = reasoningOf(checked(askedEffort, body));
  const reasoning = isRecord(body['reasoning']) ? body['reasoning'] : undefined;
  const effort = asked && effortFor(asked, model, maxTokens);
  const alias = 'reasoning_effort' in body ? { reasoning_effort: undefined } : {};
  const isSaid = effort === (reasoning?.['effort'] ?? undefined) && !(reasoning && 'max_tokens' in reasoning);
  if (isSaid) return alias;
  const { effort: _, max_tokens: __, ...rest } = reasoning ?? {};
  const told = { ...(effort === undefined ? {} : { effort }), ...rest };
  return { ...alias, reasoning: Object.keys(told).length > 0 ? told : undefined };
}

/** Removes reasoning of another provider's model, which OpenAI cannot read. */
function inputEdits(text: string, body: Json, { model }: UpstreamOptions): Json {
  if (model.family !== 'openai' || !text.includes(sealMark) || !Array.isArray(body['input'])) return {};
  const isForeign = (item: unknown) =>
    isRecord(item) &&
    item['type'] === 'reasoning' &&
    typeof item['encrypted_content'] === 'string' &&
    item['encrypted_content'].startsWith(sealMark);
  const kept = body['input'].filter((item) => !isForeign(item));
  return kept.length === body['input'].length ? {} : { input: kept };
}

/** Events that only repeat deltas are not parsed: the last event contains what is needed of them. */
const saysNothing = (name: string): boolean => name === 'response.output_item.done' || !isRead(name);

class SameStream implements StreamTranslation {
  readonly #about: AnswerAbout;
  readonly #reader = new ResponseReader();
  /** Data of the first frame, and of the last frame that was passed on. */
  #first = '';
  #last = '';
  /** Data of an `error` or `response.failed` event. */
  #failed: string | undefined;
  /** Whether the caller received the last event. */
  #whole = false;
  #over = false;

  constructor(about: AnswerAbout) {
    this.#about = about;
  }

  push(frame: SseFrame): { readonly text: string; readonly events: AnswerEvent[] } {
    if (this.#over) return { text: '', events: [] };
    const { event: name, data, raw } = frame;
    // Anything after the last event is ignored.
    if (this.#whole && data !== '[DONE]') return { text: '', events: [] };
    const isPlain = name !== undefined && saysNothing(name) && !this.#reader.isFailing;
    const events = isPlain ? [] : this.#reader.push(frame);
    if (!isPlain && (this.#reader.isFailing || events.some(({ type }) => type === 'failure'))) {
      // Reported by `fail`, without secrets of the provider.
      this.#failed = data;
      return { text: '', events };
    }
    if (events.some(({ type }) => type === 'finish')) this.#whole = true;
    if (this.#first === '') this.#first = data;
    if (data !== '' && data !== '[DONE]') this.#last = data;
    return { text: raw, events };
  }

  finish(): { readonly text: string; readonly events: AnswerEvent[] } {
    return { text: '', events: this.#over ? [] : this.#reader.end() };
  }

  end(): string {
    this.#over = true;
    return '';
  }

  fail(error: HttpError): string {
    const isTold = this.#over || this.#whole;
    this.#over = true;
    if (isTold) return '';
    const begun = responseIn(this.#failed ?? '') ?? responseIn(this.#first);
    if (!begun || this.#last === '') return this.#writer().fail(error);
    const next = sequenceIn(this.#last) + 1;
    const response = { ...begun, status: 'failed', error: responseError(error) };
    return framed(errorEvent(error), next) + framed({ type: 'response.failed', response }, next + 1);
  }

  #writer(): StreamWriter {
    return responsesWire.writer(this.#about);
  }
}

const eventIn = (data: string): Json => {
  try {
    const event: unknown = JSON.parse(data);
    return isRecord(event) ? event : {};
  } catch {
    return {};
  }
};
const responseIn = (data: string): Json | undefined => {
  const { response } = eventIn(data);
  return isRecord(response) ? response : undefined;
};
const sequenceIn = (data: string): number => {
  const { sequence_number: number } = eventIn(data);
  return typeof number === 'number' ? number : -1;
};
