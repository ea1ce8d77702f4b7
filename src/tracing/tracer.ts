import type {
  SpanResult,
  SpanAttributes,
  RackId,
  TranscriptEntry,
  TraceSpanKind,
} from './span-attributes.ts';

/** Receives spans. It is called synchronously while the work runs, so it must not throw or block. */
export interface TraceSink {
  /** Whether it wants transcripts of a rack. Called when a span starts; if no sink wants one, none is collected. */
  readonly wantsTranscript?: (rack: RackId) => boolean;
  readonly onStart?: (work: TraceSpan) => void;
  readonly onEnd?: (work: TraceSpan) => void;
}

export interface SpanOptions {
  readonly parent?: TraceSpan | undefined;
  /** W3C trace context of the request. */
  readonly traceparent?: string | undefined;
  readonly now?: Date;
}

/** An operation with a start and an end. Attributes are set while it runs; sinks read them when it ends. */
export class TraceSpan<K extends TraceSpanKind = TraceSpanKind> {
  readonly kind: K;
  /** Id of the request, task, run or tool call. Unique within its kind, except for steps and run segments. */
  readonly id: string;
  readonly attributes: SpanAttributes[K];
  readonly parent: TraceSpan | undefined;
  readonly startedAt: Date;
  /** `performance.now()` at the start. */
  readonly startMs = performance.now();
  /** Trace context of the request. When tracing is on, the context of this span, for outgoing requests. */
  traceparent: string | undefined;
  /** Conversation content; undefined when no sink wants it. */
  readonly transcript: TranscriptEntry[] | undefined;
  result: SpanResult | undefined;
  /** Duration from start to end. */
  totalMs: number | undefined;
  readonly #sinks: readonly TraceSink[];

  constructor(
    { kind, id, attributes }: { kind: K; id: string; attributes: SpanAttributes[K] },
    { parent, traceparent, now = new Date() }: SpanOptions,
    sinks: readonly TraceSink[],
  ) {
    this.kind = kind;
    this.id = id;
    this.attributes = attributes;
    this.parent = parent;
    this.traceparent = traceparent ?? parent?.traceparent;
    this.startedAt = now;
    this.#sinks = sinks;
    const rack = rackOf(this);
    this.transcript = sinks.some((sink) => sink.wantsTranscript?.(rack) === true) ? [] : undefined;
    for (const sink of sinks) sink.onStart?.(this);
  }

  /** Adds a transcript entry. The text is built only when a sink wants it. */
  addTranscriptEntry(role: TranscriptEntry['role'], text: () => string, name?: string): void {
    this.transcript?.push({ at: new Date(), role, text: text(), ...(name === undefined ? {} : { name }) });
  }

  /** Records the time of the first token; later calls change nothing. */
  markFirstToken(): void {
    const attributes = this.attributes as { firstTokenMs?: number };
    attributes.firstTokenMs ??= performance.now() - this.startMs;
  }

  /** Ends the span; later calls change nothing. */
  end(result: SpanResult): void {
    if (this.result) return;
    this.result = result;
    this.totalMs = performance.now() - this.startMs;
    for (const sink of this.#sinks) sink.onEnd?.(this);
  }
}

/** The rack of a span. Turns and tool calls belong to the rack of their task or run. */
export function rackOf({ kind, parent }: TraceSpan): RackId {
  if (kind === 'completion') return 'completions';
  if (kind === 'gateway') return 'gateway';
  if (kind === 'run' || kind === 'step') return 'workflows';
  return parent ? rackOf(parent) : 'agent';
}

/** Starts spans and delivers them to its sinks. */
export class Tracer {
  readonly #sinks: readonly TraceSink[];

  constructor(sinks: readonly TraceSink[] = []) {
    this.#sinks = sinks;
  }

  startSpan<K extends TraceSpanKind>(
    kind: K,
    id: string,
    attributes: SpanAttributes[K],
    options: SpanOptions = {},
  ): TraceSpan<K> {
    return new TraceSpan({ kind, id, attributes }, options, this.#sinks);
  }
}

/** Tracer without sinks. */
export const noopTracer = new Tracer();
