import type { Ending, FactsOf, RackId, Said, WorkKind } from './work.ts';

/** Receives spans. It is called synchronously while the work runs, so it must not throw or block. */
export interface Sink {
  /** Whether it wants transcripts of a rack. Called when a span starts; if no sink wants one, none is collected. */
  readonly keepsTexts?: (rack: RackId) => boolean;
  readonly began?: (work: Work) => void;
  readonly ended?: (work: Work) => void;
}

export interface WorkOptions {
  readonly parent?: Work | undefined;
  /** W3C trace context of the request. */
  readonly traceparent?: string | undefined;
  readonly now?: Date;
}

/** An operation with a start and an end. Attributes are set while it runs; sinks read them when it ends. */
export class Work<K extends WorkKind = WorkKind> {
  readonly kind: K;
  /** Id of the request, task, run or tool call. Unique within its kind, except for steps and run segments. */
  readonly id: string;
  readonly facts: FactsOf[K];
  readonly parent: Work | undefined;
  readonly startedAt: Date;
  /** `performance.now()` at the start. */
  readonly begun = performance.now();
  /** Trace context of the request. When tracing is on, the context of this span, for outgoing requests. */
  traceparent: string | undefined;
  /** Conversation content; undefined when no sink wants it. */
  readonly said: Said[] | undefined;
  ending: Ending | undefined;
  /** Duration from start to end. */
  totalMs: number | undefined;
  readonly #sinks: readonly Sink[];

  constructor(
    { kind, id, facts }: { kind: K; id: string; facts: FactsOf[K] },
    { parent, traceparent, now = new Date() }: WorkOptions,
    sinks: readonly Sink[],
  ) {
    this.kind = kind;
    this.id = id;
    this.facts = facts;
    this.parent = parent;
    this.traceparent = traceparent ?? parent?.traceparent;
    this.startedAt = now;
    this.#sinks = sinks;
    const rack = rackOf(this);
    this.said = sinks.some((sink) => sink.keepsTexts?.(rack) === true) ? [] : undefined;
    for (const sink of sinks) sink.began?.(this);
  }

  /** Adds a transcript entry. The text is built only when a sink wants it. */
  say(role: Said['role'], text: () => string, name?: string): void {
    this.said?.push({ at: new Date(), role, text: text(), ...(name === undefined ? {} : { name }) });
  }

  /** Records the time of the first token; later calls change nothing. */
  firstToken(): void {
    const facts = this.facts as { firstTokenMs?: number };
    facts.firstTokenMs ??= performance.now() - this.begun;
  }

  /** Ends the span; later calls change nothing. */
  end(ending: Ending): void {
    if (this.ending) return;
    this.ending = ending;
    this.totalMs = performance.now() - this.begun;
    for (const sink of this.#sinks) sink.ended?.(this);
  }
}

/** The rack of a span. Turns and tool calls belong to the rack of their task or run. */
export function rackOf({ kind, parent }: Work): RackId {
  if (kind === 'completion') return 'completions';
  if (kind === 'gateway') return 'gateway';
  if (kind === 'run' || kind === 'step') return 'workflows';
  return parent ? rackOf(parent) : 'agent';
}

/** Starts spans and delivers them to its sinks. */
export class Watch {
  readonly #sinks: readonly Sink[];

  constructor(sinks: readonly Sink[] = []) {
    this.#sinks = sinks;
  }

  begin<K extends WorkKind>(kind: K, id: string, facts: FactsOf[K], options: WorkOptions = {}): Work<K> {
    return new Work({ kind, id, facts }, options, this.#sinks);
  }
}

/** Tracer without sinks. */
export const unwatched = new Watch();
