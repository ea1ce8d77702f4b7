import type { Generated } from 'kysely';

/**
 * The tables of both databases. Times are RFC 3339 texts in UTC with milliseconds, which sort as texts; flags are 0 and 1;
 * a `Json` column is a text that the module that owns the table writes and reads.
 */

type Time = string;
type Json = string;
type Flag = 0 | 1;

/** The last number given out under a name: tasks, pending changes, acts, store sessions. */
interface Counters {
  name: string;
  value: number;
}

/** The action journal: every action with its actor, applied or refused. Append-only. */
interface Acts {
  seq: number;
  at: Time;
  /** The host that acted; several may share one database. */
  endpoint_id: string;
  /** `approve`, `discard`, `auto_approve`, `revoke`, `agent.create`, `workflow.put`, `run.cancel` and so on. */
  verb: string;
  target: string;
  /** `operator`, `session:<id>`, `peer:<name>`, `local` (an open loopback bind), `agent:<name>` or `host`. */
  by: string;
  outcome: 'applied' | 'refused';
  reason: string | null;
  note: string | null;
  details: Json | null;
}

interface Agents {
  name: string;
  spec: Json;
  created_at: Time;
  updated_at: Time;
}

interface Tasks {
  id: string;
  n: number;
  endpoint_id: string;
  agent: string;
  title: string;
  request: Json;
  cwd: string | null;
  engine: 'resident' | 'gateway';
  model: string;
  state: 'running' | 'completed' | 'failed' | 'cancelled';
  /** `answer`, or the reason of `aborted`. */
  outcome: string | null;
  started_at: Time;
  ended_at: Time | null;
  last_event: string | null;
  /** The payload of `answer` or `aborted`. */
  result: Json | null;
  turns: number;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  idempotency_key: string | null;
  request_digest: string | null;
  session_id: string | null;
  /** The part of the conversation that runs, or ran last, from 1. */
  part: Generated<number>;
  /** The task or run that handed the work on. */
  parent: string | null;
}

/** Messages of a task's conversation with its model, without the system message. */
interface TaskMessages {
  task_id: string;
  n: number;
  at: Time;
  message: Json;
}

/** Parts of a task's conversation after the first, which is the task's own request. */
interface TaskParts {
  task_id: string;
  /** From 2. */
  n: number;
  /** `seq` of its `message` event. */
  first_seq: number;
  started_at: Time;
  request: Json;
  request_digest: string;
  idempotency_key: string | null;
}

/** Lines of a task's or a run's stream, under its id. */
interface Events {
  stream: string;
  seq: number;
  ts: Time;
  /** The whole line, including `type`, `seq` and `ts`. */
  event: Json;
}

interface Pending {
  id: string;
  n: number;
  endpoint_id: string;
  kind: 'file_write' | 'file_delete' | 'exec' | 'tool_call';
  tool: string;
  task_id: string | null;
  run_id: string | null;
  step: string | null;
  agent: string;
  session_id: string | null;
  intent: string;
  summary: string;
  path: string | null;
  diff: string | null;
  base_hash: string | null;
  risk: 'low' | 'medium' | 'high';
  /** The data that `apply` needs, in the tool's own format. */
  payload: Json;
  /** `applying` persists only after a crash. */
  state: 'staged' | 'applying' | 'applied' | 'discarded' | 'expired' | 'failed';
  /** The tool's output when the change was applied, or why it failed. */
  output: Json | null;
  /** The host that applies or applied the change. */
  applier: string | null;
  created_at: Time;
  expires_at: Time;
  decided_at: Time | null;
  decided_by: string | null;
  /** Id of the first change of the set that it was approved with. */
  approved_with: string | null;
  /** The call that it comes from: its conversation and its id there. */
  call_key: string | null;
}

interface Workflows {
  name: string;
  source: string;
  digest: string;
  origin: string | null;
  version: string | null;
  description: string | null;
  created_at: Time;
  updated_at: Time;
}

interface Runs {
  id: string;
  endpoint_id: string;
  workflow: string;
  idempotency_key: string | null;
  request_digest: string | null;
  /** The workflow's source when the run started. */
  source: string;
  digest: string;
  /** Sources of the workflows that its steps run, by name. */
  nested_sources: Json | null;
  /** Model in place of `resident`. */
  resident_model: string | null;
  state: 'running' | 'paused' | 'suspended' | 'completed' | 'failed' | 'cancelled';
  outcome: string | null;
  waiting_on: string | null;
  suspend_kind: string | null;
  wrapper_cycle: number | null;
  /** The step whose gate it waits at, and since when. */
  gate: Json | null;
  /** 1 while a segment runs that was started by resume, run-now or the gate's predicate. */
  resumed: Flag;
  /** A requested action that takes effect at the next step boundary. */
  requested: 'pause' | 'cancel' | null;
  input: string | null;
  inputs: Json;
  retried_from: string | null;
  started_at: Time;
  ended_at: Time | null;
  last_event: string | null;
  result: Json | null;
  engine: 'resident' | 'gateway' | null;
  model: string | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  session_id: string | null;
}

