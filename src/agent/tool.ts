import type { Grants } from './shapes/agent-spec.ts';
import type { PendingChange } from './shapes/pending-change.ts';
import type { ToolCatalogEntry } from './shapes/tool.ts';

/** For whom a tool runs, and its limits. */
export interface ToolContext {
  readonly agent: string;
  readonly taskId?: string;
  readonly runId?: string;
  readonly step?: string;
  /** The store session; after its revocation no tool runs. */
  readonly sessionId?: string;
  readonly grants: Grants;
  /** Absolute base of relative path arguments; undefined when relative paths are not allowed. */
  readonly cwd: string | undefined;
  /** Staged changes of the same task or run. Tools that read files show the files as these would leave them. */
  readonly staged?: StagedFiles;
  readonly signal: AbortSignal;
  /** Names the call over all conversations; the same when the call goes on after a restart. */
  readonly callKey?: string;
  /** For tools that hand work on; absent where none can be. */
  readonly delegation?: Delegation;
  /** Receives what the tool prints while it runs. */
  readonly onOutput?: OnOutput;
}

/** What a call needs to hand work on to a task of its own. */
export interface Delegation {
  /** Whether changes wait for a person's decision. */
  readonly waits: boolean;
  /** Tokens that are left to the agent; infinite where they are not limited. */
  readonly tokensLeft: () => number;
  /** Counts tokens of the other task. */
  readonly spend: (tokens: number) => void;
  /** Does not count the time against the agent's limit. */
  readonly pauseDeadline: <T>(wait: () => Promise<T>) => Promise<T>;
  /** Whether the call ends because the host stops: the other task goes on at the next start. */
  readonly isHostStopping: () => boolean;
}

/** Receives pieces of the output of a call while it runs. It must not throw. */
export type OnOutput = (text: string) => void;

/** Staged changes of files of one task or run. */
export interface StagedFiles {
  /** In the order that they were staged. Paths are real paths, without links. */
  list(): Promise<
    readonly {
      readonly n: number;
      readonly id: string;
      readonly tool: string;
      readonly path: string;
      readonly isDeleted: boolean;
    }[]
  >;
  /** What the tool proposed. */
  payloadOf(n: number): Promise<unknown>;
}

/** Tool output that is sent to the model. */
export interface ToolOutput {
  readonly ok: boolean;
  readonly output: string;
  /** Whether part of the output was cut off. */
  readonly truncated: boolean;
  /** For models that take images; the output says in words what it is. */
  readonly image?: ToolImage;
}

/** An image that a tool read. */
export interface ToolImage {
  /** Real path, from which it can be read again. */
  readonly path: string;
  readonly mediaType: string;
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  readonly sizeBytes: number;
  readonly digest: string;
  /** Base64. It is kept in memory only: what is stored of an image is the rest. */
  readonly data?: string;
}

/** A change before it is staged. It holds everything that `apply` needs, so it survives a restart. */
export interface Proposal {
  readonly kind: PendingChange['kind'];
  /** The call's argument `intent`; '' when the model gave none. */
  readonly intent: string;
  readonly summary: string;
  readonly path?: string;
  readonly diff?: string;
  readonly baseHash?: string;
  readonly risk: PendingChange['risk'];
  /** JSON. */
  readonly payload: unknown;
}

interface ToolBase {
  readonly name: string;
  readonly description: string;
  readonly source: ToolCatalogEntry['source'];
  /** JSON schema of an object; constrained decoding enforces it (docs/decisions/grammars.md). */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** Why the tool cannot run now. Called whenever it is listed or called. */
  readonly unavailable?: () => string | undefined;
  readonly pin?: string;
}

/** A tool without side effects. */
export interface ReadTool extends ToolBase {
  readonly kind: 'read';
  /** It only waits for something that outlives the host: its task goes on at the next start. */
  readonly isWaiting?: true;
  /** A failure that the model should read is an output with `ok: false`, not an error. */
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<ToolOutput>;
}

/** Changes of several tools that can be applied together. */
export interface ChangeSet {
  /**
   * Applies changes in their order, or none.
   * @param payloads what the tools proposed
   * @param resumes some may have been applied before a crash: only the others are applied
   * @throws AgentError `conflict`: nothing was changed
   */
  apply(payloads: readonly unknown[], resumes: boolean): Promise<ToolOutput[]>;
  /**
   * The first staged change that a later one must not be applied before, because it would do something else then.
   * @param n place of the change in the order of all; of staged changes only earlier ones count
   */
  buildsOn(payload: unknown, n: number, staged: StagedFiles): Promise<string | undefined>;
}

/** The text of a change. */
export interface ChangeText {
  /** The text; undefined when the change has none, as a deletion. */
  of(payload: unknown): string | undefined;
  /**
   * The change with another text.
   * @throws AgentError `invalid`
   */
  replace(
    payload: unknown,
    text: string,
    signal: AbortSignal,
  ): Promise<Pick<Proposal, 'summary' | 'diff' | 'risk' | 'payload'>>;
}

/** Who approved a change: a person, which is the default, or the grants of the agent. */
export type Approval = 'person' | 'grants';

/** A tool with side effects. It proposes a change, which is applied after approval. */
export interface ChangeTool extends ToolBase {
  readonly kind: 'change';
  /** Why approval is required, if there is a special reason, and how to lift it. */
  readonly gatedReason?: string;
  propose(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<Proposal | ToolOutput>;
  /**
   * Applies exactly what was proposed, after a person or a grant approved it.
   * @throws AgentError `conflict`, `base_moved` when the base of the proposal has changed; nothing was done
   */
  apply(payload: unknown, signal: AbortSignal, approval?: Approval, onOutput?: OnOutput): Promise<ToolOutput>;
  /** Changes of tools with the same set can be approved together. */
  readonly set?: ChangeSet;
  /** For changes that are a text: a person may correct it before approving it. */
  readonly text?: ChangeText;
  /** Whether the change was applied, when the outcome is unknown after a crash or an error. */
  verify?(payload: unknown): Promise<'applied' | 'not_applied' | 'unknown'>;
}

export type Tool = ReadTool | ChangeTool;

/** A source of tools: the built-in tools, or one MCP server. */
export interface ToolSource {
  tools(): readonly Tool[];
}
