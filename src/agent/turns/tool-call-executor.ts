import { raceAbort } from '../../util/race-abort.ts';
import { isRecord } from '../../util/json.ts';
import type { TraceSpan } from '../../tracing/index.ts';
import { globMatches } from '../agents/name-glob.ts';
import { StoreError } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { ChatModelToolCall } from '../chat-model.ts';
import {
  type BegunCall,
  type InterruptedChange,
  type PendingChangeService,
  repeatQuestion,
  type StoreSessions,
  type TurnLoopRequest,
} from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { ChangeTool, OnOutput, Proposal, Tool, ToolContext, ToolImage, ToolOutput } from '../tool.ts';
import { CallControl, CallStopped, type RunningCall } from './call-control.ts';
import { AgentAbortError } from './agent-abort-error.ts';
import { OutputEvents } from './output-events.ts';
import { describeArgumentErrors, type ToolArguments, parseArguments } from './tool-arguments.ts';
import { truncateOutput } from './truncate-output.ts';
import type { Deadline, TurnBudget } from './limits.ts';
import type { ToolCallOutcome, TurnTracer } from './turn-tracer.ts';

export interface ToolCallExecutorOptions {
  readonly changes: Pick<
    PendingChangeService,
    'stage' | 'stagedFiles' | 'applyNow' | 'decision' | 'stopApplying' | 'ask' | 'findInterrupted'
  >;
  readonly sessions: Pick<StoreSessions, 'isRevoked'>;
  readonly request: TurnLoopRequest;
  /** Tools that the agent may call, by name. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** Failures of the same call, without a change in between, that end the work. */
  readonly maxRepeatedFailures: number;
  readonly deadline: Deadline;
  readonly budget: TurnBudget;
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  readonly turnTracer: TurnTracer;
  /** Aborted when the host stops. */
  readonly hostSignal: AbortSignal;
  /** Aborted when the host stops or the deadline passes. */
  readonly signal: AbortSignal;
  readonly onFault: (error: unknown) => void;
}

interface CallInProgress {
  readonly span: TraceSpan<'tool'>;
  readonly callId: string;
  readonly running: RunningCall;
  readonly onOutput: OnOutput;
}

/** What the model gets of a call. */
export type ToolCallResult = Pick<ToolOutput, 'output' | 'image'>;

/** Calls that only read and run at the same time. */
const maxParallelReads = 8;

/** Runs the model's tool calls within the agent's grants, and emits their events. */
export class ToolCallExecutor {
  readonly #options: ToolCallExecutorOptions;
  readonly #context: ToolContext;
  readonly #calls: CallControl;
  /** Failures by call, since the last change. */
  readonly #failures = new Map<string, number>();

  constructor(options: ToolCallExecutorOptions) {
    this.#options = options;
    const { request, signal } = options;
    const { agent, owner, cwd, calls = new CallControl() } = request;
    this.#calls = calls;
    const staged = options.changes.stagedFiles(owner);
    this.#context = { ...owner, agent: agent.name, grants: agent.grants, cwd, staged, signal };
  }

