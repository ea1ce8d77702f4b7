import {
  EngineError,
  type FinishReason,
  type GenerateRequest,
  type GenerationEvent,
  type RequestObserver,
  type TokenLogprob,
  type Usage,
} from '../types.ts';
import type { Tokenizer } from '../tokenizer/types.ts';
import type { ModelDrafter } from '../speculation/draft-model.ts';
import type { PromptLookup } from '../speculation/prompt-lookup.ts';
import { ConstraintMasks } from '../sampling/masks.ts';
import { AnswerText } from '../sampling/answer-text.ts';
import { EventQueue } from './event-queue.ts';
import { requestFlagsOf } from '../execution/step.ts';

/** Phase of a sequence. Only `prefill` and `decode` hold a slot and pages. */
export type SequencePhase = 'waiting' | 'prefill' | 'decode' | 'awaiting_reader' | 'awaiting_mask' | 'done';

/** A request of the engine's user, or of the engine itself. */
interface SequenceRequest extends GenerateRequest {
  /**
   * Report the hidden state of the prompt's last token. Such a sequence neither uses the prefix cache nor leaves pages
   * in it, so its result does not depend on earlier requests.
   */
  readonly hiddenState?: boolean;
}

/** A generation request from its arrival to its last event. */
export class Sequence {
  readonly request: SequenceRequest;
  /** Options of each sample, see `requestFlagsOf`. */
  readonly requestFlags: number;
  /** Pages of the KV cache, by position. The cache adds and removes them. */
  readonly pages: number[] = [];
  /** Prompt, and the output tokens that were read back. */
  readonly tokens: number[];
  /** Log probabilities of the prompt as far as they are read back; undefined when not requested. */
  readonly promptLogprobs: (TokenLogprob | null)[] | undefined;
  /** Masks of the constraint. */
  readonly masks = new ConstraintMasks(this);
  /** Hidden state of the prompt's last token after the final norm; undefined until it is read back. */
  hiddenState: Float32Array | undefined;
  readonly arrivedAt: number;
  #startedAt = 0;
  #firstTokenAt = 0;
  #lastTokenAt = 0;
  readonly #observer: RequestObserver | undefined;
  #phase: SequencePhase = 'waiting';
  #arrivalOrder = 0;
  #slot = -1;
  #preemptionEpoch = 0;
  #scheduledTokens = 0;
  #sampledTokens = 0;
  #cachedTokens = 0;
  #reusedTokens = 0;
  #canReusePrefix: boolean;
  #scoredTokens = 1;
  #lookupDrafter: PromptLookup | undefined;
  #modelDrafter: ModelDrafter | undefined;
  #onEnd: (() => void) | undefined;
  readonly #text: AnswerText;
  readonly #endIds: ReadonlySet<number>;
  #pendingIds: number[] = [];
  #pendingLogprobs: TokenLogprob[] = [];
  readonly #events = new EventQueue();
  #hasSentPromptLogprobs = false;
  #hasBegunPrompt = false;

  constructor(request: SequenceRequest, tokenizer: Tokenizer, now: number, observer?: RequestObserver) {
    this.request = request;
    this.#canReusePrefix = !request.hiddenState && !request.ignoreCache;
    this.#observer = observer;
    this.requestFlags = requestFlagsOf(request);
    this.tokens = [...request.prompt];
    this.arrivedAt = now;
    this.#text = new AnswerText(tokenizer, request);
    this.#endIds = request.ignoreEnd ? new Set() : tokenizer.endIds;
    if (request.promptLogprobs) this.promptLogprobs = [null];
  }

  get phase(): SequencePhase {
    return this.#phase;
  }

  /** Position in arrival order. */
  get arrivalOrder(): number {
    return this.#arrivalOrder;
  }

  get slot(): number {
    return this.#slot;
  }

  /**
   * Number of times the sequence was preempted: for another sequence, a slow reader or a slow constraint. Results of
   * steps from earlier epochs are stale.
   */
  get preemptionEpoch(): number {
    return this.#preemptionEpoch;
  }

  /** Tokens whose keys and values are written, or will be by a submitted step; without drafts. */
  get scheduledTokens(): number {
    return this.#scheduledTokens;
  }

  /** Output tokens sampled by submitted steps, read back or not; without drafts. */
  get sampledTokens(): number {
    return this.#sampledTokens;
  }

  /** Prompt tokens taken from the prefix cache. */
  get cachedTokens(): number {
    return this.#cachedTokens;
  }

