import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';
import { AnswerIdentity } from '../core/answer-identity.ts';
import { parseExact } from '../core/json.ts';
import { faultInAnswer } from '../core/provider-faults.ts';
import { tagSignature } from '../core/reasoning-signatures.ts';
import type { SseFrame, UpstreamReader } from '../core/wire.ts';
import { classifyStreamError } from './faults.ts';
import { readLogprobs } from './logprobs.ts';
import { PartialArguments } from './partial-arguments.ts';
import { generateCallId } from './call-ids.ts';
import { UsageReader } from './usage.ts';

/** Reads a complete body. @throws UpstreamFailure where it is not an answer */
export function readAnswer(text: string): AnswerEvent[] {
  const reader = new GoogleReader();
  const events = [...reader.read(text), ...reader.end()];
  const failure = events.find((event) => event.type === 'failure');
  if (failure) throw new UpstreamFailure(faultInAnswer(failure));
  return events;
}

/**
 * Reads the chunks of a stream; a complete body is read as one chunk. Google may send the finish reason in a chunk
 * before the last, also more than once, so the finish event follows at the end.
 */
export class GoogleReader implements UpstreamReader {
  readonly #usage = new UsageReader();
  readonly #identity = new AnswerIdentity();
  #hasStarted = false;
  #hasFailed = false;
  #finish: { reason: string; isBlocked: boolean } | undefined;
  #callCount = 0;
  /** The call whose arguments are still arriving. */
  #openCall: PartialArguments | undefined;

  push({ data }: SseFrame): AnswerEvent[] {
    // Proxies may send keep-alive data, or an OpenAI end marker.
    return data.trim() === '' || data === '[DONE]' ? [] : this.read(data);
  }