  /** An image that was read before, if it is still what it was; in base64. */
  async readImageAgain({ path, digest }: ToolImage): Promise<string | undefined> {
    const image = (await this.#readFile(path))?.image;
    return image?.digest === digest ? image.data : undefined;
  }

  /** What `fs_read` shows of a file, if the agent may read it. */
  async #readFile(path: string): Promise<ToolOutput | undefined> {
    const tool = this.#options.tools.get('fs_read');
    if (tool?.kind !== 'read' || tool.source !== 'builtin') return undefined;
    return await tool.run({ path }, this.#context);
  }

  /** AGENTS.md of the working folder, which tells agents how to work there; undefined where the agent may not read it. */
  async readFolderGuide(): Promise<string | undefined> {
    const read = this.#context.cwd === undefined ? undefined : await this.#readFile('AGENTS.md');
    return read?.ok === true && !read.image ? read.output : undefined;
  }

  /**
   * Runs the calls of an answer: those that only read side by side, others alone and in their order.
   * @returns the outputs for the model, in the order of the calls. Throws `AgentAbortError` when the work must end
   */
  async *executeAll(
    calls: readonly ChatModelToolCall[],
  ): AsyncGenerator<{ readonly call: ChatModelToolCall; readonly result: ToolCallResult }, void, undefined> {
    const onlyReads = (call: ChatModelToolCall) => this.#options.tools.get(call.name)?.kind === 'read';
    for (let at = 0; at < calls.length; ) {
      const end = calls.findIndex((call, index) => index >= at && !onlyReads(call));
      const reads = calls.slice(at, Math.min(end < 0 ? calls.length : end, at + maxParallelReads));
      const group = reads.length > 0 ? reads : calls.slice(at, at + 1);
      // All of them end before the work does, so that no event comes after the last one.
      const results = await Promise.allSettled(group.map((call) => this.execute(call)));
      for (const [index, result] of results.entries()) {
        if (result.status === 'rejected') throw result.reason;
        yield { call: group[index] as ChatModelToolCall, result: result.value };
      }
      at += group.length;
    }
  }

  /** Runs a call. @returns the output for the model. Throws `AgentAbortError` when the work must end. */
  async execute(call: ChatModelToolCall): Promise<ToolCallResult> {
    const { emit, turnTracer, tools } = this.#options;
    const args = parseArguments(call.arguments);
    await emit({ type: 'tool_call', call_id: call.id, tool: call.name, arguments: args });
    const revoked = await this.#isRevoked();
    const { ok, output, truncated, image } = await turnTracer.traceToolCall(
      call,
      tools.get(call.name),
      async (span) =>
        truncateOutput(
          revoked
            ? refusedOutcome('session_revoked', revokedMessage)
            : await this.#withOutput(call, (onOutput) => this.#runCall(call, args, span, onOutput)),
        ),
    );
    await emit({ type: 'tool_result', call_id: call.id, ok, output, truncated });
    if (revoked) throw new AgentAbortError('error', revokedMessage);
    this.#countFailure(call, ok);
    return { output, ...(image ? { image } : {}) };
  }

  /**
   * Goes on with a call after an interruption.
   * @param begun what is known of the call, if it was begun
   */
  async goOn(call: ChatModelToolCall, begun: BegunCall | undefined): Promise<ToolCallResult> {
    const { emit } = this.#options;
    if (!begun) return await this.execute(call);
    if (begun.output !== undefined) return await this.#withImageAgain(call, begun.output);
    const outcome = await this.#goOnWith(call, begun);
    const { ok, output, truncated, image } = truncateOutput(outcome);
    await emit({ type: 'tool_result', call_id: call.id, ok, output, truncated });
    this.#countFailure(call, ok);
    return { output, ...(image ? { image } : {}) };
  }

  /** A result whose event was stored, but not its message: an image is read again. */
  async #withImageAgain(
    { name, arguments: text }: ChatModelToolCall,
    output: string,
  ): Promise<ToolCallResult> {
    const args = parseArguments(text);
    const path = isRecord(args) ? args['path'] : undefined;
    if (name !== 'fs_read' || typeof path !== 'string') return { output };
    const again = await this.#readFile(path);
    return again?.image && again.output === output ? { output, image: again.image } : { output };
  }