  /** Tokens taken from the prefix cache since it got its slot. */
  get reusedTokens(): number {
    return this.#reusedTokens;
  }

  /** False when the sequence must not use the prefix cache. */
  get canReusePrefix(): boolean {
    return this.#canReusePrefix;
  }

  /** Number of prompt tokens scored by submitted steps, the first one included. */
  get scoredTokens(): number {
    return this.#scoredTokens;
  }

  /** Undefined when drafts are not allowed. */
  get lookupDrafter(): PromptLookup | undefined {
    return this.#lookupDrafter;
  }

  /** Undefined when drafts are not allowed or there is no draft model. */
  get modelDrafter(): ModelDrafter | undefined {
    return this.#modelDrafter;
  }

  /** Allows drafts. */
  useDrafters(lookup: PromptLookup, model: ModelDrafter | undefined): void {
    this.#lookupDrafter = lookup;
    this.#modelDrafter = model;
  }

  arrive(order: number): void {
    this.#arrivalOrder = order;
  }

  /** Waits for a slot, or for its reader or its constraint, without a slot. */
  wait(phase: 'waiting' | 'awaiting_reader' | 'awaiting_mask'): void {
    this.#phase = phase;
  }

  admit(slot: number, now: number): void {
    this.#slot = slot;
    this.#phase = 'prefill';
    if (this.#startedAt === 0) this.#startedAt = now;
  }

  startDecoding(): void {
    this.#phase = 'decode';
  }

  /** The step being formed writes the keys and values of the next `count` tokens. */
  scheduleTokens(count: number): void {
    this.#scheduledTokens += count;
  }

  /** The step being formed samples the next output token. */
  scheduleSample(): void {
    this.#sampledTokens += 1;
  }

  /** The first `computedTokens` tokens have their keys and values from the prefix cache, or had them before. */
  reusePrefix(computedTokens: number): void {
    const reused = computedTokens - this.#scheduledTokens;
    this.#scheduledTokens = computedTokens;
    // Tokens that it computed itself before it was preempted do not count as saved.
    if (this.#preemptionEpoch === 0) this.#cachedTokens += reused;
    this.#reusedTokens += reused;
  }

  /** Never uses the prefix cache again. Once the first token was delivered, the reported number of cached tokens stays. */
  refusePrefix(): void {
    this.#canReusePrefix = false;
    if (this.outputTokens === 0) this.#cachedTokens = 0;
  }

  /** The first `count` prompt tokens are scored by submitted steps. */
  scheduleScores(count: number): void {
    this.#scoredTokens = Math.max(this.#scoredTokens, count);
  }

  /** It lost its slot and pages, so its text is computed again. */
  restart(): void {
    this.#preemptionEpoch += 1;
    this.#scheduledTokens = 0;
    this.#reusedTokens = 0;
    // Tokens in flight will be sampled again, with the same result.
    this.#sampledTokens = this.outputTokens;
    this.#scoredTokens = this.promptLogprobs?.length ?? 1;
  }

  /** Output tokens read back. */
  get outputTokens(): number {
    return this.tokens.length - this.request.prompt.length;
  }

  /** Output tokens in events that the reader has not taken. */
  get unreadTokens(): number {
    return this.#events.unreadTokens;
  }

  /** Called whenever the reader takes an event. */
  set onRead(listener: (() => void) | undefined) {
    this.#events.onRead = listener;
  }

  /** True while prompt tokens remain to be scored by later steps. */
  get isScoring(): boolean {
    return this.promptLogprobs !== undefined && this.#scoredTokens < this.request.prompt.length;
  }

  /** With `progress`: emits one event when the evaluation of the prompt starts. */
  reportPromptStart(): void {
    if (this.#hasBegunPrompt) return;
    this.#hasBegunPrompt = true;
    this.reportPrompt(this.#scheduledTokens, this.#startedAt);
  }

  /** With `progress`: emits an event with the number of evaluated prompt tokens. */
  reportPrompt(evaluatedTokens: number, now: number): void {
    if (!this.request.progress || this.#phase === 'done' || this.outputTokens > 0) return;
    const processed = Math.min(evaluatedTokens, this.request.prompt.length);
    const cached = Math.min(this.#cachedTokens, processed);
    this.#events.push({ type: 'prompt', processed, cached, ms: now - this.#startedAt });
  }

  /** Adds a token that was read back. Ends the sequence when it is the last one. */
  acceptToken(id: number, now: number, logprob?: TokenLogprob): void {
    if (this.#phase === 'done') return;
    this.#observeToken(now);
    this.tokens.push(id);
    this.#pendingIds.push(id);
    if (logprob) this.#pendingLogprobs.push(logprob);
    const isEnd = this.#endIds.has(id);
    let text = isEnd ? this.#text.pushLast(id) : this.#text.push(id);
    const isFull = this.outputTokens >= this.request.maxTokens;
    if (isFull && !isEnd && !this.#text.isStopped) text += this.#text.flushPartialCharacter();
    if (isEnd || isFull || this.#text.isStopped) {
      this.#emit(text);
      this.#finish(isEnd || this.#text.isStopped ? 'stop' : 'length', now);
    } else if (text !== '') {
      this.#emit(text);
    }
  }

  #observeToken(now: number): void {
    if (this.#firstTokenAt === 0) {
      this.#firstTokenAt = now;
      this.#observePrompt();
      this.#observer?.onFirstToken(now - this.arrivedAt);
    } else this.#observer?.onNextToken(now - this.#lastTokenAt);
    this.#lastTokenAt = now;
  }

  #observePrompt(): void {
    this.#observer?.onPrompt({ tokens: this.request.prompt.length, cachedTokens: this.#cachedTokens });
  }

  /** Adds the log probability of the next prompt token. */
  acceptPromptLogprob(score: TokenLogprob): void {
    this.promptLogprobs?.push(score);
  }

  /** Ends the sequence after the prompt, when no output is requested. */
  finishAfterPrompt(now: number): void {
    if (this.#phase === 'done') return;
    this.#firstTokenAt = now;
    this.#observePrompt();
    this.#emit('');
    this.#finish('length', now);
  }

  /** Resolves with the promise's result, or with undefined when the sequence ends first. One call at a time. */
  async raceEnd<T>(promise: Promise<T>): Promise<T | undefined> {
    const { promise: ended, resolve } = Promise.withResolvers<undefined>();
    this.#onEnd = () => resolve(undefined);
    try {
      return await Promise.race([promise, ended]);
    } finally {
      this.#onEnd = undefined;
    }
  }

  fail(error: unknown): void {
    if (this.#phase === 'done') return;
    this.#close();
    this.#observer?.onEnd({
      reason: error instanceof EngineError ? 'error' : 'abort',
      promptTokens: this.request.prompt.length,
      outputTokens: this.outputTokens,
      timings: undefined,
    });
    this.#events.fail(error);
  }

  /** The events as they arrive; throws the error passed to `fail`. */
  events(): AsyncGenerator<GenerationEvent, void, undefined> {
    return this.#events.read();
  }

  #emit(text: string): void {
    const prompt = this.#hasSentPromptLogprobs ? undefined : this.promptLogprobs;
    const ids = this.#pendingIds;
    if (text === '' && ids.length === 0 && !prompt) return;
    const logprobs = this.request.logprobs === undefined ? {} : { logprobs: this.#pendingLogprobs };
    this.#events.push({ type: 'text', text, ids, ...logprobs, ...(prompt ? { prompt } : {}) });
    this.#hasSentPromptLogprobs = true;
    this.#pendingIds = [];
    this.#pendingLogprobs = [];
  }

  #finish(finishReason: FinishReason, now: number): void {
    const heldText = this.#text.flushHeldText();
    if (heldText !== '') this.#emit(heldText);
    const usage: Usage = {
      prompt_tokens: this.request.prompt.length,
      completion_tokens: this.outputTokens,
      cached_tokens: this.#cachedTokens,
    };
    const timings = {
      queued_ms: this.#startedAt - this.arrivedAt,
      prefill_ms: this.#firstTokenAt - this.#startedAt,
      decode_ms: now - this.#firstTokenAt,
    };
    const { stopText } = this.#text;
    const found = stopText === undefined ? {} : { stopText };
    this.#close();
    this.#observer?.onEnd({
      reason: finishReason,
      promptTokens: usage.prompt_tokens,
      outputTokens: usage.completion_tokens,
      timings,
    });
    this.#events.push({ type: 'end', finishReason, ...found, usage, timings });
  }

  #close(): void {
    this.#phase = 'done';
    this.#onEnd?.();
    try {
      this.request.constraint?.close();
    } catch {
      // The sequence is over either way, and nobody can handle the error.
    }
  }
}