interface RunSteps {
  run_id: string;
  /** Counts the cycles of a scheduled or armed run; 0 where there are none. */
  cycle: number;
  step: string;
  position: number;
  state: 'running' | 'waiting' | 'completed' | 'failed' | 'skipped' | 'cancelled' | 'interrupted';
  attempts: number;
  /** 1 as soon as a tool with side effects was called in the step. */
  side_effects: Flag;
  /** The data that opened its gate: a person's inputs, or the data of an event. */
  gate_inputs: Json | null;
  started_at: Time;
  ended_at: Time | null;
  output: Json | null;
  error: string | null;
}

/** Signals: the feed of events, and what gates of the kind `event` wait for. */
interface Signals {
  seq: number;
  name: string;
  at: Time;
  data: Json;
}

/** An endpoint that events are posted to, and how far that is. */
interface Webhooks {
  /** Random; a part of `webhook-id`. */
  id: string;
  /** SHA-256 of the URL, hex. */
  endpoint: string;
  /** `seq` of the last signal that was looked at: queued, or not selected. */
  cursor: number;
  delivered: number;
  given_up: number;
  delivered_at: Time | null;
  last_error: string | null;
  last_error_at: Time | null;
  /** The host that delivers, of several on one database, until another may. */
  lease_by: string | null;
  lease_until: Time;
}

/** Events that are to be delivered to an endpoint. Those of one subject are delivered in the order of `seq`. */
interface WebhookDeliveries {
  webhook: string;
  /** The signal. */
  seq: number;
  /** The task, run or pending change. */
  subject: string;
  attempts: number;
  queued_at: Time;
  /** Null while an event of the same subject is before it. */
  next_at: Time | null;
}

interface ExternalSessions {
  id: string;
  endpoint_id: string;
  /** SHA-256 of the secret, hex. */
  secret_hash: string;
  harness: string;
  client: string | null;
  title: string | null;
  cwd: string | null;
  pid: number | null;
  labels: Json | null;
  idempotency_key: string | null;
  status: 'running' | 'waiting';
  last_event: string | null;
  tokens_claimed: Json | null;
  started_at: Time;
  beat_at: Time;
  ended_at: Time | null;
  outcome: string | null;
  close_reason: string | null;
}

/** Sessions whose credential can be revoked: one for each task and run. */
interface StoreSessions {
  id: string;
  seq: number;
  endpoint_id: string;
  capability_hash: string;
  kind: 'task' | 'run';
  /** The task or run. */
  subject: string;
  opened_at: Time;
  closed_at: Time | null;
  revoked_at: Time | null;
}

/** Work receipts: one hash chain per host. `digest` covers the whole receipt without its signature. */
interface Receipts {
  endpoint_id: string;
  seq: number;
  id: string;
  kind: 'task' | 'run' | 'external';
  ended_at: Time;
  receipt: Json;
  prev_digest: string;
  digest: string;
}

interface Peers {
  name: string;
  token_hash: string;
  minted_at: Time;
  revoked_at: Time | null;
  /** A JSON list of permissions; null: all permissions of a peer. */
  scope: Json | null;
  expires_at: Time | null;
}

/** An answer of the resident model, or of an agent's model (`wire` is then `agent`). Unknown values are null. */
interface Completions {
  /** The request id; for an agent's answer `<task or run>:<n>`. */
  id: string;
  endpoint_id: string;
  wire: string;
  operation: 'chat' | 'text_completion' | 'embeddings' | 'rerank';
  /** Same format as `acts.by`; for an agent `agent:<name>`. */
  by: string;
  /** Which model answered. Figures of a gateway are those that it reports. */
  engine: 'resident' | 'gateway';
  stream: Flag;
  requested_model: string | null;
  model: string | null;
  answers: number | null;
  /** The outcome of `Ending` in src/tracing/span-attributes.ts. */
  outcome: 'ok' | 'refused' | 'failed' | 'abandoned';
  status: number | null;
  code: string | null;
  finish: string | null;
  started_at: Time;
  ended_at: Time;
  prompt_tokens: number | null;
  cached_tokens: number | null;
  completion_tokens: number | null;
  first_token_ms: number | null;
  queued_ms: number | null;
  prefill_ms: number | null;
  decode_ms: number | null;
  total_ms: number | null;
  /** The task or run that the answer belongs to. */
  subject: string | null;
  agent: string | null;
  trace_id: string | null;
}

