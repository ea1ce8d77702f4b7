import type { GenerateRequest, GenerationEvent, Usage } from './types.ts';
import type { Tokenizer, TokenStream } from './tokenizer/types.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import { StopMatcher } from './stop-matcher.ts';

/** Where a sequence stands. Waiting ones hold nothing; running ones hold a slot and pages. */
export type Phase = 'waiting' | 'prefill' | 'decode' | 'done';

/** One request from its arrival to its last event. */
export class Sequence {
  readonly request: GenerateRequest;
  phase: Phase = 'waiting';
  slot = -1;
  /** Pages of the KV cache, by position. */
  pages: number[] = [];
  /** Of those, how many the GPU has in its page table. */
  tabled = 0;
  /** How often it had to give its place back; results of steps before that are stale. */
  preemptions = 0;
  /** Tokens whose keys and values are written, or will be by a step already submitted; drafts do not count. */
  scheduled = 0;
  /** Answer tokens asked for by submitted steps, read back or not; drafts do not count. */
  drawn = 0;
  /** Prompt tokens that came from the prefix cache. */
  cachedTokens = 0;
  /** Prompt, and the answer's tokens as far as they are read back. */
  readonly tokens: number[];
  /** Absent where drafts are not allowed. */
  lookup: PromptLookup | undefined;
  readonly arrived: number;
  started = 0;
  firstToken = 0;
  readonly #stream: TokenStream;
  readonly #stop: StopMatcher;
  readonly #endIds: ReadonlySet<number>;
  #pendingIds: number[] = [];
  readonly #events: GenerationEvent[] = [];
  #failure: { error: unknown } | undefined;
  #wake: (() => void) | undefined;

  constructor(request: GenerateRequest, tokenizer: Tokenizer, now: number) {
    this.request = request;
    this.tokens = [...request.prompt];
    this.arrived = now;
    this.#stream = tokenizer.stream();
    this.#stop = new StopMatcher(request.stop);
    this.#endIds = request.ignoreEnd ? new Set() : tokenizer.endIds;
  }

  /** Answer tokens read back. */
  get answered(): number {
    return this.tokens.length - this.request.prompt.length;
  }

  /** A token was read back. Ends the sequence when it is the last. */
  accept(id: number, now: number): void {
    if (this.phase === 'done') return;
    if (this.firstToken === 0) this.firstToken = now;
    this.tokens.push(id);
    if (this.#endIds.has(id)) {
      this.#emit(this.#stop.push(this.#stream.flush()), [id]);
      this.#finish('stop', now);
      return;
    }
    const text = this.#stop.push(this.#stream.push(id));
    this.#pendingIds.push(id);
    if (this.#stop.stopped) {
      this.#emit(text, []);
      this.#finish('stop', now);
    } else if (this.answered >= this.request.maxTokens) {
      this.#emit(text + this.#stop.push(this.#stream.flush()), []);
      this.#finish(this.#stop.stopped ? 'stop' : 'length', now);
    } else if (text !== '') {
      this.#emit(text, []);
    }
  }

  fail(error: unknown): void {
    if (this.phase === 'done') return;
    this.phase = 'done';
    this.#failure = { error };
    this.#signal();
  }

  /** The events as they come; throws what `fail` was given. */
  async *events(): AsyncGenerator<GenerationEvent, void, undefined> {
    for (;;) {
      const next = this.#events.shift();
      if (next) {
        yield next;
        if (next.type === 'end') return;
      } else if (this.#failure) {
        throw this.#failure.error;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  #emit(text: string, ids: readonly number[]): void {
    const all = [...this.#pendingIds, ...ids];
    this.#pendingIds = [];
    if (text === '' && all.length === 0) return;
    this.#events.push({ type: 'text', text, ids: all });
    this.#signal();
  }

  #finish(finishReason: 'stop' | 'length', now: number): void {
    const rest = this.#stop.flush();
    if (rest !== '') this.#emit(rest, []);
    this.phase = 'done';
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
    this.#events.push({ type: 'end', finishReason, usage, timings });
    this.#signal();
  }

  #signal(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}
