import type { Tracer } from '../../tracing/index.ts';
import type { Clock } from '../clock.ts';
import type { ChatModels } from '../chat-model.ts';
import type {
  PendingChangeService,
  StoreSessions,
  Toolbox,
  TurnRunner,
  TurnLoopRequest,
  TurnLoopResult,
} from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import { AgentAbortError, toAgentAbortError } from './agent-abort-error.ts';
import { SuspendedWhileWaiting, ToolCallExecutor } from './tool-call-executor.ts';
import { Deadline, resolveLimits, TurnBudget } from './limits.ts';
import { ModelDialog } from './model-dialog.ts';
import { TurnTracer } from './turn-tracer.ts';

export interface TurnLoopOptions {
  readonly chatModels: Pick<ChatModels, 'find'>;
  readonly toolbox: Pick<Toolbox, 'granted'>;
  readonly changes: Pick<
    PendingChangeService,
    'stage' | 'stagedFiles' | 'applyNow' | 'decision' | 'stopApplying' | 'ask' | 'findInterrupted'
  >;
  readonly sessions: Pick<StoreSessions, 'isRevoked'>;
  readonly clock: Clock;
  readonly tracer: Tracer;
  /** Called with unexpected errors. */
  readonly onFault: (where: string, error: unknown) => void;
}

/** Agent loop: asks the model, runs its tool calls and sends it the results, until it answers without calls. */
export class TurnLoop implements TurnRunner {
  readonly #options: TurnLoopOptions;

  constructor(options: TurnLoopOptions) {
    this.#options = options;
  }

  async run(
    request: TurnLoopRequest,
    emit: (event: NewTurnEvent) => Promise<void>,
    signal: AbortSignal,
  ): Promise<TurnLoopResult> {
    const limits = resolveLimits(request.agent.limits, request.limits);
    const interrupted = request.conversation?.interrupted;
    const budget = new TurnBudget(limits, interrupted);
    const deadline = new Deadline(limits.timeoutSecs, this.#options.clock);
    try {
      const text = await this.#runTurns(request, emit, { ...limits, budget, deadline, hostSignal: signal });
      const totals = budget.totals();
      await emit({ type: 'answer', text, ...totals });
      return { kind: 'answer', text, ...totals };
    } catch (error) {
      if (error instanceof SuspendedWhileWaiting) return { kind: 'suspended', ...budget.totals() };
      const onFault = (fault: unknown) => this.#options.onFault('an agent', fault);
      const { reason, message } = toAgentAbortError(
        error,
        { host: signal, deadline: deadline.signal },
        onFault,
      );
      await emit({ type: 'aborted', reason, message });
      return { kind: 'aborted', reason, message, ...budget.totals() };
    } finally {
      deadline.stop();
    }
  }

  async #runTurns(
    request: TurnLoopRequest,
    emit: (event: NewTurnEvent) => Promise<void>,
    limits: {
      budget: TurnBudget;
      deadline: Deadline;
      hostSignal: AbortSignal;
      maxRepeatedFailures: number;
    },
  ): Promise<string> {
    const { chatModels, toolbox, changes, sessions, tracer, onFault } = this.#options;
    const { budget, deadline, hostSignal, maxRepeatedFailures } = limits;
    const { agent } = request;
    const signal = AbortSignal.any([hostSignal, deadline.signal]);
    signal.throwIfAborted();
    const tools = new Map(toolbox.granted({ grants: agent.grants }).map((tool) => [tool.name, tool]));
    requireChosenTool(agent.tool_choice, tools);
    const turnTracer = new TurnTracer({ tracer, request, emit, signal });
    const executor = new ToolCallExecutor({
      changes,
      sessions,
      request,
      tools,
      maxRepeatedFailures,
      deadline,
      budget,
      emit,
      turnTracer,
      hostSignal,
      signal,
      onFault: (error) => onFault('a tool', error),
    });
    const chatModel = chatModels.find(agent.model);
    const dialog = new ModelDialog({
      chatModel,
      request,
      folderGuide: await executor.readFolderGuide(),
      tools: [...tools.values()],
      budget,
      emit,
      turnTracer,
      signal,
    });
    const interrupted = request.conversation?.interrupted;
    if (interrupted) {
      if (dialog.finalAnswer !== undefined) return dialog.finalAnswer;
      for (const call of dialog.unansweredCalls)
        await dialog.addToolResult(call, await executor.goOn(call, interrupted.calls.get(call.id)));
    }
    await dialog.restoreImages((image) => executor.readImageAgain(image));
    for (;;) {
      const calls = await dialog.turn();
      if (calls === undefined) return dialog.text;
      for await (const { call, result } of executor.executeAll(calls))
        await dialog.addToolResult(call, result);
    }
  }
}

function requireChosenTool(
  choice: TurnLoopRequest['agent']['tool_choice'],
  tools: ReadonlyMap<string, unknown>,
): void {
  if (choice === undefined || choice === 'auto') return;
  if (choice === 'required' ? tools.size > 0 : tools.has(choice.name)) return;
  const message =
    choice === 'required'
      ? 'The agent must call a tool (tool_choice), but it is granted none that can run.'
      : `The agent must call '${choice.name}' (tool_choice), but that tool is not granted to it or cannot run.`;
  throw new AgentAbortError('error', message);
}
