import { sleep } from '../util/sleep.ts';
import { checkOptions } from './check.ts';
import { linesOf, TaskStream } from './task-stream.ts';
import { LatheError, type Transport } from './transport.ts';
import type { MessageRequest, TaskDetail, TaskRequest, TaskRow, TurnEvent } from './types.ts';

interface StreamOptions {
  readonly signal?: AbortSignal;
  /** Default: a random one, so that a request whose response was lost starts nothing twice. */
  readonly idempotencyKey?: string;
}

const streamOptions = { signal: 'signal', idempotencyKey: 'text' } as const;

/** Tries of a request whose response was lost, and the pause after the first. */
const maxTries = 5;
const retryMs = 200;

/** Tasks: a prompt that an agent works on, and the messages that go on with it. */
export class Tasks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Starts a task. @throws LatheError */
  async start(request: TaskRequest, options: StreamOptions = {}): Promise<TaskStream> {
    checkOptions('tasks.start', options, streamOptions);
    const repeat = this.#poster('/tasks', request, options);
    for (let tries = 1; ; tries++) {
      const response = await repeat();
      // The first event has the id of the task.
      const [mine, theirs] = response.body?.tee() ?? [];
      try {
        const first = await firstEvent(new Response(mine));
        if (first?.type !== 'start')
          throw new LatheError('unreachable', 'the stream ended before its first event');
        const whole = new Response(theirs, { headers: response.headers });
        return new TaskStream(this.#transport, first.task_id, {
          response: whole,
          repeat,
          signal: options.signal,
        });
      } catch (error) {
        const isLost = error instanceof LatheError && error.isTransient;
        if (!isLost || tries === maxTries) throw error;
        await sleep(retryMs * tries, options.signal);
      }
    }
  }

  /** Goes on with a task that has ended. @throws LatheError `task_running` */
  async send(id: string, message: MessageRequest, options: StreamOptions = {}): Promise<TaskStream> {
    checkOptions('tasks.send', options, streamOptions);
    const repeat = this.#poster(`/tasks/${encodeURIComponent(id)}/messages`, message, options);
    return new TaskStream(this.#transport, id, { response: await repeat(), repeat, signal: options.signal });
  }

  /** The events of a task after a `seq`, up to the end of the part that they belong to. */
  events(id: string, options: { after?: number; signal?: AbortSignal } = {}): TaskStream {
    checkOptions('tasks.events', options, { after: 'number', signal: 'signal' });
    const { after = -1, signal } = options;
    return new TaskStream(this.#transport, id, { after, signal });
  }

  async get(id: string): Promise<TaskDetail> {
    return await this.#transport.json('GET', `/tasks/${encodeURIComponent(id)}`);
  }

  /** Newest first. */
  async list(options: { limit?: number; state?: TaskRow['state'] } = {}): Promise<readonly TaskRow[]> {
    checkOptions('tasks.list', options, { limit: 'number', state: 'text' });
    const { limit = 100, state } = options;
    const query = new URLSearchParams({ limit: String(limit), ...(state === undefined ? {} : { state }) });
    const { tasks } = await this.#transport.json<{ tasks: TaskRow[] }>('GET', `/tasks?${query}`);
    return tasks;
  }

  /** Ends a running task. */
  async stop(id: string): Promise<void> {
    await this.#transport.send('POST', `/tasks/${encodeURIComponent(id)}/stop`);
  }

  /** Ends the tool call that a task runs; the task goes on. @throws LatheError `no_call` */
  async stopCall(id: string): Promise<void> {
    await this.#transport.send('POST', `/tasks/${encodeURIComponent(id)}/stop`, { body: { only: 'call' } });
  }

  /** Sends a request, each time under the same key: a response that was lost starts nothing twice. */
  #poster(
    path: string,
    body: unknown,
    { signal, idempotencyKey = crypto.randomUUID() }: StreamOptions,
  ): () => Promise<Response> {
    const headers = { 'idempotency-key': idempotencyKey };
    return async () => {
      for (let tries = 1; ; tries++) {
        try {
          return await this.#transport.send('POST', path, { body, headers, signal });
        } catch (error) {
          const isLost = error instanceof LatheError && error.code === 'unreachable';
          if (!isLost || tries === maxTries) throw error;
          await sleep(retryMs * tries, signal);
        }
      }
    };
  }
}

async function firstEvent(response: Response): Promise<TurnEvent | undefined> {
  for await (const event of linesOf(response)) return event;
  return undefined;
}
