/**
 * Client of a lathe host for its agents: tasks, conversations, approvals. Package export `lathe/client`; runs in Node and in
 * pages of the host's origin. Types are those of the host's own API document.
 *
 * @example
 * const lathe = new Lathe({ url: 'http://127.0.0.1:8080' });
 * const task = await lathe.tasks.start({ prompt: 'Fix the failing test.', cwd, approvals: 'wait' });
 * for await (const event of task) {
 *   if (event.type === 'delta') process.stdout.write(event.text);
 *   if (event.type === 'waiting') await lathe.pending.approve(event.pending_id); // or discard(id, { note })
 * }
 * const next = await lathe.tasks.send(task.id, { prompt: 'Now the docs.' });
 */
import { Agents } from './agents.ts';
import { checkOptions } from './check.ts';
import { type EventOptions, readEvents } from './event-stream.ts';
import { Pending } from './pending.ts';
import { Tasks } from './tasks.ts';
import { type LatheOptions, Transport } from './transport.ts';
import type { AgentEvent } from './types.ts';

export class Lathe {
  readonly agents: Agents;
  readonly tasks: Tasks;
  readonly pending: Pending;
  readonly #transport: Transport;

  constructor(options: LatheOptions = {}) {
    checkOptions('Lathe', options, { url: 'text', token: 'text', fetch: 'function' });
    const transport = new Transport(options);
    this.agents = new Agents(transport);
    this.tasks = new Tasks(transport);
    this.pending = new Pending(transport);
    this.#transport = transport;
  }

  /**
   * The events of all tasks, runs and pending changes, without end: each once and in order, also over lost connections and
   * restarts of the host. @throws LatheError when the host refuses it; `events_gone` where the events after an id are not kept any more
   */
  events(options: EventOptions = {}): AsyncGenerator<AgentEvent, void, undefined> {
    return readEvents(this.#transport, options);
  }
}

export type { EventOptions } from './event-stream.ts';
export type { LatheOptions } from './transport.ts';
export { LatheError } from './transport.ts';
export { TaskAborted, type TaskStream } from './task-stream.ts';
export type {
  AgentEvent,
  AgentSpec,
  MessageRequest,
  PendingChange,
  PendingChangeDetail,
  TaskDetail,
  TaskRequest,
  TaskRow,
  TurnEvent,
  Violation,
} from './types.ts';
