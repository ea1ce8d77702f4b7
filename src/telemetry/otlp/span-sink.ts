import {
  type HrTime,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { type RackId, rackOf, type TraceSink, type TraceSpan } from '../../tracing/index.ts';
import { toContentAttributes } from '../content.ts';
import { errorTypeOf } from '../error-type.ts';
import { describeSpan, spanKindOf } from '../spans.ts';
import { parseTraceparent, type TraceContext, formatTraceparent } from '../trace-context.ts';

export interface SpanSinkOptions {
  readonly tracer: Tracer;
  readonly contentAllowed: (rack: RackId) => boolean;
  readonly redact: (text: string, rack: RackId) => string;
}

const spanKinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

/** Exports an OpenTelemetry span for each unit of work. */
export class SpanSink implements TraceSink {
  readonly #options: SpanSinkOptions;
  readonly #spans = new WeakMap<TraceSpan, { readonly span: Span; readonly hasContent: boolean }>();
  /** Spans whose content is not redacted yet. */
  readonly #pendingRedactions = new Set<() => void>();

  constructor(options: SpanSinkOptions) {
    this.#options = options;
  }

  readonly wantsTranscript = (rack: RackId): boolean => this.#options.contentAllowed(rack);

  readonly onStart = (traceSpan: TraceSpan): void => {
    const { tracer, contentAllowed } = this.#options;
    const parent = this.#parentOf(traceSpan);
    const context = parent
      ? trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: !traceSpan.parent })
      : ROOT_CONTEXT;
    const startTime = toHrTime(traceSpan.startedAt.getTime());
    const span = tracer.startSpan(
      traceSpan.kind,
      { kind: spanKinds[spanKindOf(traceSpan)], startTime },
      context,
    );
    // Decided at the start: content recorded before it was allowed is not exported.
    this.#spans.set(traceSpan, {
      span,
      hasContent: traceSpan.transcript !== undefined && contentAllowed(rackOf(traceSpan)),
    });
    traceSpan.traceparent = formatTraceparent(span.spanContext());
  };

  readonly onEnd = (traceSpan: TraceSpan): void => {
    const { span, hasContent } = this.#spans.get(traceSpan) ?? {};
    if (!span?.isRecording()) return;
    const { name, attributes } = describeSpan(traceSpan);
    span.updateName(name).setAttributes(attributes);
    const { result, totalMs = 0 } = traceSpan;
    const endTime = toHrTime(traceSpan.startedAt.getTime() + totalMs);
    if (result?.outcome === 'failed') {
      const message = errorTypeOf(result);
      span.setStatus({ code: SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) });
    }
    if (hasContent && traceSpan.transcript?.length) this.#redactLater(traceSpan, span, endTime);
    else span.end(endTime);
  };

  /** Redacts and ends the remaining spans at once. */
  flush(): void {
    for (const redactAndEnd of this.#pendingRedactions) redactAndEnd();
  }

  #parentOf(traceSpan: TraceSpan): TraceContext | undefined {
    if (!traceSpan.parent) return parseTraceparent(traceSpan.traceparent);
    return this.#spans.get(traceSpan.parent)?.span.spanContext();
  }

  /** Redacts content and ends the span after the current work, because patterns over long texts are slow. */
  #redactLater(traceSpan: TraceSpan, span: Span, endTime: HrTime): void {
    const redactAndEnd = () => {
      if (!this.#pendingRedactions.delete(redactAndEnd)) return;
      const { contentAllowed, redact } = this.#options;
      const rack = rackOf(traceSpan);
      try {
        if (contentAllowed(rack))
          span.setAttributes(toContentAttributes(traceSpan, (text) => redact(text, rack)));
      } catch {
        // Content that cannot be redacted is not exported.
        span.setAttribute('lathe.content.dropped', true);
      }
      span.end(endTime);
    };
    this.#pendingRedactions.add(redactAndEnd);
    setImmediate(redactAndEnd);
  }
}

/** Converts milliseconds since 1970 to OpenTelemetry's time format. */
function toHrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
