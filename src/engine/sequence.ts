import type { GenerateRequest, GenerationEvent, TokenLogprob, Usage } from './types.ts';
import type { Tokenizer } from './tokenizer/types.ts';
import type { ModelGuess } from './draft-model.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import { AnswerText } from './answer-text.ts';
import { EventQueue } from './event-queue.ts';
import { wantsOf } from './step.ts';

/** Where a sequence stands. Waiting, parked and thinking ones hold nothing; running ones hold a slot and pages. */
export type Phase = 'waiting' | 'prefill' | 'decode' | 'parked' | 'thinking' | 'done';

/** One request from its arrival to its last event. */
export class Sequence {
  readonly request: GenerateRequest;
  phase: Phase = 'waiting';
  /** Its place in the order of arrival. */
  order = 0;
  slot = -1;
  /** Of each sample, see `wantsOf`. */
  readonly wants: number;
  /** Pages of the KV cache, by position. */
  pages: number[] = [];
  /** Of those, how many the GPU has in its page table. */
  tabled = 0;
  /** How often it gave its place back, for lack of pages, of a reader or of a mask; results of steps before that are stale. */
  departures = 0;
  /** Tokens whose keys and values are written, or will be by a step already submitted; drafts do not count. */
  scheduled = 0;
  /** Answer tokens asked for by submitted steps, read back or not; drafts do not count. */
  drawn = 0;
  /** Prompt tokens that came from the prefix cache. */
  cachedTokens = 0;
  /** Tokens that came from there since it has its place. */
  adopted = 0;
  /** Whether it may take any. */
  adopts = true;
  /** Prompt, and the answer's tokens as far as they are read back. */
  readonly tokens: number[];
  /** Of the answer's tokens, how many the constraint was told. */
  told = 0;
  /** What the constraint was asked last: what may follow so many tokens of the answer. */
  asked: { readonly answered: number; readonly mask: Promise<Uint32Array | undefined> } | undefined;
  /** Log probabilities of the prompt as far as they are read back, where they are asked for. */
  readonly scores: (TokenLogprob | null)[] | undefined;
  /** Of those, how many steps already submitted will have given. */
  scoring = 1;
  /** Absent where drafts are not allowed. */
  lookup: PromptLookup | undefined;
  /** Likewise, and where no other model drafts. */
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

  /** Answer tokens read back. */
  get answered(): number {
    return this.tokens.length - this.request.prompt.length;
  }

  /** Answer tokens that the reader could have had and has not. */
  get unread(): number {
    return this.#events.tokens;
  }

  /** Told whenever the reader takes an event. */
  set onRead(listener: (() => void) | undefined) {
    this.#events.onRead = listener;
  }

  /** Prompt tokens are still to be scored by steps that are not submitted yet. */
  get isScoring(): boolean {
    return this.scores !== undefined && this.scoring < this.request.prompt.length;
  }

  /** With `progress`: told once, when the prompt is about to be evaluated. */
  beginPrompt(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.reportPrompt(this.scheduled, this.started);
  }

  /** With `progress`: so many tokens of the text are evaluated. */
  reportPrompt(evaluated: number, now: number): void {
    if (!this.request.progress || this.phase === 'done' || this.answered > 0) return;
    const processed = Math.min(evaluated, this.request.prompt.length);
    const cached = Math.min(this.cachedTokens, processed);
    this.#events.push({ type: 'prompt', processed, cached, ms: now - this.started });
  }

  /** A token was read back. Ends the sequence when it is the last. */
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

  /** Of the prompt's next token. */
  acceptScore(score: TokenLogprob): void {
    this.scores?.push(score);
  }

  /** The prompt is computed, and nothing is to follow. */
  endPrompt(now: number): void {
    if (this.phase === 'done') return;
    this.firstToken = now;
    this.#emit('');
    this.#finish('length', now);
  }

  /** What a promise gives, or undefined as soon as the sequence is over; one at a time. */
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

  /** The events as they come; throws what `fail` was given. */
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
      // It is over either way, and nobody is there to be told.
    }
  }
}
