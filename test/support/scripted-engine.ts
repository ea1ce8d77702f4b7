import type { FillInTheMiddleTokens } from '../../src/engine/tokenizer/fill-in-the-middle.ts';
import type { PairEncoder } from '../../src/engine/ranking/pair-encoder.ts';
import type { ChatTemplate, EncodeOptions, Tokenizer } from '../../src/engine/tokenizer/types.ts';
import {
  type AdapterFacts,
  type Embeddings,
  type EmbedRequest,
  type Engine,
  EngineError,
  type EngineStats,
  type GenerateRequest,
  type GenerationEvent,
  type ModelInfo,
  type Ranking,
  type RankRequest,
  type ReplacedKernel,
} from '../../src/engine/types.ts';

const specials = ['<|im_start|>', '<|im_end|>', '<|endoftext|>'];
const fimSpecials = ['<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>', '<|repo_name|>', '<|file_sep|>'];

/** A token a byte, and three control tokens after them. */
export class ByteTokenizer implements Tokenizer {
  readonly kind = 'bytes';
  readonly vocabSize: number;
  readonly fim: FillInTheMiddleTokens | undefined;
  readonly bosId: number | undefined;
  readonly eosId = 257;
  readonly endIds = new Set([257, 258]);

  readonly #specials: readonly string[];

  constructor(bosId?: number, fim = false) {
    this.bosId = bosId;
    this.#specials = fim ? [...specials, ...fimSpecials] : specials;
    this.vocabSize = 256 + this.#specials.length;
    const [prefix, suffix, middle, repo, separator] = [259, 260, 261, 262, 263] as const;
    this.fim = fim ? { prefix, suffix, middle, repo, separator, pad: undefined } : undefined;
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    const ids: number[] = options.addSpecial && this.bosId !== undefined ? [this.bosId] : [];
    const parts = options.parseSpecial ? text.split(/(<\|\w+\|>)/) : [text];
    let end = 0;
    for (const part of parts) {
      const start = end;
      end += part.length;
      const isLiteral = options.literal?.some(([from, to]) => from < end && to > start);
      const special = options.parseSpecial && !isLiteral ? this.#specials.indexOf(part) : -1;
      if (special !== -1) ids.push(256 + special);
      else for (const byte of new TextEncoder().encode(part)) ids.push(byte);
    }
    return ids;
  }