  async #goOnWith(call: ChatModelToolCall, begun: BegunCall): Promise<ToolCallOutcome> {
    const { changes, request, tools, emit } = this.#options;
    const { pendingId } = begun;
    if (pendingId !== undefined)
      return begun.isQuestion
        ? await this.#repeatIfApproved(call, pendingId)
        : await this.#goOnStaged(call, pendingId);
    if (tools.get(call.name)?.kind !== 'change') return await this.#runBegun(call);
    const key = this.#keyOf(call.id);
    const change: InterruptedChange =
      key === undefined ? { kind: 'unknown' } : await changes.findInterrupted(key);
    switch (change.kind) {
      case 'not_begun':
        return await this.#runBegun(call);
      case 'staged':
        // The host ended before it had told so.
        await emit({ type: 'staged', pending_id: change.id, tool: call.name, summary: change.summary });
        return await this.#goOnStaged(call, change.id);
      case 'made':
        return change.output;
      case 'unknown':
        // Nobody decides on changes of a task that does not wait for decisions.
        if (request.onStaged !== 'wait') return failedOutcome('interrupted', interruptedMessage);
        return await this.#repeatIfApproved(call, await this.#askToRepeat(call));
    }
  }

  async #goOnStaged(call: ChatModelToolCall, id: string): Promise<ToolCallOutcome> {
    if (this.#options.request.onStaged !== 'wait') return stagedOutcome(id);
    return await this.#withOutput(call, (onOutput) =>
      this.#calls.run((running) => this.#awaitDecision(id, running, onOutput)),
    );
  }

  /** The conversation and the id in it; undefined where the conversation is not recorded. */
  #keyOf(callId: string): string | undefined {
    const { conversation } = this.#options.request;
    return conversation && `${conversation.id} ${callId}`;
  }

  #keyMember(callId: string): Pick<ToolContext, 'callKey'> {
    const callKey = this.#keyOf(callId);
    return callKey === undefined ? {} : { callKey };
  }

  /** Asks a person whether to make a call again that may have been made. @returns the id of the question */
  async #askToRepeat({ name, arguments: text }: ChatModelToolCall): Promise<string> {
    const { changes, request, emit } = this.#options;
    const { id, summary } = await changes.ask({
      ...request.owner,
      tool: repeatQuestion,
      agent: request.agent.name,
      intent: `The host ended while this call of ${name} ran. It may have been made, in whole or in part; check that before you decide.`,
      summary: `Make the call of ${name} again, with ${text.length > 500 ? `${text.slice(0, 500)} ...` : text}`,
    });
    await emit({ type: 'staged', pending_id: id, tool: repeatQuestion, summary });
    return id;
  }

  async #repeatIfApproved(call: ChatModelToolCall, question: string): Promise<ToolCallOutcome> {
    const { ok } = await this.#calls.run((running) =>
      this.#awaitDecision(question, running, () => undefined),
    );
    return ok
      ? await this.#runBegun(call)
      : failedOutcome('interrupted', `${interruptedMessage} A person did not let it be made again.`);
  }

  /** Runs a call whose event was emitted. */
  async #runBegun(call: ChatModelToolCall): Promise<ToolCallOutcome> {
    const { turnTracer, tools } = this.#options;
    const args = parseArguments(call.arguments);
    return await turnTracer.traceToolCall(call, tools.get(call.name), (span) =>
      this.#withOutput(call, (onOutput) => this.#runCall(call, args, span, onOutput)),
    );
  }

  /** Emits what a call prints while it runs; nothing of it comes after the call has ended. */
  async #withOutput<T>({ id }: ChatModelToolCall, run: (onOutput: OnOutput) => Promise<T>): Promise<T> {
    const events = new OutputEvents(id, this.#options.emit);
    try {
      return await run(events.add);
    } finally {
      await events.end();
    }
  }

  async #isRevoked(): Promise<boolean> {
    const { sessions, request } = this.#options;
    const { sessionId } = request.owner;
    return sessionId !== undefined && (await sessions.isRevoked(sessionId));
  }

  async #runCall(
    { id, name }: ChatModelToolCall,
    args: unknown,
    span: TraceSpan<'tool'>,
    onOutput: OnOutput,
  ): Promise<ToolCallOutcome> {
    const { tools, signal, onFault } = this.#options;
    const tool = tools.get(name);
    if (!tool) return refusedOutcome('unknown_tool', unknownToolMessage(name, tools));
    const reason = tool.unavailable?.();
    if (reason !== undefined)
      return failedOutcome('tool_unavailable', `${name} cannot run at the moment: ${reason}`);
    const argumentErrors = describeArgumentErrors(tool, args);
    if (argumentErrors !== undefined || !isRecord(args))
      return refusedOutcome('invalid_arguments', argumentErrors ?? '');
    try {
      return await this.#calls.run((running) =>
        this.#invokeTool(tool, args, { span, callId: id, running, onOutput }),
      );
    } catch (error) {
      if (error instanceof CallStopped && !signal.aborted)
        return failedOutcome('stopped', 'A person stopped this call before it had ended.');
      // When the store fails nothing can be recorded, so the work ends.
      if (signal.aborted || error instanceof AgentAbortError || error instanceof StoreError) throw error;
      if (error instanceof AgentError)
        return (isRetryable(error) ? failedOutcome : refusedOutcome)(error.code, error.message);
      onFault(error);
      return failedOutcome('internal_error', `${name} failed; the host's log says why.`);
    }
  }

  async #invokeTool(
    tool: Tool,
    args: ToolArguments,
    { span, callId, running, onOutput }: CallInProgress,
  ): Promise<ToolCallOutcome> {
    const { request, changes, budget, deadline } = this.#options;
    const signal = AbortSignal.any([this.#options.signal, running.signal]);
    const isHostStopping = () => request.isHostStopping?.() === true;
    const delegation = {
      waits: request.onStaged === 'wait',
      tokensLeft: () => budget.tokensLeft,
      spend: (tokens: number) => budget.spend(tokens),
      pauseDeadline: <T>(wait: () => Promise<T>) => deadline.pauseWhile(wait),
      isHostStopping,
    };
    const context = { ...this.#context, signal, onOutput, delegation, ...this.#keyMember(callId) };
    if (tool.kind === 'read') {
      return await raceAbort(tool.run(args, context), signal).catch((error: unknown) => {
        throw tool.isWaiting === true && isHostStopping() ? new SuspendedWhileWaiting() : error;
      });
    }
    const proposal = await raceAbort(tool.propose(args, context), signal);
    if ('output' in proposal) return proposal;
    const isAutoApproved = request.agent.grants.auto_approve.some((glob) => globMatches(glob, tool.name));
    if (!isAutoApproved) return await this.#stage(tool, proposal, { span, callId, running, onOutput });
    await request.beforeEffect?.();
    return await raceAbort(changes.applyNow(tool, proposal, context), signal);
  }

  async #stage(
    tool: ChangeTool,
    proposal: Proposal,
    { span, callId, running, onOutput }: CallInProgress,
  ): Promise<ToolCallOutcome> {
    const { request, changes, emit } = this.#options;
    const waitsForDecision = request.onStaged === 'wait';
    // A staged change may be applied at any time.
    if (waitsForDecision) await request.beforeEffect?.();
    // Not interruptible: the event of a staged change must be emitted, so that the change can be withdrawn later.
    const { id, summary } = await changes.stage(tool, proposal, {
      ...this.#context,
      ...this.#keyMember(callId),
    });
    span.attributes.staged = true;
    await emit({ type: 'staged', pending_id: id, tool: tool.name, summary });
    if (!waitsForDecision) return stagedOutcome(id);
    return await this.#awaitDecision(id, running, onOutput);
  }

  /** The outcome of a staged change, when a person has decided. */
  async #awaitDecision(id: string, running: RunningCall, onOutput: OnOutput): Promise<ToolCallOutcome> {
    const { request, changes, deadline, emit, hostSignal } = this.#options;
    const isTask = request.owner.taskId !== undefined;
    const { whileWaiting = (wait) => wait() } = request;
    if (isTask) await emit({ type: 'waiting', pending_id: id });
    // What nobody has decided on is not stopped.
    const decision = running.stoppedBy(
      () => changes.stopApplying(id),
      () =>
        deadline.pauseWhile(() =>
          whileWaiting(() => raceAbort(changes.decision(id, hostSignal, onOutput), hostSignal)),
        ),
    );
    const { state, output, note } = await decision.catch((error: unknown) => {
      // A change that was approved is part of the work that is stopped.
      changes.stopApplying(id);
      // A task of which nothing but the decision is missing outlives the host; one that was stopped does not.
      throw isTask && request.isHostStopping?.() === true ? new SuspendedWhileWaiting() : error;
    });
    if (state === 'applied') return output ?? { ok: true, output: 'Done.', truncated: false };
    if (state === 'discarded')
      return refusedOutcome(
        'declined',
        `A person declined this change; it was not made.${isTask && note !== undefined ? ` They wrote: ${note}` : ''}`,
      );
    if (state === 'expired')
      return refusedOutcome('expired', 'Nobody decided on this change in time; it was not made.');
    return output ?? failedOutcome('apply_failed', 'This change was approved, but it could not be made.');
  }

  #countFailure({ name, arguments: args }: ChatModelToolCall, ok: boolean): void {
    const { tools, maxRepeatedFailures } = this.#options;
    const key = `${name} ${args}`;
    if (ok) {
      // After a change, a call that failed before may succeed.
      if (tools.get(name)?.kind === 'change') this.#failures.clear();
      else this.#failures.delete(key);
      return;
    }
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    if (failures < maxRepeatedFailures) return;
    throw new AgentAbortError(
      'budget',
      `The model made the same call of ${name.slice(0, 100)} ${failures} times, and it always failed (limits.max_repeated_failures).`,
    );
  }
}

