import { unlessAborted } from '../../util/abort.ts';
import { isRecord } from '../../util/json.ts';
import type { Work } from '../../watch/index.ts';
import { globMatches } from '../agents/name-glob.ts';
import { StoreError } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { PlannerCall } from '../planner.ts';
import type { Changes, StoreSessions, TurnsRequest } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { ChangeTool, Proposal, Tool, ToolContext } from '../tool.ts';
import { Abortion } from './abortion.ts';
import { argumentFaults, type Arguments, readArguments } from './arguments.ts';
import { capped } from './cap.ts';
import type { Deadline } from './limits.ts';
import type { Outcome, Telling } from './telling.ts';

/** Consecutive failures of the same call that end the work. */
const mostFailures = 4;

export interface ActingOptions {
  readonly changes: Pick<Changes, 'stage' | 'applyNow' | 'decision'>;
  readonly sessions: Pick<StoreSessions, 'isRevoked'>;
  readonly request: TurnsRequest;
  /** Tools that the agent may call, by name. */
  readonly tools: ReadonlyMap<string, Tool>;
  readonly deadline: Deadline;
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  readonly telling: Telling;
  /** Aborted when the host stops. */
  readonly hostSignal: AbortSignal;
  /** Aborted when the host stops or the deadline passes. */
  readonly signal: AbortSignal;
  readonly onFault: (error: unknown) => void;
}

/** Runs the model's tool calls within the agent's grants, and emits their events. */
export class Acting {
  readonly #options: ActingOptions;
  readonly #context: ToolContext;
  /** Consecutive failures by call. */
  readonly #failures = new Map<string, number>();

  constructor(options: ActingOptions) {
    this.#options = options;
    const { request, signal } = options;
    const { agent, about, cwd } = request;
    this.#context = { ...about, agent: agent.name, grants: agent.grants, cwd, signal };
  }

  /** Runs a call. @returns the output for the model. Throws `AgentAbortError` when the work must end. */
  async act(call: PlannerCall): Promise<string> {
    const { emit, telling, tools } = this.#options;
    const args = readArguments(call.arguments);
    await emit({ type: 'tool_call', call_id: call.id, tool: call.name, arguments: args });
    const revoked = await this.#isRevoked();
    const { ok, output, truncated } = await telling.tool(call, tools.get(call.name), async (work) =>
      capped(
        revoked ? refused('session_revoked', revokedMessage) : await this.#outcome(call.name, args, work),
      ),
    );
    await emit({ type: 'tool_result', call_id: call.id, ok, output, truncated });
    if (revoked) throw new Abortion('error', revokedMessage);
    this.#count(call, ok);
    return output;
  }

  async #isRevoked(): Promise<boolean> {
    const { sessions, request } = this.#options;
    const { sessionId } = request.about;
    return sessionId !== undefined && (await sessions.isRevoked(sessionId));
  }

  async #outcome(name: string, args: unknown, work: Work<'tool'>): Promise<Outcome> {
    const { tools, signal, onFault } = this.#options;
    const tool = tools.get(name);
    if (!tool) return refused('unknown_tool', noSuchTool(name, tools));
    const why = tool.unavailable?.();
    if (why !== undefined) return failed('tool_unavailable', `${name} cannot run at the moment: ${why}`);
    const fault = argumentFaults(tool, args);
    if (fault !== undefined || !isRecord(args)) return refused('invalid_arguments', fault ?? '');
    try {
      return await this.#use(tool, args, work);
    } catch (error) {
      // When the store fails nothing can be recorded, so the work ends.
      if (signal.aborted || error instanceof Abortion || error instanceof StoreError) throw error;
      if (error instanceof AgentError) return (isOurs(error) ? failed : refused)(error.code, error.message);
      onFault(error);
      return failed('internal_error', `${name} failed; the host's log says why.`);
    }
  }

  async #use(tool: Tool, args: Arguments, work: Work<'tool'>): Promise<Outcome> {
    const { request, changes, signal } = this.#options;
    if (tool.kind === 'read') return await unlessAborted(tool.run(args, this.#context), signal);
    const proposal = await unlessAborted(tool.propose(args, this.#context), signal);
    if ('output' in proposal) return proposal;
    const isGranted = request.agent.grants.auto_approve.some((glob) => globMatches(glob, tool.name));
    if (!isGranted) return await this.#stage(tool, proposal, work);
    await request.beforeEffect?.();
    return await unlessAborted(changes.applyNow(tool, proposal, this.#context), signal);
  }

  async #stage(tool: ChangeTool, proposal: Proposal, work: Work<'tool'>): Promise<Outcome> {
    const { request, changes, deadline, emit, hostSignal } = this.#options;
    const waits = request.onStaged === 'wait';
    // A staged change may be applied at any time.
    if (waits) await request.beforeEffect?.();
    // Not interruptible: the event of a staged change must be emitted, so that the change can be withdrawn later.
    const { id, summary } = await changes.stage(tool, proposal, this.#context);
    work.facts.staged = true;
    await emit({ type: 'staged', pending_id: id, tool: tool.name, summary });
    if (!waits) return { ok: true, output: stagedMessage(id), truncated: false };
    const { state, output } = await deadline.without(() =>
      unlessAborted(changes.decision(id, hostSignal), hostSignal),
    );
    if (state === 'applied') return output ?? { ok: true, output: 'Done.', truncated: false };
    if (state === 'discarded') return refused('declined', 'A person declined this change; it was not made.');
    if (state === 'expired')
      return refused('expired', 'Nobody decided on this change in time; it was not made.');
    return output ?? failed('apply_failed', 'This change was approved, but it could not be made.');
  }

  #count({ name, arguments: args }: PlannerCall, ok: boolean): void {
    const key = `${name} ${args}`;
    const failures = ok ? 0 : (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    if (failures < mostFailures) return;
    const message = `The model made the same call of ${name.slice(0, 100)} ${failures} times, and it always failed.`;
    throw new Abortion('budget', message);
  }
}

const bad =
  (outcome: 'refused' | 'failed') =>
  (code: string, output: string): Outcome => ({
    ok: false,
    output,
    truncated: false,
    ending: { outcome, code },
  });
const refused = bad('refused');
const failed = bad('failed');

/** Whether the same call may succeed later. */
const isOurs = ({ kind }: AgentError): boolean => kind === 'unavailable' || kind === 'too_many';

const revokedMessage = 'The session was revoked: nothing more is done for it.';

/** Short JSON without host paths, which small models handle well. */
const stagedMessage = (id: string) => `{"status": "waits for a person", "id": "${id}", "done": false}`;

/** Lists only the tools that the agent may call. */
function noSuchTool(name: string, tools: ReadonlyMap<string, Tool>): string {
  const known = [...tools.keys()].slice(0, 50).join(', ');
  return `There is no tool '${name.slice(0, 100)}' for you. ${known === '' ? 'You have no tools.' : `Your tools: ${known}.`}`;
}
