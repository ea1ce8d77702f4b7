import type { Tx } from '../store/index.ts';
import type { TraceSpan } from '../tracing/index.ts';
import type { AgentLimits, AgentSpec } from './shapes/agent-spec.ts';
import type { ControlAct } from './shapes/control-act.ts';
import type { PendingChange } from './shapes/pending-change.ts';
import type { ReceiptBody, WorkReceipt } from './shapes/receipt.ts';
import type { Session } from './shapes/session.ts';
import type { ToolCatalogEntry } from './shapes/tool.ts';
import type { AbortReason, NewTurnEvent } from './shapes/turn-event.ts';
import type { ChatModelMessage, ChatModelRequest } from './chat-model.ts';
import type { CallControl } from './turns/call-control.ts';
import type { ChangeTool, OnOutput, Proposal, StagedFiles, Tool, ToolContext, ToolOutput } from './tool.ts';

/** Interfaces between the services of the agent plane. Actors are written as `acts.by` (src/store/schema.ts). */

/** Request to run one agent on one prompt: a task, or a step of a run. */
export interface TurnLoopRequest {
  /** The agent, with the grants that apply to this request. */
  readonly agent: AgentSpec;
  readonly prompt: string;
  /** Named texts and values; sent to the model after the prompt. */
  readonly inputs?: Readonly<Record<string, unknown>>;
  readonly cwd: string | undefined;
  readonly responseFormat?: ChatModelRequest['responseFormat'];
  /** Override the agent's own limits. */
  readonly limits?: AgentLimits;
  readonly owner: Pick<ToolContext, 'taskId' | 'runId' | 'step' | 'sessionId'>;
  /** Parent span of its turns and tool calls, and the unique prefix of their span ids. */
  readonly trace: { readonly span: TraceSpan; readonly idPrefix: string };
  /** When a change is staged, a task tells the model and continues; a step waits for the decision. */
  readonly onStaged: 'go_on' | 'wait';
  /** Wraps the wait for a person's decision. */
  readonly whileWaiting?: <T>(wait: () => Promise<T>) => Promise<T>;
  /** The recorded conversation that this request goes on with; absent: a new one, which is not recorded. */
  readonly conversation?: Conversation;
  /** With it, a person may stop single calls. */
  readonly calls?: CallControl;
  /** Whether the signal was aborted because the host stops. */
  readonly isHostStopping?: () => boolean;
  /** Awaited before a change with side effects may be applied. */
  readonly beforeEffect?: () => Promise<void>;
}

/** The conversation of a task with its model, as recorded, with the prompt of the request. */
export interface Conversation {
  /** Unique over tasks and attempts of steps. */
  readonly id: string;
  /** Without the system message. */
  readonly messages: readonly ChatModelMessage[];
  /** Number of the last turn, 0 before the first: numbers of turns go on over all parts. */
  readonly lastTurn: number;
  /** What a host that ended had done of this request; absent: the request begins. */
  readonly interrupted?: InterruptedWork;
  /** Adds messages to the record, all or none. */
  record(messages: readonly ChatModelMessage[]): Promise<void>;
}

/** What the events say of a request that was interrupted. */
export interface InterruptedWork {
  /** Turns with an answer, and their usage where all of them reported it. */
  readonly totals: TurnTotals;
  /** How often it was interrupted in a row, without an answer or a result in between. */
  readonly resumes: number;
  /** Completion tokens of the turns that reported them, and of tasks that work was handed on to. */
  readonly completionTokens: number;
  /** The calls that were begun, by id. */
  readonly calls: ReadonlyMap<string, BegunCall>;
}

export interface BegunCall {
  /** The change that it staged, or the question whether to repeat it. */
  readonly pendingId?: string;
  readonly isQuestion?: boolean;
  readonly output?: string;
}

/** In place of a tool's name: whether a call that may have been made is to be made again. */
export const repeatQuestion = 'repeat_call';

/** What became of the change of a call, when the host ended while it was being proposed or made. */
export type InterruptedChange =
  | { readonly kind: 'not_begun' }
  /** It waits for a person, or was decided by one. */
  | { readonly kind: 'staged'; readonly id: string; readonly summary: string }
  | { readonly kind: 'made'; readonly output: ToolOutput }
  | { readonly kind: 'unknown' };

export interface TurnTotals {
  readonly turns: number;
  /** Absent when a model reported none. */
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number };
}
export type TurnLoopResult =
  /** The host stops while a person decides: the next start goes on. No event was emitted. */
  | ({ readonly kind: 'suspended' } & TurnTotals)
  | ({ readonly kind: 'answer'; readonly text: string } & TurnTotals)
  | ({ readonly kind: 'aborted'; readonly reason: AbortReason; readonly message: string } & TurnTotals);

