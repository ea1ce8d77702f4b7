/**
 * The tables, as both databases have them. Times are RFC 3339 texts in UTC with milliseconds, so that they sort as texts;
 * flags are 0 and 1; a `json` column is text that the owner of the table writes and reads.
 */

type Time = string;
type Json = string;
type Flag = 0 | 1;

/** The last number given out under a name: tasks, pending changes, acts, store sessions. */
interface Counters {
  name: string;
  value: number;
}

/** Every act that somebody answers for, applied or refused. Only ever added to. */
interface Acts {
  seq: number;
  at: Time;
  /** Of the host that acted; several may share one database. */
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
  state: 'running' | 'completed' | 'failed';
  /** `answer`, or the reason of `aborted`. */
  outcome: string | null;
  started_at: Time;
  ended_at: Time | null;
  last_event: string | null;
  /** What `answer` or `aborted` said. */
  result: Json | null;
  turns: number;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  idempotency_key: string | null;
  request_digest: string | null;
  session_id: string | null;
}

/** Lines of a task's or a run's stream, under its id. */
interface Events {
  stream: string;
  seq: number;
  ts: Time;
  /** The whole line, `type`, `seq` and `ts` with it. */
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
  /** What `apply` needs: the tool's own. */
  payload: Json;
  /** `applying` is left behind only by a crash in the middle. */
  state: 'staged' | 'applying' | 'applied' | 'discarded' | 'expired' | 'failed';
  /** What applying it gave, or why it failed: a tool's output. */
  output: Json | null;
  /** The host that applies it, or did. */
  applier: string | null;
  created_at: Time;
  expires_at: Time;
  decided_at: Time | null;
  decided_by: string | null;
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
  /** What it started with. */
  source: string;
  digest: string;
  state: 'running' | 'paused' | 'suspended' | 'completed' | 'failed' | 'cancelled';
  outcome: string | null;
  waiting_on: string | null;
  suspend_kind: string | null;
  wrapper_cycle: number | null;
  /** The step whose gate it waits at, and since when. */
  gate: Json | null;
  /** 1 while a segment runs that resume, run-now or a gate's own predicate dispatched. */
  resumed: Flag;
  /** Asked for and answered, to happen at the next step boundary. */
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
  /** 1 as soon as a tool with side effects was let loose in it. */
  side_effects: Flag;
  /** What let its gate open: a person's inputs, the data of an event. */
  gate_inputs: Json | null;
  started_at: Time;
  ended_at: Time | null;
  output: Json | null;
  error: string | null;
}

/** What gates of the kind `event` wait for. */
interface Signals {
  seq: number;
  name: string;
  at: Time;
  data: Json;
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

/** Sessions whose credential can be revoked: one a task, one a run. */
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

/** A hash chain a host: `digest` is over the whole receipt without its signature. */
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
  /** A JSON list; null: everything that a peer may do. */
  scope: Json | null;
  expires_at: Time | null;
}

/** An answer of the resident model, or of an agent's model (`wire` is then `agent`). What is not known is null. */
interface Completions {
  /** Of the request; of an agent's answer `<task or run>:<n>`. */
  id: string;
  endpoint_id: string;
  wire: string;
  operation: 'chat' | 'text_completion' | 'embeddings';
  /** As `acts.by`; of an agent `agent:<name>`. */
  by: string;
  /** Whose model answered: figures of a gateway's are what it says. */
  engine: 'resident' | 'gateway';
  stream: Flag;
  requested_model: string | null;
  model: string | null;
  answers: number | null;
  /** As `Ending` of src/watch/work.ts. */
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
  /** The task or run that it is for. */
  subject: string | null;
  agent: string | null;
  trace_id: string | null;
}

/** What the lab's gate said of a kernel, or a parity run of the whole graph. */
interface Parity {
  id: string;
  endpoint_id: string;
  at: Time;
  source: 'gate' | 'run';
  /** Of a run: those that are bound, a comma between them. */
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
  /** Those that are bound, a comma between them. */
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

/** Rows that a surface lacks, and why. */
interface FeedGaps {
  id: string;
  endpoint_id: string;
  surface: string;
  from_at: Time;
  to_at: Time;
  rows: number;
  reason: string;
}

export interface Tables {
  counters: Counters;
  acts: Acts;
  agents: Agents;
  tasks: Tasks;
  events: Events;
  pending: Pending;
  workflows: Workflows;
  runs: Runs;
  run_steps: RunSteps;
  signals: Signals;
  external_sessions: ExternalSessions;
  store_sessions: StoreSessions;
  receipts: Receipts;
  peers: Peers;
  completions: Completions;
  parity: Parity;
  bench: Bench;
  feed_gaps: FeedGaps;
}
