/** Spans of the work that the planes do, and the sinks that receive them. Lowest layer: it imports nothing. */
export { traceparentOf } from './traceparent.ts';
export { rackOf, type Sink, unwatched, Watch, Work, type WorkOptions } from './watch.ts';
export {
  type CompletionFacts,
  type Ending,
  type FactsOf,
  type GatewayFacts,
  racks,
  type RackId,
  type RunFacts,
  type Said,
  type StepFacts,
  type TaskFacts,
  type ToolFacts,
  type TurnFacts,
  type WorkKind,
} from './work.ts';