const errorOutcome =
  (outcome: 'refused' | 'failed') =>
  (code: string, output: string): ToolCallOutcome => ({
    ok: false,
    output,
    truncated: false,
    spanResult: { outcome, code },
  });
const refusedOutcome = errorOutcome('refused');
const failedOutcome = errorOutcome('failed');

/** Whether the same call may succeed later. */
const isRetryable = ({ kind }: AgentError): boolean => kind === 'unavailable' || kind === 'too_many';

const revokedMessage = 'The session was revoked: nothing more is done for it.';

/** The host stops while a person decides on a change of a task. */
export class SuspendedWhileWaiting extends Error {}

const interruptedMessage =
  'The host was stopped while this call ran. It may have been done, in whole or in part: look before you repeat it.';

/** Short JSON without host paths, which small models handle well. */
const stagedOutcome = (id: string): ToolCallOutcome => ({
  ok: true,
  output: `{"status": "waits for a person", "id": "${id}", "done": false}`,
  truncated: false,
});

/** Lists only the tools that the agent may call. */
function unknownToolMessage(name: string, tools: ReadonlyMap<string, Tool>): string {
  const known = [...tools.keys()].slice(0, 50).join(', ');
  return `There is no tool '${name.slice(0, 100)}' for you. ${known === '' ? 'You have no tools.' : `Your tools: ${known}.`}`;
}