export interface TurnRunner {
  /**
   * Runs the agent until it has an answer. Failures are an `aborted` result; it rejects only on a bug. `emit` receives
   * every event but `start`, including the final one. It is awaited, so a slow log slows the loop.
   * @param signal aborted when the host stops (`shutdown`), or with an AgentError as its reason
   */
  run(
    request: TurnLoopRequest,
    emit: (event: NewTurnEvent) => Promise<void>,
    signal: AbortSignal,
  ): Promise<TurnLoopResult>;
}

/** The tools that agents may call. */
export interface Toolbox {
  /** The catalog, in a stable order. */
  catalog(): Promise<ToolCatalogEntry[]>;
  /** Tools that the grants name and that are available. */
  granted(context: Pick<ToolContext, 'grants'>): readonly Tool[];
  find(name: string): Tool | undefined;
  /** The `enforcement_tier` of the identity card. */
  readonly enforcementTier: 'none' | 'path' | 'os_sandbox';
}

export interface ChangeDecision {
  /** What the person who discarded it wrote. */
  readonly note?: string;
  readonly state: 'applied' | 'discarded' | 'expired' | 'failed';
  /** Output of the applied change. */
  readonly output?: ToolOutput;
}

/** Pending changes that wait for a person's decision. Decisions are journaled. */
export interface PendingChangeService {
  stage(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<PendingChange>;
  /** The staged file changes of a task or run. */
  stagedFiles(owner: Pick<ToolContext, 'taskId' | 'runId'>): StagedFiles;
  /**
   * Applies a change that the grants approve automatically. Journaled as `auto_approve`, before and with its outcome.
   */
  applyNow(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<ToolOutput>;
  /** Stages a question of the host itself. Approving it applies no tool. */
  ask(
    question: Pick<PendingChange, 'intent' | 'summary'> &
      Pick<ToolContext, 'agent' | 'taskId' | 'runId' | 'step' | 'sessionId'> & {
        readonly tool: 'approval_gate' | 'rerun_step' | typeof repeatQuestion;
      },
  ): Promise<PendingChange>;
  /** What became of the change of a call. */
  findInterrupted(callKey: string): Promise<InterruptedChange>;
  list(): Promise<PendingChange[]>;
  /**
   * Idempotent. The signal ends the waiting, not the application of the change.
   * @throws AgentError not_found; conflict, still staged: `base_moved`, `tool_unavailable`, `apply_failed`; conflict
   * for good: `already_discarded`, `expired`, `may_have_run`, `already_failed`; `being_applied`; unavailable:
   * `not_recorded`
   */
  approve(id: string, by: string, signal: AbortSignal): Promise<{ id: string; applied: true }>;
  discard(id: string, by: string, note?: string): Promise<{ id: string; discarded: true }>;
  /** Ends the application of a change that runs in this process. @returns false when none runs */
  stopApplying(id: string): boolean;
  /**
   * Resolves when a person on any host of the same database has decided; rejects with the signal's reason.
   * @param onOutput receives what is printed while the change is applied
   */
  decision(id: string, signal: AbortSignal, onOutput?: OnOutput): Promise<ChangeDecision>;
}

/** Store sessions: the revocable credentials of tasks and runs. */
export interface StoreSessions {
  /** Opens a session. The capability is returned only here. */
  open(tx: Tx, kind: 'task' | 'run', subject: string): Promise<{ id: string; capability: string }>;
  close(tx: Tx, id: string): Promise<void>;
  /** Checked before every tool call. */
  isRevoked(id: string): Promise<boolean>;
  /** Revokes a session. Journals the act, applied or refused. @throws AgentError unauthorized, not_found */
  revoke(
    id: string,
    credential: {
      readonly capability?: string;
      readonly operatorCredential?: string;
      readonly isLocal?: boolean;
    },
  ): Promise<ControlAct>;
}

/** The signed receipt chain. */
export interface ReceiptStore {
  /** Adds a receipt to the chain, in the transaction that ends the session. */
  add(tx: Tx, body: ReceiptBody): Promise<WorkReceipt>;
  /** @throws AgentError not_found */
  get(id: string): Promise<WorkReceipt>;
}

/**
 * Signals such as `session.ended`, `pending.applied` or `task.completed`, stored in the transaction of the change that they
 * are about: gates of the kind `event` wait for them, and those of `agentEventStates` are the feed of events.
 */
export interface SignalStore {
  emit(tx: Tx, name: string, data: Readonly<Record<string, unknown>>): Promise<void>;
}

/** Stored agents. `default` always exists. */
export interface AgentStore {
  /** @throws AgentError not_found */
  get(name: string): Promise<AgentSpec>;
}

/** Source of live rows for the session feed. */
export interface LiveSessionSource {
  /** Newest first. */
  live(): Promise<Session[]>;
}
