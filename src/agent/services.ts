import type { Tx } from '../store/index.ts';
import type { Work } from '../watch/index.ts';
import type { AgentLimits, AgentSpec } from './shapes/agent-spec.ts';
import type { ControlAct } from './shapes/control-act.ts';
import type { PendingChange } from './shapes/pending-change.ts';
import type { ReceiptBody, WorkReceipt } from './shapes/receipt.ts';
import type { Session } from './shapes/session.ts';
import type { ToolCatalogEntry } from './shapes/tool.ts';
import type { AbortReason, NewTurnEvent } from './shapes/turn-event.ts';
import type { PlannerRequest } from './planner.ts';
import type { ChangeTool, Proposal, Tool, ToolContext, ToolOutput } from './tool.ts';

/** What the pieces of the agent plane are to each other. Who acts is written as `acts.by` (src/store/schema.ts). */

/** One agent at work on one prompt: a task, or a step of a run. */
export interface TurnsRequest {
  /** With the grants that count here. */
  readonly agent: AgentSpec;
  readonly prompt: string;
  /** Named texts and values that the prompt is about; shown to the model after it. */
  readonly inputs?: Readonly<Record<string, unknown>>;
  readonly cwd: string | undefined;
  readonly responseFormat?: PlannerRequest['responseFormat'];
  /** Over the agent's own. */
  readonly limits?: AgentLimits;
  readonly about: Pick<ToolContext, 'taskId' | 'runId' | 'step' | 'sessionId'>;
  /** What its turns and tools are a part of, for who watches; their ids begin with `ids`, as no others do. */
  readonly within: { readonly work: Work; readonly ids: string };
  /** A task tells the model that the change waits for a person, and goes on; a step waits for the decision. */
  readonly onStaged: 'go_on' | 'wait';
  /** Awaited before anything is applied that may have effects. */
  readonly beforeEffect?: () => Promise<void>;
}

export interface Spent {
  readonly turns: number;
  /** Absent where a model did not say. */
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number };
}
export type TurnsResult =
  | ({ readonly kind: 'answer'; readonly text: string } & Spent)
  | ({ readonly kind: 'aborted'; readonly reason: AbortReason; readonly message: string } & Spent);

export interface Turns {
  /**
   * Never rejects but for our own bugs: what goes wrong is an `aborted` result. `emit` gets every event but `start`,
   * the last one with it; it is awaited, so a slow log slows the loop.
   * @param signal aborted when the host stops (`shutdown`), or with an AgentError as its reason
   */
  run(
    request: TurnsRequest,
    emit: (event: NewTurnEvent) => Promise<void>,
    signal: AbortSignal,
  ): Promise<TurnsResult>;
}

/** Everything that agents may call. */
export interface Toolbox {
  /** The catalog, in a steady order. */
  catalog(): Promise<ToolCatalogEntry[]>;
  /** Those that the grants name, and that are not unavailable. */
  granted(context: Pick<ToolContext, 'grants'>): readonly Tool[];
  find(name: string): Tool | undefined;
  /** Of the host's identity card. */
  readonly enforcementTier: 'none' | 'path' | 'os_sandbox';
}

export interface Decision {
  readonly state: 'applied' | 'discarded' | 'expired' | 'failed';
  /** Of what was applied. */
  readonly output?: ToolOutput;
}

/** Changes that wait for a person, and the journal of who decided. */
export interface Changes {
  stage(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<PendingChange>;
  /** Applies without asking, because the grants say so; journaled as `auto_approve` before and with its outcome. */
  applyNow(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<ToolOutput>;
  /** A question of the host itself, without a tool: approving it changes nothing but the answer. */
  ask(
    question: Pick<PendingChange, 'intent' | 'summary'> & {
      readonly tool: 'approval_gate' | 'rerun_step';
      readonly agent: string;
      readonly runId: string;
      readonly step: string;
    },
  ): Promise<PendingChange>;
  list(): Promise<PendingChange[]>;
  /**
   * Idempotent. The signal ends the waiting, not what is being applied.
   * @throws AgentError not_found; conflict, still staged: `base_moved`, `tool_unavailable`, `apply_failed`; conflict for
   * good: `already_discarded`, `expired`, `may_have_run`, `already_failed`; `being_applied`; unavailable: `not_recorded`
   */
  approve(id: string, by: string, signal: AbortSignal): Promise<{ id: string; applied: true }>;
  discard(id: string, by: string, note?: string): Promise<{ id: string; discarded: true }>;
  /** Resolves when it is decided, also by another host on the same database; rejects with the signal's reason. */
  decision(id: string, signal: AbortSignal): Promise<Decision>;
}

/** Credentials that acts of tasks and runs are done under. */
export interface StoreSessions {
  /** The capability is handed out once. */
  open(tx: Tx, kind: 'task' | 'run', subject: string): Promise<{ id: string; capability: string }>;
  close(tx: Tx, id: string): Promise<void>;
  /** Asked before every act of a tool. */
  isRevoked(id: string): Promise<boolean>;
  /** Logs the act, applied or refused. @throws AgentError unauthorized, not_found */
  revoke(
    id: string,
    credential: { readonly capability?: string; readonly operator?: string; readonly isLocal?: boolean },
  ): Promise<ControlAct>;
}

/** The signed chain. */
export interface Receipts {
  /** Adds to the chain, in the transaction that ends the session. */
  add(tx: Tx, body: ReceiptBody): Promise<WorkReceipt>;
  /** @throws AgentError not_found */
  get(id: string): Promise<WorkReceipt>;
}

/** What gates of the kind `event` wait for; `session.ended`, `pending.applied`, `task.completed` and so on. */
export interface Signals {
  emit(tx: Tx, name: string, data: Readonly<Record<string, unknown>>): Promise<void>;
}

/** Stored agents. `default` is there also where none is stored. */
export interface Agents {
  /** @throws AgentError not_found */
  get(name: string): Promise<AgentSpec>;
}

/** What of it is in the live part of the feed. */
export interface LiveRows {
  /** Newest first. */
  live(): Promise<Session[]>;
}
