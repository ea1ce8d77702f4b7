import { StoreError } from '../../store/index.ts';
import { sleep } from '../../util/sleep.ts';
import type { TraceSpan } from '../../tracing/index.ts';
import type { StreamWriter } from '../event-log/stream-writer.ts';
import { toSpanResult } from '../to-span-result.ts';
import type { TurnTotals, TurnRunner, TurnLoopRequest } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import { CallControl } from '../turns/call-control.ts';
import { TaskAlreadyEnded, endTask, type TaskEndServices, type FinalTurnEvent } from './end-task.ts';
import { describeTurnEvent } from './task-texts.ts';

/** Delays between attempts to store the end of a task. */
const retryDelaysMs = [100, 250, 500, 1000, 2000, 5000];
/** Attempts while the host stops; the next start ends the task if all fail. */
const maxWhenStopping = 3;

export interface RunningTaskOptions extends TaskEndServices {
  readonly id: string;
  /** Span of the task. */
  readonly span: TraceSpan<'task'>;
  readonly turnRunner: TurnRunner;
  readonly request: TurnLoopRequest;
  readonly writer: StreamWriter<NewTurnEvent>;
  readonly stopping: AbortSignal;
  readonly onFault: (where: string, error: unknown) => void;
}

/** One running task. It needs no reader of its events. */
export class RunningTask {
  readonly #options: RunningTaskOptions;
  /** Whether a person has to decide on a change before it goes on. */
  isWaiting = false;
  readonly calls = new CallControl();
  /** `last_event` of the session feed. */
  lastEvent = 'started';

  constructor(options: RunningTaskOptions) {
    this.#options = options;
  }

  /** Resolves when the end of the task is stored, or storing it has failed. Never rejects. */
  async run(): Promise<void> {
    const { writer, span, stopping, onFault, id } = this.#options;
    const end = await this.#runTurns();
    if (!end) {
      // The next start goes on; the row stays as it is.
      span.end({ outcome: 'abandoned', code: 'suspended' });
      await writer.end().catch((error: unknown) => onFault(`the stream of ${id}`, error));
      return;
    }
    const { event, totals } = end;
    span.attributes.turns = totals.turns;
    if (totals.usage) {
      span.attributes.promptTokens = totals.usage.prompt_tokens;
      span.attributes.completionTokens = totals.usage.completion_tokens;
    }
    try {
      await this.#storeEnd(event, totals);
      span.end(event.type === 'answer' ? { outcome: 'ok' } : { outcome: 'failed', code: event.reason });
    } catch (error) {
      onFault(`the end of ${id}`, error);
      span.end(toSpanResult(error, stopping));
    } finally {
      await writer.end().catch((error: unknown) => onFault(`the stream of ${id}`, error));
    }
  }

  /** @returns undefined when the host stops while a person decides */
  async #runTurns(): Promise<{ event: FinalTurnEvent; totals: TurnTotals } | undefined> {
    const { turnRunner, request, stopping, onFault, id } = this.#options;
    let finalEvent: FinalTurnEvent | undefined;
    const emit = async (event: NewTurnEvent) => {
      this.lastEvent = describeTurnEvent(event) ?? this.lastEvent;
      if (event.type === 'waiting') this.isWaiting = true;
      else if (event.type === 'tool_output' || event.type === 'tool_result') this.isWaiting = false;
      // The final event is written together with the end of the task.
      if (event.type === 'answer' || event.type === 'aborted') finalEvent = event;
      else if (event.type === 'waiting') await this.#storeWait(event);
      else await this.#options.writer.append(event);
    };
    try {
      const totals = await turnRunner.run({ ...request, calls: this.calls }, emit, stopping);
      if (totals.kind === 'suspended') return undefined;
      if (finalEvent) return { event: finalEvent, totals };
      onFault(id, new Error('the turns ended without a last event'));
    } catch (error) {
      onFault(id, error);
    }
    const message = 'The host failed; its log says why.';
    return { event: { type: 'aborted', reason: 'error', message }, totals: { turns: 0 } };
  }

  async #storeWait(event: Extract<NewTurnEvent, { type: 'waiting' }>): Promise<void> {
    const { id, writer, signals } = this.#options;
    const { pending_id } = event;
    await writer.appendWith(event, async (tx) => {
      const { agent, title, part } = await tx
        .selectFrom('tasks')
        .select(['agent', 'title', 'part'])
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      await signals.emit(tx, 'task.waiting', { id, agent, title, part, waiting_on: 'approval', pending_id });
    });
  }

  /** Retries, because a full disk may have room again. */
  async #storeEnd(event: FinalTurnEvent, totals: TurnTotals): Promise<void> {
    const { id, writer, stopping, onFault } = this.#options;
    for (let attempts = 1; ; attempts++) {
      try {
        await writer.appendWith(event, (tx) => endTask(this.#options, tx, id, event, totals));
        return;
      } catch (error) {
        // The previous attempt was stored, although its commit was not confirmed.
        if (error instanceof TaskAlreadyEnded && attempts > 1) return;
        if (!(error instanceof StoreError) || (stopping.aborted && attempts >= maxWhenStopping)) throw error;
        if (attempts === 1) onFault(`the end of ${id}, which is retried`, error);
        await sleep(retryDelaysMs[attempts - 1] ?? retryDelaysMs.at(-1) ?? 0);
      }
    }
  }
}
