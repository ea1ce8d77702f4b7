import {
  type HrTime,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { type RackId, rackOf, type Sink, type Work } from '../../watch/index.ts';
import { contentOf } from '../content.ts';
import { errorTypeOf } from '../endings.ts';
import { spanFacts, spanKind } from '../spans.ts';
import { readTraceparent, type TraceContext, traceparentOf } from '../trace-context.ts';

export interface SpanSinkOptions {
  readonly tracer: Tracer;
  readonly contentAllowed: (rack: RackId) => boolean;
  readonly redact: (text: string, rack: RackId) => string;
}

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

/** Exports an OpenTelemetry span for each unit of work. */
export class SpanSink implements Sink {
  readonly #options: SpanSinkOptions;
  readonly #spans = new WeakMap<Work, { readonly span: Span; readonly content: boolean }>();
  /** Spans whose content is not redacted yet. */
  readonly #unread = new Set<() => void>();

  constructor(options: SpanSinkOptions) {
    this.#options = options;
  }

  readonly keepsTexts = (rack: RackId): boolean => this.#options.contentAllowed(rack);

  readonly began = (work: Work): void => {
    const { tracer, contentAllowed } = this.#options;
    const parent = this.#parentOf(work);
    const context = parent
      ? trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: !work.parent })
      : ROOT_CONTEXT;
    const startTime = timeOf(work.startedAt.getTime());
    const span = tracer.startSpan(work.kind, { kind: kinds[spanKind(work)], startTime }, context);
    // Decided at the start: content recorded before it was allowed is not exported.
    this.#spans.set(work, { span, content: work.said !== undefined && contentAllowed(rackOf(work)) });
    work.traceparent = traceparentOf(span.spanContext());
  };

  readonly ended = (work: Work): void => {
    const { span, content } = this.#spans.get(work) ?? {};
    if (!span?.isRecording()) return;
    const { name, attributes } = spanFacts(work);
    span.updateName(name).setAttributes(attributes);
    const { ending, totalMs = 0 } = work;
    const endTime = timeOf(work.startedAt.getTime() + totalMs);
    if (ending?.outcome === 'failed') {
      const message = errorTypeOf(ending);
      span.setStatus({ code: SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) });
    }
    if (content && work.said?.length) this.#readLater(work, span, endTime);
    else span.end(endTime);
  };

  /** Redacts and ends the remaining spans at once. */
  finish(): void {
    for (const read of this.#unread) read();
  }

  #parentOf(work: Work): TraceContext | undefined {
    if (!work.parent) return readTraceparent(work.traceparent);
    return this.#spans.get(work.parent)?.span.spanContext();
  }

  /** Redacts content and ends the span after the current work, because patterns over long texts are slow. */
  #readLater(work: Work, span: Span, endTime: HrTime): void {
    const read = () => {
      if (!this.#unread.delete(read)) return;
      const { contentAllowed, redact } = this.#options;
      const rack = rackOf(work);
      try {
        if (contentAllowed(rack)) span.setAttributes(contentOf(work, (text) => redact(text, rack)));
      } catch {
        // Content that cannot be redacted is not exported.
        span.setAttribute('lathe.content.dropped', true);
      }
      span.end(endTime);
    };
    this.#unread.add(read);
    setImmediate(read);
  }
}

/** Converts milliseconds since 1970 to OpenTelemetry's time format. */
function timeOf(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