  decode(ids: readonly number[], options: { special?: boolean } = {}): string {
    const bytes = ids.flatMap((id) =>
      id < 256 ? [id] : options.special ? [...new TextEncoder().encode(this.#specials[id - 256])] : [],
    );
    return new TextDecoder().decode(new Uint8Array(bytes));
  }

  tokenBytes = (id: number): Uint8Array => (id < 256 ? new Uint8Array([id]) : new Uint8Array());
  tokenText = (id: number): string => (id < 256 ? String.fromCharCode(id) : (this.#specials[id - 256] ?? ''));
  isControl = (id: number): boolean => id >= 256;

  stream() {
    const decoder = new TextDecoder();
    return {
      push: (id: number) => decoder.decode(this.tokenBytes(id), { stream: true }),
      flush: () => decoder.decode(),
    };
  }
}

/** ChatML that trims contents, as Llama's does. */
const trimmingChatMl: ChatTemplate = {
  source: 'scripted',
  render({ messages, addGenerationPrompt }) {
    const turns = messages.map((message) => {
      if (message.role === 'tool' && messages.length === 1)
        throw new Error('a tool message must follow a call');
      return `<|im_start|>${message.role}\n${String(message.content).trim()}<|im_end|>\n`;
    });
    return turns.join('') + (addGenerationPrompt ? '<|im_start|>assistant\n' : '');
  },
};

export interface Script {
  /** The pieces of text of an answer; `maxTokens` cuts it, a piece a token. */
  answer?: (request: GenerateRequest) => readonly string[];
  /** Before each piece. */
  delayMs?: number;
  /** The times that it reports of each answer. */
  timings?: { readonly queued_ms: number; readonly prefill_ms: number; readonly decode_ms: number };
  /** Awaited before the n-th piece: holds an answer until the test says so. */
  hold?: (piece: number) => Promise<void> | undefined;
  /** Thrown after so many pieces. */
  fail?: { after: number; error: Error };
  /** Prompt tokens in the prefix cache. */
  cached?: number;
  /** Requests at a time; the next one is refused with `queue_full`. */
  capacity?: number;
  contextLength?: number;
  bosId?: number;
  /** Has tokens to fill in the middle with. */
  fim?: boolean;
  chatTemplate?: ChatTemplate | undefined;
  /** Never answers and never notices an abort, as a hung device. */
  hang?: boolean;
  /** Makes embeddings of so many elements, and no text. */
  embeds?: number;
  /** Device memory that its model takes. */
  memoryBytes?: number;
  /** Ranks documents, and makes neither text nor embeddings. */
  ranks?: boolean;
}

/** An engine without a model: fixed texts, delays and failures, and a record of its requests. */
export class ScriptedEngine implements Engine {
  readonly model: ModelInfo;
  readonly adapter: AdapterFacts = {
    backend: 'none',
    vendor: 'test',
    description: 'scripted',
    software: true,
    features: [],
  };
  replacedKernels: readonly ReplacedKernel[] = [];
  unavailable: EngineError | undefined;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  readonly requests: GenerateRequest[] = [];
  readonly embedRequests: EmbedRequest[] = [];
  readonly rankRequests: RankRequest[] = [];
  readonly pairEncoder: PairEncoder | undefined;
  script: Script;
  running = 0;
  aborted = 0;
  /** Pieces handed out, over all requests. */
  produced = 0;
  closed = false;

  constructor(script: Script = {}) {
    this.script = script;
    this.tokenizer = new ByteTokenizer(script.bosId, script.fim);
    this.chatTemplate = 'chatTemplate' in script ? script.chatTemplate : trimmingChatMl;
    this.pairEncoder = script.ranks ? createScriptedPairs(this.tokenizer) : undefined;
    this.model = {
      id: 'scripted',
      architecture: 'script',
      kind: script.ranks ? 'rerank' : script.embeds === undefined ? 'generate' : 'embed',
      embeddingDimensions: script.embeds ?? 8,
      pooling: script.ranks ? 'rank' : script.embeds === undefined ? 'last' : 'mean',
      parameters: 1,
      quantization: 'F32',
      contextLength: script.contextLength ?? 4096,
      trainedContextLength: script.contextLength ?? 4096,
      vocabSize: this.tokenizer.vocabSize,
      digest: `sha256:${'ab'.repeat(32)}`,
      sizeBytes: 4,
    };
  }

  /** Refuses at the call, as the contract says. */
  generate(request: GenerateRequest): AsyncIterable<GenerationEvent> {
    const { contextLength = 4096 } = this.script;
    this.requireQueueSpace();
    if (request.prompt.length + request.maxTokens > contextLength) {
      throw new EngineError('context_length_exceeded', 'the scripted engine was asked for more than fits');
    }
    this.requests.push(request);
    this.running++;
    return this.#follow(request);
  }

  async *#follow(request: GenerateRequest): AsyncGenerator<GenerationEvent, void, undefined> {
    const { fail, delayMs = 0, hang, hold } = this.script;
    let whole = false;
    try {
      if (hang) await new Promise(() => {});
      const all = this.script.answer?.(request) ?? ['Hello', ', ', 'world', '!'];
      const pieces = all.slice(0, request.maxTokens);
      const { cached = 0 } = this.script;
      if (request.progress) {
        const { length } = request.prompt;
        yield { type: 'prompt', processed: cached, cached, ms: 0 };
        yield { type: 'prompt', processed: length, cached, ms: 1 };
      }
      for (const [index, text] of pieces.entries()) {
        if (fail?.after === index) throw fail.error;
        if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
        await hold?.(index);
        request.signal?.throwIfAborted();
        this.produced++;
        yield this.#text(request, text, index);
      }
      if (pieces.length === 0 && request.promptLogprobs) yield this.#text(request, '', 0);
      if (fail && fail.after >= pieces.length) throw fail.error;
      whole = true;
      yield {
        type: 'end',
        finishReason: pieces.length < all.length ? 'length' : 'stop',
        usage: {
          prompt_tokens: request.prompt.length,
          completion_tokens: pieces.length,
          cached_tokens: cached,
        },
        timings: this.script.timings ?? { queued_ms: 0, prefill_ms: 1, decode_ms: 1 },
      };
    } finally {
      this.running--;
      request.constraint?.close();
      if (!whole && fail === undefined) this.aborted++;
    }
  }

  /** Where log probabilities are asked for, the ids are those of the text; the likelier, the smaller the id. */
  #text(
    { logprobs, promptLogprobs, postSampling, prompt, visible }: GenerateRequest,
    text: string,
    index: number,
  ) {
    if (logprobs === undefined) return { type: 'text', text, ids: [index] } as const;
    const tokenLogprob = (id: number) => ({
      id,
      logprob: postSampling ? -Math.LN2 : -id / 64,
      top: postSampling
        ? [{ id: 97, logprob: -Math.LN2 }]
        : Array.from({ length: logprobs }, (_, rank) => ({ id: 97 + rank, logprob: -(97 + rank) / 64 })),
    });
    const ids = this.tokenizer.encode(text, { parseSpecial: visible !== undefined });
    return {
      type: 'text',
      text,
      ids,
      logprobs: ids.map(tokenLogprob),
      ...(promptLogprobs && index === 0
        ? { prompt: prompt.map((id, at) => (at === 0 ? null : tokenLogprob(id))) }
        : {}),
    } as const;
  }

  /** A vector that points where the first two tokens say, in each input's own plane. */
  async embed(request: EmbedRequest): Promise<Embeddings> {
    const { fail, hang, delayMs = 0 } = this.script;
    this.requireQueueSpace();
    this.embedRequests.push(request);
    this.running++;
    try {
      if (hang) await new Promise(() => {});
      if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
      request.signal?.throwIfAborted();
      if (fail) throw fail.error;
      const embeddings = request.inputs.map(([first = 0, second = 0]) => {
        const vector = new Float32Array(request.dimensions ?? this.model.embeddingDimensions);
        const length = Math.hypot(first + 1, second);
        vector.set([(first + 1) / length, second / length].slice(0, vector.length));
        return vector;
      });
      return { embeddings, promptTokens: request.inputs.reduce((sum, { length }) => sum + length, 0) };
    } finally {
      this.running--;
    }
  }

  /** The score of a document is the number of its tokens that are in the query, less two. */
  async rank(request: RankRequest): Promise<Ranking> {
    const { fail, hang, delayMs = 0 } = this.script;
    this.requireQueueSpace();
    this.rankRequests.push(request);
    this.running++;
    try {
      if (hang) await new Promise(() => {});
      if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
      request.signal?.throwIfAborted();
      if (fail) throw fail.error;
      const scores = request.pairs.map(({ before, document }) => {
        const query = new Set(before);
        return document.filter((id) => query.has(id)).length - 2;
      });
      const promptTokens = request.pairs.reduce((sum, { length }) => sum + length, 0);
      return { scores, promptTokens };
    } finally {
      this.running--;
    }
  }

  requireQueueSpace(): void {
    const { capacity } = this.script;
    if (capacity !== undefined && this.running >= capacity)
      throw new EngineError('queue_full', 'the queue is full');
  }

  stats(): EngineStats {
    return {
      slots: this.script.capacity ?? 8,
      running: this.running,
      queued: 0,
      completions: 0,
      embeddings: 0,
      rankedDocuments: 0,
      promptTokens: 0,
      completionTokens: 0,
      cachedTokens: 0,
      deviceLosses: 0,
      pages: { total: 0, free: 0, cached: 0 },
      pageTokens: 32,
      stalledReaders: 0,
      preemptions: 0,
      memoryBytes: this.script.memoryBytes ?? 4096,
      speculation: { drafted: 0, accepted: 0 },
    };
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

/** A query, a token that is in no text, and the document. */
const createScriptedPairs = (tokenizer: Tokenizer): PairEncoder => ({
  encodeQuery: (query) => ({ before: [...tokenizer.encode(query), 0], after: [] }),
  encodeDocument: (document) => tokenizer.encode(document),
});
