import type { Grants } from './shapes/agent-spec.ts';
import type { PendingChange } from './shapes/pending-change.ts';
import type { ToolCatalogEntry } from './shapes/tool.ts';

/** On whose behalf a tool runs, and within what. */
export interface ToolContext {
  readonly agent: string;
  readonly taskId?: string;
  readonly runId?: string;
  readonly step?: string;
  /** The store session; a revoked one gets nothing done any more. */
  readonly sessionId?: string;
  readonly grants: Grants;
  /** Absolute; relative paths of arguments start here. Undefined: there are none. */
  readonly cwd: string | undefined;
  readonly signal: AbortSignal;
}

/** What the model gets to read. */
export interface ToolOutput {
  readonly ok: boolean;
  readonly output: string;
  /** Something was cut off. */
  readonly truncated: boolean;
}

/** A change before it is staged. Everything that `apply` needs is in it, so that a restart loses nothing. */
export interface Proposal {
  readonly kind: PendingChange['kind'];
  /** From the call's argument `intent`; '' where the model gave none. */
  readonly intent: string;
  readonly summary: string;
  readonly path?: string;
  readonly diff?: string;
  readonly baseHash?: string;
  readonly risk: PendingChange['risk'];
  /** JSON. */
  readonly payload: unknown;
}

interface AnyTool {
  readonly name: string;
  readonly description: string;
  readonly source: ToolCatalogEntry['source'];
  /** JSON schema of an object; the engine's grammars keep it (docs/decisions/grammars.md). */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** Why it cannot run at the moment; asked whenever it is listed or called. */
  readonly unavailable?: () => string | undefined;
  readonly pin?: string;
}

/** Changes nothing. */
export interface ReadTool extends AnyTool {
  readonly kind: 'read';
  /** A refusal or failure that the model should read is an output with `ok: false`, no error. */
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<ToolOutput>;
}

/** Changes something, and so only proposes it. */
export interface ChangeTool extends AnyTool {
  readonly kind: 'change';
  /** Why a person is asked first, where it is not simply that it changes something; what would change that. */
  readonly gatedReason?: string;
  propose(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<Proposal | ToolOutput>;
  /**
   * Applies exactly what was proposed, once a person or a grant said so.
   * @throws AgentError `conflict`, `base_moved` where what it was proposed upon is no longer there: nothing was done
   */
  apply(payload: unknown, signal: AbortSignal): Promise<ToolOutput>;
  /** Whether it was applied, where nobody saw how it ended: after a crash in the middle, or an error. */
  verify?(payload: unknown): Promise<'applied' | 'not_applied' | 'unknown'>;
}

export type Tool = ReadTool | ChangeTool;

/** Where tools come from: the built-in ones, one MCP server each. */
export interface ToolSource {
  tools(): readonly Tool[];
}
