/**
 * Attributes of spans, for the observe feed, telemetry, metrics and the recorder. Times are milliseconds; an unknown
 * value is undefined, never zero.
 */

/** A completion of the resident model, on any wire. */
export interface CompletionAttributes {
  readonly wire:
    | 'chat'
    | 'completions'
    | 'responses'
    | 'messages'
    | 'ollama'
    | 'llama-cpp'
    | 'embeddings'
    | 'rerank';
  readonly operation: 'chat' | 'text_completion' | 'embeddings' | 'rerank';
  /** As `acts.by` of src/store/schema.ts. */
  readonly by: string;
  stream: boolean;
  /** Model name in the request. */
  requestedModel?: string;
  /** Id of the model that answers. */
  model?: string;
  /** Number of choices (`n`), of embedded texts, or of ranked documents. */
  answers?: number;
  promptTokens?: number;
  cachedTokens?: number;
  completionTokens?: number;
  /** Time from the arrival of the request to the first token. */
  firstTokenMs?: number;
  queuedMs?: number;
  prefillMs?: number;
  decodeMs?: number;
  /** `stop`, `length` or `tool_calls`; with several choices, of the last one. */
  finish?: string;
}

/** An agent task. */
export interface TaskAttributes {
  readonly agent: string;
  readonly by?: string;
  readonly engine: 'resident' | 'gateway';
  readonly model: string;
  turns?: number;
  promptTokens?: number;
  completionTokens?: number;
}

/** A segment of a workflow run: from the start or a gate to the next gate or the end. */
export interface RunAttributes {
  readonly workflow: string;
}

/** A step of a workflow run. */
export interface StepAttributes {
  readonly workflow: string;
  readonly step: string;
  readonly agent?: string;
  attempts?: number;
}

/** One turn of an agent: one answer of its model. */
export interface TurnAttributes {
  readonly agent: string;
  readonly engine: 'resident' | 'gateway';
  readonly model: string;
  promptTokens?: number;
  completionTokens?: number;
  /** Time from the request to the model to the first token. */
  firstTokenMs?: number;
  finish?: string;
  /** Number of tool calls in the answer. */
  calls?: number;
}

/** One call of a tool. */
export interface ToolCallAttributes {
  readonly tool: string;
  readonly agent: string;
  readonly callId: string;
  /** `read`: without side effects. */
  readonly toolKind: 'read' | 'change' | 'unknown';
  /** Whether a change was staged for approval. */
  staged?: boolean;
}

/** A request at the gateway. */
export interface GatewayAttributes {
  readonly wire: string;
  readonly operation: 'chat' | 'text_completion' | 'embeddings';
  stream: boolean;
  keyId?: string;
  accountId?: string;
  requestedModel?: string;
  effectiveModel?: string;
  provider?: string;
  /** From the arrival until the first provider was asked. */
  admissionMs?: number;
  promptTokens?: number;
  cachedTokens?: number;
  completionTokens?: number;
  costNanousd?: bigint;
  firstTokenMs?: number;
  finish?: string;
  /** The answer came from the cache of answers. */
  cached?: boolean;
}

export interface SpanAttributes {
  completion: CompletionAttributes;
  task: TaskAttributes;
  run: RunAttributes;
  step: StepAttributes;
  turn: TurnAttributes;
  tool: ToolCallAttributes;
  gateway: GatewayAttributes;
}
export type TraceSpanKind = keyof SpanAttributes;

/**
 * Result of a span. `abandoned`: the client disconnected. `refused`: the request was rejected, and nothing was done.
 */
export interface SpanResult {
  readonly outcome: 'ok' | 'refused' | 'failed' | 'abandoned';
  /** HTTP status of the response, for HTTP requests. */
  readonly status?: number;
  /** Stable snake_case reason when the outcome is not `ok`. */
  readonly code?: string;
}

/** One entry of a transcript, in order. */
export interface TranscriptEntry {
  readonly at: Date;
  readonly role: 'system' | 'user' | 'assistant' | 'reasoning' | 'tool_call' | 'tool';
  readonly text: string;
  /** For example the name of the tool. */
  readonly name?: string;
}

/** Racks: kinds of conversation content that the recorder can store. */
export const racks = ['agent', 'completions', 'workflows', 'gateway', 'external'] as const;
export type RackId = (typeof racks)[number];
