/**
 * What can change on a host, each with the plane whose readers learn it: a caller that may not read a plane does not learn that
 * something changes in it.
 */
export const planeOfTopic = {
  /** The state of the host: models are loaded, unloaded, or fail to load. */
  host: 'host',
  /** Counters of requests and tokens. */
  telemetry: 'host',
  /** The stored models. */
  models: 'v1',
  /** The progress of a download; the id is what was requested. */
  pulls: 'v1',
  kernels: 'lab',
  bindings: 'lab',
  configs: 'lab',
  benches: 'lab',
  parity: 'lab',
  tasks: 'agent',
  runs: 'agent',
  pending: 'agent',
  /** The action journal. */
  acts: 'agent',
  /** Sessions of other programs, and sessions whose credential can be revoked. */
  sessions: 'agent',
  receipts: 'agent',
  agents: 'agent',
  workflows: 'agent',
  racks: 'recorder',
  /** Rows of the observe plane. */
  completions: 'observe',
} as const;

export type Topic = keyof typeof planeOfTopic;
export const topics = Object.keys(planeOfTopic) as Topic[];

export interface Change {
  readonly topic: Topic;
  /** What changed; absent: any of the topic. */
  readonly id?: string | undefined;
}
