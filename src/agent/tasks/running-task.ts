import { StoreError } from '../../store/index.ts';
import { pause } from '../../util/pause.ts';
import type { Work } from '../../watch/index.ts';
import type { StreamWriter } from '../event-log/writer.ts';
import { endingOf } from '../ending-of.ts';
import type { Spent, Turns, TurnsRequest } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import { EndedAlready, endTask, type EndingServices, type LastEvent } from './ending.ts';
import { oneLiner } from './sayings.ts';

/** Delays between attempts to store the end of a task. */
const patienceMs = [100, 250, 500, 1000, 2000, 5000];
/** Attempts while the host stops; the next start ends the task if all fail. */
const mostWhenStopping = 3;

export interface RunningTaskOptions extends EndingServices {
  readonly id: string;
  /** Span of the task. */
  readonly work: Work<'task'>;
  readonly turns: Turns;
  readonly request: TurnsRequest;
  readonly writer: StreamWriter<NewTurnEvent>;
  readonly stopping: AbortSignal;
  readonly onFault: (where: string, error: unknown) => void;
}

/** One running task. It needs no reader of its events. */
export class RunningTask {
  readonly #options: RunningTaskOptions;
  /** `last_event` of the session feed. */
  lastEvent = 'started';

  constructor(options: RunningTaskOptions) {
    this.#options = options;
  }

  /** Resolves when the end of the task is stored, or storing it has failed. Never rejects. */
  async run(): Promise<void> {
    const { writer, work, stopping, onFault, id } = this.#options;
    const { event, spent } = await this.#work();
    work.facts.turns = spent.turns;
    if (spent.usage) {
      work.facts.promptTokens = spent.usage.prompt_tokens;
      work.facts.completionTokens = spent.usage.completion_tokens;
    }
    try {
      await this.#end(event, spent);
      work.end(event.type === 'answer' ? { outcome: 'ok' } : { outcome: 'failed', code: event.reason });
    } catch (error) {
      onFault(`the end of ${id}`, error);
      work.end(endingOf(error, stopping));
    } finally {
      await writer.end().catch((error: unknown) => onFault(`the stream of ${id}`, error));
    }
  }

  async #work(): Promise<{ event: LastEvent; spent: Spent }> {
    const { turns, request, stopping, onFault, id } = this.#options;
    let last: LastEvent | undefined;
    const emit = async (event: NewTurnEvent) => {
      this.lastEvent = oneLiner(event) ?? this.lastEvent;
      // The final event is written together with the end of the task.
      if (event.type === 'answer' || event.type === 'aborted') last = event;
      else await this.#options.writer.append(event);
    };
    try {
      const spent = await turns.run(request, emit, stopping);
      if (last) return { event: last, spent };
      onFault(id, new Error('the turns ended without a last event'));
    } catch (error) {
      onFault(id, error);
    }
    const message = 'The host failed; its log says why.';
    return { event: { type: 'aborted', reason: 'error', message }, spent: { turns: 0 } };
  }

  /** Retries, because a full disk may have room again. */
  async #end(event: LastEvent, spent: Spent): Promise<void> {
    const { id, writer, stopping, onFault } = this.#options;
    for (let tries = 1; ; tries++) {
      try {
        await writer.appendWith(event, (tx) => endTask(this.#options, tx, id, event, spent));
        return;
      } catch (error) {
        // The previous attempt was stored, although its commit was not confirmed.
        if (error instanceof EndedAlready && tries > 1) return;
        if (!(error instanceof StoreError) || (stopping.aborted && tries >= mostWhenStopping)) throw error;
        if (tries === 1) onFault(`the end of ${id}, which is retried`, error);
        await pause(patienceMs[tries - 1] ?? patienceMs.at(-1) ?? 0);
      }
    }
  }
}
