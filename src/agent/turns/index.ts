import type { Watch } from '../../watch/index.ts';
import type { Clock } from '../clock.ts';
import type { Planners } from '../planner.ts';
import type { Changes, StoreSessions, Toolbox, Turns, TurnsRequest, TurnsResult } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import { Abortion, toAbortion } from './abortion.ts';
import { Acting } from './acting.ts';
import { Deadline, limitsOf, Spending } from './limits.ts';
import { Talk } from './talk.ts';
import { Telling } from './telling.ts';

export interface TurnLoopOptions {
  readonly planners: Pick<Planners, 'find'>;
  readonly toolbox: Pick<Toolbox, 'granted'>;
  readonly changes: Pick<Changes, 'stage' | 'applyNow' | 'decision'>;
  readonly sessions: Pick<StoreSessions, 'isRevoked'>;
  readonly clock: Clock;
  readonly watch: Watch;
  /** Called with unexpected errors. */
  readonly onFault: (where: string, error: unknown) => void;
}

/** Agent loop: asks the model, runs its tool calls and sends it the results, until it answers without calls. */
export class TurnLoop implements Turns {
  readonly #options: TurnLoopOptions;

  constructor(options: TurnLoopOptions) {
    this.#options = options;
  }

  async run(
    request: TurnsRequest,
    emit: (event: NewTurnEvent) => Promise<void>,
    signal: AbortSignal,
  ): Promise<TurnsResult> {
    const limits = limitsOf(request.agent.limits, request.limits);
    const spending = new Spending(limits);
    const deadline = new Deadline(limits.seconds, this.#options.clock);
    try {
      const text = await this.#work(request, emit, { spending, deadline, hostSignal: signal });
      const told = spending.told();
      await emit({ type: 'answer', text, ...told });
      return { kind: 'answer', text, ...told };
    } catch (error) {
      const onFault = (fault: unknown) => this.#options.onFault('an agent', fault);
      const { reason, message } = toAbortion(error, { host: signal, deadline: deadline.signal }, onFault);
      await emit({ type: 'aborted', reason, message });
      return { kind: 'aborted', reason, message, ...spending.told() };
    } finally {
      deadline.stop();
    }
  }

  async #work(
    request: TurnsRequest,
    emit: (event: NewTurnEvent) => Promise<void>,
    bounds: { spending: Spending; deadline: Deadline; hostSignal: AbortSignal },
  ): Promise<string> {
    const { planners, toolbox, changes, sessions, watch, onFault } = this.#options;
    const { spending, deadline, hostSignal } = bounds;
    const { agent } = request;
    const signal = AbortSignal.any([hostSignal, deadline.signal]);
    signal.throwIfAborted();
    const tools = new Map(toolbox.granted({ grants: agent.grants }).map((tool) => [tool.name, tool]));
    requireChosen(agent.tool_choice, tools);
    const telling = new Telling({ watch, request, emit, signal });
    const acting = new Acting({
      changes,
      sessions,
      request,
      tools,
      deadline,
      emit,
      telling,
      hostSignal,
      signal,
      onFault: (error) => onFault('a tool', error),
    });
    const planner = planners.find(agent.model);
    const talk = new Talk({ planner, request, tools: [...tools.values()], spending, emit, telling, signal });
    for (;;) {
      const calls = await talk.turn();
      if (calls === undefined) return talk.text;
      for (const call of calls) talk.result(call, await acting.act(call));
    }
  }
}

function requireChosen(
  choice: TurnsRequest['agent']['tool_choice'],
  tools: ReadonlyMap<string, unknown>,
): void {
  if (choice === undefined || choice === 'auto') return;
  if (choice === 'required' ? tools.size > 0 : tools.has(choice.name)) return;
  const message =
    choice === 'required'
      ? 'The agent must call a tool (tool_choice), but it is granted none that can run.'
      : `The agent must call '${choice.name}' (tool_choice), but that tool is not granted to it or cannot run.`;
  throw new Abortion('error', message);
}