  read(text: string): AnswerEvent[] {
    if (this.#hasFailed) return [];
    try {
      return [...this.#readChunk(parseExact(text))];
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
      return [this.#fail('The provider sent data that is not an answer of generateContent')];
    }
  }

  end(): AnswerEvent[] {
    if (this.#hasFailed) return [];
    if (!this.#finish) return [this.#fail('The provider broke its answer off')];
    return [...this.#closeCall(), this.#finishEvent(this.#finish)];
  }

  *#readChunk(chunk: unknown): Generator<AnswerEvent> {
    if (!isRecord(chunk)) throw new SyntaxError('no object');
    const { error, candidates, promptFeedback, usageMetadata, responseId } = chunk;
    if (isRecord(error)) {
      this.#hasFailed = true;
      const fault = classifyStreamError(error);
      return yield { type: 'failure', error: fault.error, isRetryable: fault.isRetryable };
    }
    if (this.#identity.isOther(responseId, hasParts(candidates)))
      return yield this.#fail('The provider began a second answer within its stream');
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      yield { type: 'start', ...(typeof responseId === 'string' ? { id: responseId } : {}) };
    }
    const usage = isRecord(usageMetadata) ? this.#usage.read(usageMetadata) : undefined;
    if (usage) yield { type: 'usage', usage };
    const candidate: unknown = Array.isArray(candidates) ? (candidates as unknown[])[0] : undefined;
    if (isRecord(candidate)) yield* this.#readCandidate(candidate);
    const isBlocked = isRecord(promptFeedback) ? promptFeedback['blockReason'] : undefined;
    if (typeof isBlocked === 'string') this.#finish = { reason: isBlocked, isBlocked: true };
  }

  *#readCandidate(candidate: Json): Generator<AnswerEvent> {
    const { content, finishReason: reason, logprobsResult, groundingMetadata } = candidate;
    if (isRecord(groundingMetadata)) yield* readSearches(groundingMetadata);
    const parts = isRecord(content) && Array.isArray(content['parts']) ? content['parts'] : [];
    let logprobs = readLogprobs(logprobsResult);
    for (const part of parts as unknown[]) {
      if (!isRecord(part)) continue;
      for (const event of this.#readPart(part)) {
        const hasLogprobs = event.type === 'text' && logprobs.length > 0;
        yield hasLogprobs ? { ...event, logprobs } : event;
        if (hasLogprobs) logprobs = [];
      }
    }
    if (typeof reason === 'string') this.#finish = { reason, isBlocked: false };
  }

  *#readPart({ text, thought, functionCall, thoughtSignature }: Json): Generator<AnswerEvent> {
    const signature =
      typeof thoughtSignature === 'string' && thoughtSignature !== '' ? thoughtSignature : undefined;
    if (isRecord(functionCall)) return yield* this.#readCall(functionCall, signature);
    const partText = typeof text === 'string' ? text : '';
    if (partText !== '' && thought === true) yield { type: 'reasoning', text: partText };
    // Precedes the text it arrived with, because it signs the reasoning before that text.
    if (signature !== undefined)
      yield { type: 'reasoning_signature', signature: tagSignature('google', signature) };
    if (partText !== '' && thought !== true) yield { type: 'text', text: partText };
  }

  /**
   * Reads a complete call, or a piece of the open call's arguments; a piece without a name and without `willContinue`
   * closes the call.
   */
  *#readCall(call: Json, signature: string | undefined): Generator<AnswerEvent> {
    const { name, id, args, partialArgs, willContinue } = call;
    if (typeof name === 'string' && name !== '') {
      yield* this.#closeCall();
      yield {
        type: 'tool_call',
        index: this.#callCount++,
        id: typeof id === 'string' && id !== '' ? id : generateCallId(),
        name,
        ...(signature === undefined ? {} : { signature }),
      };
      this.#openCall = new PartialArguments();
    }
    if (!this.#openCall) {
      if (args !== undefined || partialArgs !== undefined) throw new SyntaxError('arguments of no call');
      return;
    }
    if (isRecord(args)) this.#openCall.merge(args);
    for (const piece of Array.isArray(partialArgs) ? (partialArgs as unknown[]) : [])
      this.#openCall.add(piece);
    if (willContinue !== true) yield* this.#closeCall();
  }

  *#closeCall(): Generator<AnswerEvent> {
    if (!this.#openCall) return;
    yield { type: 'tool_arguments', index: this.#callCount - 1, text: this.#openCall.text };
    this.#openCall = undefined;
  }

  #finishEvent({ reason, isBlocked }: { reason: string; isBlocked: boolean }): AnswerEvent {
    const mappedReason = isBlocked ? 'content_filter' : finishReason(reason);
    if (mappedReason !== undefined)
      return {
        type: 'finish',
        reason: mappedReason === 'stop' && this.#callCount > 0 ? 'tool_calls' : mappedReason,
        ...(mappedReason === 'content_filter' ? { detail: reason } : {}),
      };
    return { type: 'finish', reason: 'stop', detail: reason };
  }

  #fail(problem: string): AnswerEvent {
    this.#hasFailed = true;
    const error = new WireError(502, 'upstream_error', `${problem}; try again.`, { code: 'upstream_failed' });
    return { type: 'failure', error, isRetryable: true };
  }
}

/** The searches of a grounded answer. Several chunks may name the same one. */
function* readSearches({ webSearchQueries: queries }: Json): Generator<AnswerEvent> {
  for (const query of Array.isArray(queries) ? (queries as unknown[]) : [])
    if (typeof query === 'string' && query !== '')
      yield { type: 'hosted_call', tool: 'web_search', key: query };
}

const hasParts = (candidates: unknown): boolean =>
  Array.isArray(candidates) &&
  (candidates as unknown[]).some(
    (candidate) =>
      isRecord(candidate) &&
      isRecord(candidate['content']) &&
      Array.isArray(candidate['content']['parts']) &&
      candidate['content']['parts'].length > 0,
  );

const filterReasons = /SAFETY|RECITATION|BLOCKLIST|PROHIBITED_CONTENT|SPII/;

/** Maps a finish reason; undefined for abnormal ends (`MALFORMED_FUNCTION_CALL`, `LANGUAGE`, `OTHER`...). */
function finishReason(reason: string): FinishReason | undefined {
  if (reason === 'STOP') return 'stop';
  if (reason === 'MAX_TOKENS') return 'length';
  return filterReasons.test(reason) ? 'content_filter' : undefined;
}
