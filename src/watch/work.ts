/**
 * What the planes do, as they tell it to whoever watches: the feed of the observe plane, telemetry, metrics, the
 * recorder. Times are milliseconds; what is not known stays undefined and is never a zero.
 */

/** An answer of the resident model to a request, on any wire. */
export interface CompletionFacts {
  readonly wire:
    | 'chat'
    | 'completions'
    | 'responses'
    | 'messages'
    | 'ollama'
    | 'llama-cpp'
    | 'embeddings'
    | 'rerank';
  readonly operation: 'chat' | 'text_completion' | 'embeddings';
  /** As `acts.by` of src/store/schema.ts. */
  readonly by: string;
  stream: boolean;
  /** As the request names it. */
  requestedModel?: string;
  /** The id of the one that answers. */
  model?: string;
  /** Answers (`n`), or texts of an embedding. */
  answers?: number;
  promptTokens?: number;
  cachedTokens?: number;
  completionTokens?: number;
  /** From the arrival of the request to the first piece of its answer. */
  firstTokenMs?: number;
  queuedMs?: number;
  prefillMs?: number;
  decodeMs?: number;
  /** `stop`, `length`, `tool_calls`; of several answers the last one's. */
  finish?: string;
}

/** An agent at work on a prompt by itself. */
export interface TaskFacts {
  readonly agent: string;
  readonly by?: string;
  readonly engine: 'resident' | 'gateway';
  readonly model: string;
  turns?: number;
  promptTokens?: number;
  completionTokens?: number;
}

/** A segment of a workflow's run: from its start, or from a gate, to its end or the next gate. */
export interface RunFacts {
  readonly workflow: string;
}

/** A step of a run. */
export interface StepFacts {
  readonly workflow: string;
  readonly step: string;
  readonly agent?: string;
  attempts?: number;
}

/** One answer of an agent's model. */
export interface TurnFacts {
  readonly agent: string;
  readonly engine: 'resident' | 'gateway';
  readonly model: string;
  promptTokens?: number;
  completionTokens?: number;
  /** From asking the model to the first piece of its answer. */
  firstTokenMs?: number;
  finish?: string;
  /** Tools that it called. */
  calls?: number;
}

/** One call of a tool. */
export interface ToolFacts {
  readonly tool: string;
  readonly agent: string;
  readonly callId: string;
  /** `read`: harmless. */
  readonly toolKind: 'read' | 'change' | 'unknown';
  /** The change waits for a person. */
  staged?: boolean;
}

/** A request at the gateway. */
export interface GatewayFacts {
  readonly wire: string;
  readonly operation: 'chat' | 'text_completion' | 'embeddings';
  stream: boolean;
  keyId?: string;
  accountId?: string;
  requestedModel?: string;
  effectiveModel?: string;
  provider?: string;
  promptTokens?: number;
  cachedTokens?: number;
  completionTokens?: number;
  costNanousd?: bigint;
  firstTokenMs?: number;
  finish?: string;
}

export interface FactsOf {
  completion: CompletionFacts;
  task: TaskFacts;
  run: RunFacts;
  step: StepFacts;
  turn: TurnFacts;
  tool: ToolFacts;
  gateway: GatewayFacts;
}
export type WorkKind = keyof FactsOf;

/** How it ended. `abandoned`: whoever asked went away. `refused`: nothing was done, and that is the asker's doing. */
export interface Ending {
  readonly outcome: 'ok' | 'refused' | 'failed' | 'abandoned';
  /** Of HTTP, where it was asked over HTTP. */
  readonly status?: number;
  /** A stable snake_case reason where it is not `ok`. */
  readonly code?: string;
}

/** Something that was said in it, in order: only there where somebody keeps it. */
export interface Said {
  readonly at: Date;
  readonly role: 'system' | 'user' | 'assistant' | 'reasoning' | 'tool_call' | 'tool';
  readonly text: string;
  /** Of the tool, for example. */
  readonly name?: string;
}

/** What is kept of the texts of a kind of work. */
export const racks = ['agent', 'completions', 'workflows', 'gateway', 'external'] as const;
export type RackId = (typeof racks)[number];
