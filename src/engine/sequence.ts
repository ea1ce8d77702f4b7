import type { GenerateRequest, GenerationEvent, TokenLogprob, Usage } from './types.ts';
import type { Tokenizer } from './tokenizer/types.ts';
import type { ModelGuess } from './draft-model.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import { AnswerText } from './answer-text.ts';
import { EventQueue } from './event-queue.ts';
import { wantsOf } from './step.ts';

/** Phase of a sequence. Only `prefill` and `decode` hold a slot and pages. */
export type Phase = 'waiting' | 'prefill' | 'decode' | 'parked' | 'thinking' | 'done';

/** A generation request from its arrival to its last event. */
export class Sequence {
  readonly request: GenerateRequest;
  phase: Phase = 'waiting';
  /** Position in arrival order. */
  order = 0;
  slot = -1;
  /** Options of each sample, see `requestFlagsOf`. */
  readonly wants: number;
  /** Pages of the KV cache, by position. */
  pages: number[] = [];
  /** Number of pages written to the GPU's page table. */
  tabled = 0;
  /**
   * Number of times the sequence was preempted: for lack of pages, a slow reader or a slow constraint. Results of
   * steps from earlier epochs are stale.
   */
  departures = 0;
  /** Tokens whose keys and values are written, or will be by a submitted step; without drafts. */
  scheduled = 0;
  /** Output tokens sampled by submitted steps, read back or not; without drafts. */
  drawn = 0;
  /** Prompt tokens taken from the prefix cache. */
  cachedTokens = 0;
  /** Tokens taken from the prefix cache since it got its slot. */
  adopted = 0;
  /** False when the sequence must not use the prefix cache. */
  adopts = true;
  /** Prompt, and the output tokens that were read back. */
  readonly tokens: number[];
  /** Number of output tokens that were passed to the constraint. */
  told = 0;
  /** The last mask request: the mask for the token after this many output tokens. */
  asked: { readonly answered: number; readonly mask: Promise<Uint32Array | undefined> } | undefined;
  /** Log probabilities of the prompt as far as they are read back; undefined when not requested. */
  readonly scores: (TokenLogprob | null)[] | undefined;
  /** Number of prompt tokens scored by submitted steps, the first one included. */
  scoring = 1;
  /** Undefined when drafts are not allowed. */
  lookup: PromptLookup | undefined;
  /** Undefined when drafts are not allowed or there is no draft model. */
  model: ModelGuess | undefined;
  readonly arrived: number;
  started = 0;
  firstToken = 0;
  #onEnd: (() => void) | undefined;
  readonly #text: AnswerText;
  readonly #endIds: ReadonlySet<number>;
  #pendingIds: number[] = [];
  #pendingLogprobs: TokenLogprob[] = [];
  readonly #events = new EventQueue();
  #scoresGiven = false;
  #begun = false;

  constructor(request: GenerateRequest, tokenizer: Tokenizer, now: number) {
    this.request = request;
    this.wants = wantsOf(request);
    this.tokens = [...request.prompt];
    this.arrived = now;
    this.#text = new AnswerText(tokenizer, request);
    this.#endIds = request.ignoreEnd ? new Set() : tokenizer.endIds;
    if (request.promptLogprobs) this.scores = [null];
  }

  /** Output tokens read back. */
  get answered(): number {
    return this.tokens.length - this.request.prompt.length;
  }

  /** Output tokens in events that the reader has not taken. */
  get unread(): number {
    return this.#events.tokens;
  }

  /** Called whenever the reader takes an event. */
  set onRead(listener: (() => void) | undefined) {
    this.#events.onRead = listener;
  }

  /** True while prompt tokens remain to be scored by later steps. */
  get isScoring(): boolean {
    return this.scores !== undefined && this.scoring < this.request.prompt.length;
  }

  /** With `progress`: emits one event when the evaluation of the prompt starts. */
  beginPrompt(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.reportPrompt(this.scheduled, this.started);
  }

  /** With `progress`: emits an event with the number of evaluated prompt tokens. */
  reportPrompt(evaluated: number, now: number): void {
    if (!this.request.progress || this.phase === 'done' || this.answered > 0) return;
    const processed = Math.min(evaluated, this.request.prompt.length);
    const cached = Math.min(this.cachedTokens, processed);
    this.#events.push({ type: 'prompt', processed, cached, ms: now - this.started });
  }

  /** Adds a token that was read back. Ends the sequence when it is the last one. */
  accept(id: number, now: number, logprob?: TokenLogprob): void {
    if (this.phase === 'done') return;
    if (this.firstToken === 0) this.firstToken = now;
    this.tokens.push(id);
    this.#pendingIds.push(id);
    if (logprob) this.#pendingLogprobs.push(logprob);
    const isEnd = this.#endIds.has(id);
    let text = isEnd ? this.#text.pushLast(id) : this.#text.push(id);
    const isFull = this.answered >= this.request.maxTokens;
    if (isFull && !isEnd && !this.#text.stopped) text += this.#text.flush();
    if (isEnd || isFull || this.#text.stopped) {
      this.#emit(text);
      this.#finish(isEnd || this.#text.stopped ? 'stop' : 'length', now);
    } else if (text !== '') {
      this.#emit(text);
    }
  }

  /** Adds the log probability of the next prompt token. */
  acceptScore(score: TokenLogprob): void {
    this.scores?.push(score);
  }

  /** Ends the sequence after the prompt, when no output is requested. */
  endPrompt(now: number): void {
    if (this.phase === 'done') return;
    this.firstToken = now;
    this.#emit('');
    this.#finish('length', now);
  }

  /** Resolves with the promise's result, or with undefined when the sequence ends first. One call at a time. */
  async unlessEnded<T>(promise: Promise<T>): Promise<T | undefined> {
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
    const prompt = this.#scoresGiven ? undefined : this.scores;
    const ids = this.#pendingIds;
    if (text === '' && ids.length === 0 && !prompt) return;
    const logprobs = this.request.logprobs === undefined ? {} : { logprobs: this.#pendingLogprobs };
    this.#events.push({ type: 'text', text, ids, ...logprobs, ...(prompt ? { prompt } : {}) });
    this.#scoresGiven = true;
    this.#pendingIds = [];
    this.#pendingLogprobs = [];
  }

  #finish(finishReason: 'stop' | 'length', now: number): void {
    const rest = this.#text.rest();
    if (rest !== '') this.#emit(rest);
    const usage: Usage = {
      prompt_tokens: this.request.prompt.length,
      completion_tokens: this.answered,
      cached_tokens: this.cachedTokens,
    };
    const timings = {
      queued_ms: this.started - this.arrived,
      prefill_ms: this.firstToken - this.started,
      decode_ms: now - this.firstToken,
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