/**
 * A part of a request or of an agent's work: a call of a tool, or an attempt at a provider of the gateway. Unknown values
 * are null.
 */
interface Spans {
  /** `<task or run>:<call>`, or `<request>:attempt:<n>`. */
  id: string;
  endpoint_id: string;
  kind: 'tool' | 'attempt';
  /** The tool, or the provider. */
  name: string;
  outcome: 'ok' | 'refused' | 'failed' | 'abandoned';
  started_at: Time;
  ended_at: Time;
  /** The gateway's request. */
  request_id: string | null;
  /** The task or run. */
  subject: string | null;
  agent: string | null;
  /** The model that a provider was asked for. */
  model: string | null;
  code: string | null;
  trace_id: string | null;
  attempt: number | null;
  /** Until the head of the provider's answer. */
  response_ms: number | null;
  total_ms: number | null;
  /** Delay before the next attempt. */
  retry_ms: number | null;
}

/** Result of the lab's parity gate for a kernel, or of a parity run of the whole graph. */
interface Parity {
  id: string;
  endpoint_id: string;
  at: Time;
  source: 'gate' | 'run';
  /** The kernel; for a run, the bound kernels, separated by commas. */
  kernel: string;
  op: string | null;
  digest: string | null;
  model: string | null;
  mode: 'strict' | 'standard' | 'off';
  ok: Flag;
  failed_stage: string | null;
  cases: number | null;
  failed_cases: number | null;
  seed: number | null;
  /** The worst of all cases. */
  nmse: number | null;
  max_abs: number | null;
  kl: number | null;
  top1_agreement: number | null;
  elapsed_ms: number | null;
}

interface Bench {
  id: string;
  endpoint_id: string;
  at: Time;
  model: string;
  /** The bound kernels, separated by commas. */
  kernels: string;
  verdict: string;
  method: string;
  fingerprint: string;
  rounds: number;
  baseline_prefill_tps: number | null;
  baseline_decode_tps: number | null;
  bound_prefill_tps: number | null;
  bound_decode_tps: number | null;
  /** The 95% confidence interval of the ratio of bound to baseline. */
  ratio_low: number | null;
  ratio_high: number | null;
  elapsed_ms: number | null;
}

/** A registration of a lab kernel, or the deletion of a name. */
interface LabKernels {
  id: string;
  endpoint_id: string;
  at: Time;
  name: string;
  digest: string;
  /** Adapter, driver, versions and model of the check, as canonical JSON. */
  environment: string;
  /** JSON; empty for a deletion, like `report`. */
  registration: string;
  report: string;
  accepted: Flag;
  deleted: Flag;
}

/** A finished bench of the lab. */
interface LabBenches {
  id: string;
  endpoint_id: string;
  at: Time;
  /** JSON of its row in a list. */
  summary: string;
  /** JSON, with the raw times. */
  record: string;
}

/** Rows that are missing from a surface, and the reason. */
interface FeedGaps {
  id: string;
  endpoint_id: string;
  surface: string;
  from_at: Time;
  to_at: Time;
  rows: number;
  reason: string;
}

/** A response of `POST /v1/responses` that is kept for later requests. */
interface Responses {
  id: string;
  /** The host that answers, or answered, it. */
  endpoint_id: string;
  /** `peer:<name>` of the peer that asked for it; `host` for every other caller. */
  owner: string;
  /** The response that it continues. */
  previous: string | null;
  status: 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  created_at: Time;
  /** The items of its own request, with ids. */
  input: Json;
  /** Its output items. */
  output: Json;
  /** The response without its output. */
  response: Json;
  /** The events of a response that was streamed in the background, as a list; null for others, and until it is finished. */
  events: Json | null;
  /** Bytes of the items of the whole conversation, those of the responses that it continues included. */
  context_bytes: number;
}

export interface Tables {
  counters: Counters;
  acts: Acts;
  agents: Agents;
  tasks: Tasks;
  task_messages: TaskMessages;
  task_parts: TaskParts;
  events: Events;
  pending: Pending;
  workflows: Workflows;
  runs: Runs;
  run_steps: RunSteps;
  signals: Signals;
  webhooks: Webhooks;
  webhook_deliveries: WebhookDeliveries;
  external_sessions: ExternalSessions;
  store_sessions: StoreSessions;
  receipts: Receipts;
  peers: Peers;
  completions: Completions;
  spans: Spans;
  parity: Parity;
  bench: Bench;
  feed_gaps: FeedGaps;
  lab_kernels: LabKernels;
  lab_benches: LabBenches;
  responses: Responses;
}
