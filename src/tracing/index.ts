/** Spans of the work that the planes do, and the sinks that receive them. Lowest layer: it imports nothing. */
export { parseTraceparent } from './traceparent.ts';
export { rackOf, type TraceSink, noopTracer, Tracer, TraceSpan, type SpanOptions } from './tracer.ts';
export {
  type AttemptEvent,
  type BreakerEvent,
  type ConfigState,
  combineObservers,
  type CacheLookupEvent,
  type CommitEvent,
  type GatewayObserver,
  type HookEvent,
  type GatewayState,
  type HedgeEvent,
  type LedgerState,
  type NoticeHandler,
  type NoticeMembers,
} from './gateway-observer.ts';
export {
  type CompletionAttributes,
  type SpanResult,
  type SpanAttributes,
  type GatewayAttributes,
  racks,
  type RackId,
  type RunAttributes,
  type TranscriptEntry,
  type StepAttributes,
  type TaskAttributes,
  type ToolCallAttributes,
  type TurnAttributes,
  type TraceSpanKind,
} from './span-attributes.ts';
