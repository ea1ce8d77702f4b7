import { isRecord, type Json } from '../../util/json.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';
import { AnswerIdentity } from '../core/answer-identity.ts';
import { parseExact } from '../core/json.ts';
import { faultInAnswer } from '../core/provider-faults.ts';
import { markSeal } from '../core/seals.ts';
import type { SseFrame, UpstreamReader } from '../core/wire.ts';
import { streamFailure } from './faults.ts';
import { logprobsOf } from './logprobs.ts';
import { PartialArguments } from './partial-arguments.ts';
import { madeId } from './seals.ts';
import { UsageCount } from './usage.ts';

/** Reads a complete body. @throws UpstreamFailure where it is not an answer */
export function answerEvents(text: string): AnswerEvent[] {
  const reader = new GoogleReader();
  const events = [...reader.take(text), ...reader.end()];
  const failure = events.find((event) => event.type === 'failure');
  if (failure) throw new UpstreamFailure(faultInAnswer(failure));
  return events;
}

/**
 * Reads the chunks of a stream; a complete body is read as one chunk. Google may send the finish reason in a chunk
 * before the last, also more than once, so the finish event follows at the end.
 */
export class GoogleReader implements UpstreamReader {
  readonly #usage = new UsageCount();
  readonly #identity = new AnswerIdentity();
  #started = false;
  #failed = false;
  #finish: { reason: string; blocked: boolean } | undefined;
  #calls = 0;
  /** The call whose arguments are still arriving. */
  #open: PartialArguments | undefined;

  push({ data }: SseFrame): AnswerEvent[] {
    // Proxies may send keep-alive data, or an OpenAI end marker.
    return data.trim() === '' || data === '[DONE]' ? [] : this.take(data);
  }

  take(text: string): AnswerEvent[] {
    if (this.#failed) return [];
    try {
      return [...this.#chunk(parseExact(text))];
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
      return [this.#fail('The provider sent data that is not an answer of generateContent')];
    }
  }

  end(): AnswerEvent[] {
    if (this.#failed) return [];
    if (!this.#finish) return [this.#fail('The provider broke its answer off')];
    return [...this.#close(), this.#finished(this.#finish)];
  }

  *#chunk(chunk: unknown): Generator<AnswerEvent> {
    if (!isRecord(chunk)) throw new SyntaxError('no object');
    const { error, candidates, promptFeedback, usageMetadata, responseId } = chunk;
    if (isRecord(error)) {
      this.#failed = true;
      const fault = streamFailure(error);
      return yield { type: 'failure', error: fault.error, again: fault.again };
    }
    if (this.#identity.isOther(responseId, hasParts(candidates)))
      return yield this.#fail('The provider began a second answer within its stream');
    if (!this.#started) {
      this.#started = true;
      yield { type: 'start', ...(typeof responseId === 'string' ? { id: responseId } : {}) };
    }
    const usage = isRecord(usageMetadata) ? this.#usage.take(usageMetadata) : undefined;
    if (usage) yield { type: 'usage', usage };
    const candidate: unknown = Array.isArray(candidates) ? (candidates as unknown[])[0] : undefined;
    if (isRecord(candidate)) yield* this.#candidate(candidate);
    const blocked = isRecord(promptFeedback) ? promptFeedback['blockReason'] : undefined;
    if (typeof blocked === 'string') this.#finish = { reason: blocked, blocked: true };
  }

  *#candidate(candidate: Json): Generator<AnswerEvent> {
    const { content, finishReason: reason, logprobsResult } = candidate;
    const parts = isRecord(content) && Array.isArray(content['parts']) ? content['parts'] : [];
    let logprobs = logprobsOf(logprobsResult);
    for (const part of parts as unknown[]) {
      if (!isRecord(part)) continue;
      for (const event of this.#part(part)) {
        const carries = event.type === 'text' && logprobs.length > 0;
        yield carries ? { ...event, logprobs } : event;
        if (carries) logprobs = [];
      }
    }
    if (typeof reason === 'string') this.#finish = { reason, blocked: false };
  }

  *#part({ text, thought, functionCall, thoughtSignature }: Json): Generator<AnswerEvent> {
    const signature =
      typeof thoughtSignature === 'string' && thoughtSignature !== '' ? thoughtSignature : undefined;
    if (isRecord(functionCall)) return yield* this.#call(functionCall, signature);
    const said = typeof text === 'string' ? text : '';
    if (said !== '' && thought === true) yield { type: 'reasoning', text: said };
    // Precedes the text it arrived with, because it signs the reasoning before that text.
    if (signature !== undefined)
      yield { type: 'reasoning_signature', signature: markSeal('google', signature) };
    if (said !== '' && thought !== true) yield { type: 'text', text: said };
  }

  /**
   * Reads a complete call, or a piece of the open call's arguments; a piece without a name and without `willContinue`
   * closes the call.
   */
  *#call(call: Json, signature: string | undefined): Generator<AnswerEvent> {
    const { name, id, args, partialArgs, willContinue } = call;
    if (typeof name === 'string' && name !== '') {
      yield* this.#close();
      yield {
        type: 'tool_call',
        index: this.#calls++,
        id: typeof id === 'string' && id !== '' ? id : madeId(),
        name,
        ...(signature === undefined ? {} : { signature }),
      };
      this.#open = new PartialArguments();
    }
    if (!this.#open) {
      if (args !== undefined || partialArgs !== undefined) throw new SyntaxError('arguments of no call');
      return;
    }
    if (isRecord(args)) this.#open.merge(args);
    for (const piece of Array.isArray(partialArgs) ? (partialArgs as unknown[]) : []) this.#open.take(piece);
    if (willContinue !== true) yield* this.#close();
  }

  *#close(): Generator<AnswerEvent> {
    if (!this.#open) return;
    yield { type: 'tool_arguments', index: this.#calls - 1, text: this.#open.text };
    this.#open = undefined;
  }

  #finished({ reason, blocked }: { reason: string; blocked: boolean }): AnswerEvent {
    const mapped = blocked ? 'content_filter' : finishReason(reason);
    if (mapped !== undefined)
      return {
        type: 'finish',
        reason: mapped === 'stop' && this.#calls > 0 ? 'tool_calls' : mapped,
        ...(mapped === 'content_filter' ? { detail: reason } : {}),
      };
    return { type: 'finish', reason: 'stop', detail: reason };
  }

  #fail(what: string): AnswerEvent {
    this.#failed = true;
    const error = new WireError(502, 'upstream_error', `${what}; try again.`, { code: 'upstream_failed' });
    return { type: 'failure', error, again: true };
  }
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

const filtered = /SAFETY|RECITATION|BLOCKLIST|PROHIBITED_CONTENT|SPII/;

/** Maps a finish reason; undefined for abnormal ends (`MALFORMED_FUNCTION_CALL`, `LANGUAGE`, `OTHER`...). */
function finishReason(reason: string): FinishReason | undefined {
  if (reason === 'STOP') return 'stop';
  if (reason === 'MAX_TOKENS') return 'length';
  return filtered.test(reason) ? 'content_filter' : undefined;
}
