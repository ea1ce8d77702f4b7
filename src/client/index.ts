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
import { Pending } from './pending.ts';
import { Tasks } from './tasks.ts';
import { type LatheOptions, Transport } from './transport.ts';

export class Lathe {
  readonly agents: Agents;
  readonly tasks: Tasks;
  readonly pending: Pending;

  constructor(options: LatheOptions = {}) {
    checkOptions('Lathe', options, { url: 'text', token: 'text', fetch: 'function' });
    const transport = new Transport(options);
    this.agents = new Agents(transport);
    this.tasks = new Tasks(transport);
    this.pending = new Pending(transport);
  }
}

export type { LatheOptions } from './transport.ts';
export { LatheError } from './transport.ts';
export { TaskAborted, type TaskStream } from './task-stream.ts';
export type {
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
