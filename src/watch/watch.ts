import type { Ending, FactsOf, RackId, Said, WorkKind } from './work.ts';

/** Somebody who watches. Nothing that it does may throw or take time: it is called in the middle of the work. */
export interface Sink {
  /** Whether it keeps what is said in such work: else nobody collects it. Asked when the work begins. */
  readonly keepsTexts?: (rack: RackId) => boolean;
  readonly began?: (work: Work) => void;
  readonly ended?: (work: Work) => void;
}

export interface WorkOptions {
  readonly parent?: Work | undefined;
  /** W3C trace context of the request that asks for it. */
  readonly traceparent?: string | undefined;
  readonly now?: Date;
}

/** Something that is being done. Its facts become known while it lasts; sinks read them when it ends. */
export class Work<K extends WorkKind = WorkKind> {
  readonly kind: K;
  /** Of the request, task, run, tool call; unique among its kind but for steps and segments. */
  readonly id: string;
  readonly facts: FactsOf[K];
  readonly parent: Work | undefined;
  readonly startedAt: Date;
  /** `performance.now()` at the beginning. */
  readonly begun = performance.now();
  /** Of the request that asked for it; where somebody traces, of this work itself, for requests that it makes. */
  traceparent: string | undefined;
  /** What was said, where somebody keeps it. */
  readonly said: Said[] | undefined;
  ending: Ending | undefined;
  /** From beginning to end. */
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

  /** The text is only made where somebody keeps it. */
  say(role: Said['role'], text: () => string, name?: string): void {
    this.said?.push({ at: new Date(), role, text: text(), ...(name === undefined ? {} : { name }) });
  }

  /** Notes when the first piece of the answer came; later ones do not count. */
  firstToken(): void {
    const facts = this.facts as { firstTokenMs?: number };
    facts.firstTokenMs ??= performance.now() - this.begun;
  }

  /** Once; what comes later is not heard. */
  end(ending: Ending): void {
    if (this.ending) return;
    this.ending = ending;
    this.totalMs = performance.now() - this.begun;
    for (const sink of this.#sinks) sink.ended?.(this);
  }
}

/** The rack that work belongs to: an agent's turns and tools go with the task or the run that they are part of. */
export function rackOf({ kind, parent }: Work): RackId {
  if (kind === 'completion') return 'completions';
  if (kind === 'gateway') return 'gateway';
  if (kind === 'run' || kind === 'step') return 'workflows';
  return parent ? rackOf(parent) : 'agent';
}

/** Where the planes tell what they do. */
export class Watch {
  readonly #sinks: readonly Sink[];

  constructor(sinks: readonly Sink[] = []) {
    this.#sinks = sinks;
  }

  begin<K extends WorkKind>(kind: K, id: string, facts: FactsOf[K], options: WorkOptions = {}): Work<K> {
    return new Work({ kind, id, facts }, options, this.#sinks);
  }
}

/** Nobody watches. */
export const unwatched = new Watch();
