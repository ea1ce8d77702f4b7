import type { GenerateRequest, GenerationEvent, TokenLogprob, Usage } from '../types.ts';
import type { Tokenizer } from '../tokenizer/types.ts';
import type { ModelDrafter } from '../speculation/draft-model.ts';
import type { PromptLookup } from '../speculation/prompt-lookup.ts';
import { AnswerText } from '../sampling/answer-text.ts';
import { EventQueue } from './event-queue.ts';
import { requestFlagsOf } from '../execution/step.ts';

/** Phase of a sequence. Only `prefill` and `decode` hold a slot and pages. */
export type SequencePhase = 'waiting' | 'prefill' | 'decode' | 'awaiting_reader' | 'awaiting_mask' | 'done';

/** A generation request from its arrival to its last event. */
export class Sequence {
  readonly request: GenerateRequest;
  phase: SequencePhase = 'waiting';
  /** Position in arrival order. */
  arrivalOrder = 0;
  slot = -1;
  /** Options of each sample, see `requestFlagsOf`. */
  readonly requestFlags: number;
  /** Pages of the KV cache, by position. */
  pages: number[] = [];
  /** Number of pages written to the GPU's page table. */
  uploadedPages = 0;
  /**
   * Number of times the sequence was preempted: for lack of pages, a slow reader or a slow constraint. Results of
   * steps from earlier epochs are stale.
   */
  preemptionEpoch = 0;
  /** Tokens whose keys and values are written, or will be by a submitted step; without drafts. */
  scheduledTokens = 0;
  /** Output tokens sampled by submitted steps, read back or not; without drafts. */
  sampledTokens = 0;
  /** Prompt tokens taken from the prefix cache. */
  cachedTokens = 0;
  /** Tokens taken from the prefix cache since it got its slot. */
  reusedTokens = 0;
  /** False when the sequence must not use the prefix cache. */
  canReusePrefix = true;
  /** Prompt, and the output tokens that were read back. */
  readonly tokens: number[];
  /** Number of output tokens that were passed to the constraint. */
  constraintPosition = 0;
  /** The last mask request: the mask for the token after this many output tokens. */
  maskRequest: { readonly outputTokens: number; readonly mask: Promise<Uint32Array | undefined> } | undefined;
  /** Log probabilities of the prompt as far as they are read back; undefined when not requested. */
  readonly promptLogprobs: (TokenLogprob | null)[] | undefined;
  /** Number of prompt tokens scored by submitted steps, the first one included. */
  scoredTokens = 1;
  /** Undefined when drafts are not allowed. */
  lookupDrafter: PromptLookup | undefined;
  /** Undefined when drafts are not allowed or there is no draft model. */
  modelDrafter: ModelDrafter | undefined;
  readonly arrivedAt: number;
  startedAt = 0;
  firstTokenAt = 0;
  #onEnd: (() => void) | undefined;
  readonly #text: AnswerText;
  readonly #endIds: ReadonlySet<number>;
  #pendingIds: number[] = [];
  #pendingLogprobs: TokenLogprob[] = [];
  readonly #events = new EventQueue();
  #hasSentPromptLogprobs = false;
  #hasBegunPrompt = false;

  constructor(request: GenerateRequest, tokenizer: Tokenizer, now: number) {
    this.request = request;
    this.requestFlags = requestFlagsOf(request);
    this.tokens = [...request.prompt];
    this.arrivedAt = now;
    this.#text = new AnswerText(tokenizer, request);
    this.#endIds = request.ignoreEnd ? new Set() : tokenizer.endIds;
    if (request.promptLogprobs) this.promptLogprobs = [null];
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
    return this.promptLogprobs !== undefined && this.scoredTokens < this.request.prompt.length;
  }

  /** With `progress`: emits one event when the evaluation of the prompt starts. */
  reportPromptStart(): void {
    if (this.#hasBegunPrompt) return;
    this.#hasBegunPrompt = true;
    this.reportPrompt(this.scheduledTokens, this.startedAt);
  }

  /** With `progress`: emits an event with the number of evaluated prompt tokens. */
  reportPrompt(evaluatedTokens: number, now: number): void {
    if (!this.request.progress || this.phase === 'done' || this.outputTokens > 0) return;
    const processed = Math.min(evaluatedTokens, this.request.prompt.length);
    const cached = Math.min(this.cachedTokens, processed);
    this.#events.push({ type: 'prompt', processed, cached, ms: now - this.startedAt });
  }

  /** Adds a token that was read back. Ends the sequence when it is the last one. */
  acceptToken(id: number, now: number, logprob?: TokenLogprob): void {
    if (this.phase === 'done') return;
    if (this.firstTokenAt === 0) this.firstTokenAt = now;
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

  /** Adds the log probability of the next prompt token. */
  acceptPromptLogprob(score: TokenLogprob): void {
    this.promptLogprobs?.push(score);
  }

  /** Ends the sequence after the prompt, when no output is requested. */
  finishAfterPrompt(now: number): void {
    if (this.phase === 'done') return;
    this.firstTokenAt = now;
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
    if (this.phase === 'done') return;
    this.#close();
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

  #finish(finishReason: 'stop' | 'length', now: number): void {
    const heldText = this.#text.flushHeldText();
    if (heldText !== '') this.#emit(heldText);
    const usage: Usage = {
      prompt_tokens: this.request.prompt.length,
      completion_tokens: this.outputTokens,
      cached_tokens: this.cachedTokens,
    };
    const timings = {
      queued_ms: this.startedAt - this.arrivedAt,
      prefill_ms: this.firstTokenAt - this.startedAt,
      decode_ms: now - this.firstTokenAt,
    };
    const { stopText } = this.#text;
    const found = stopText === undefined ? {} : { stopText };
    this.#close();
    this.#events.push({ type: 'end', finishReason, ...found, usage, timings });
  }

  #close(): void {
    this.phase = 'done';
    this.#onEnd?.();
    try {
      this.request.constraint?.close();
    } catch {
      // The sequence is over either way, and nobody can handle the error.
    }
  }
}
