import { type Store, StoreError } from '../../store/index.ts';
import type { Tracer } from '../../tracing/index.ts';
import { raceAbort } from '../../util/race-abort.ts';
import { sleep } from '../../util/sleep.ts';
import type { TaskParent } from '../tools/builtin/delegate.ts';
import { AgentError } from '../errors.ts';
import { AgentAbortError } from '../turns/agent-abort-error.ts';
import type { EventLog } from '../event-log.ts';
import type { ChatModels } from '../chat-model.ts';
import type { AgentStore, Conversation, LiveSessionSource, StoreSessions, TurnRunner } from '../services.ts';
import type { Route } from '../shapes/common.ts';
import type { Session } from '../shapes/session.ts';
import type { MessageRequest, TaskDetail, TaskList, TaskRequest } from '../shapes/task.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { TaskEndServices } from './end-task.ts';
import { type TaskPlan, planTask } from './plan-task.ts';
import { endOrphanedTask, listOrphanedTasks } from './recovery.ts';
import { type TaskRow, toTaskSession } from './rows.ts';
import { RunningTask } from './running-task.ts';
import { requestDigest } from '../idempotency.ts';
import { findTaskByKey, insertTask, type NewTask, type StartedTask } from './insert-task.ts';
import { readStoredEvents } from './stored-events.ts';
import { delegationKey } from './delegation.ts';
import { findPartByKey, insertPart, partId, readPart, requestOfPart, taskRunning } from './parts.ts';
import { describeOpenCalls, newConversation, readConversation, withPart } from '../stored-conversation.ts';
import { partMessages, promptMessage } from '../turns/message-history.ts';
import { summarizeTurns } from './turn-summary.ts';

/** Maximum concurrent tasks, without those that wait for a person. */
const maxAtOnce = 32;
/** How often it is looked whether a task goes on after a restart. */
const resumePollMs = 200;
/** How often a task goes on after the host ended: the task itself may be the cause. */
const maxResumes = 10;
const endedMessage = 'The host ended during this task. Start it again if you still need it.';
const startingMessage = 'The host is starting; send it again in a moment.';

export interface TaskServiceOptions extends TaskEndServices {
  readonly store: Store;
  readonly log: EventLog;
  readonly agents: AgentStore;
  readonly chatModels: Pick<ChatModels, 'find'>;
  readonly turnRunner: TurnRunner;
  readonly sessions: Pick<StoreSessions, 'open' | 'close'>;
  readonly tracer: Tracer;
  /** False: stopped tasks are shown as failed. */
  readonly cancelledState: boolean;
  /** Called with unexpected errors. */
  readonly onFault: (where: string, error: unknown) => void;
}

/** A part of a task's conversation that is run. */
interface RunningPart {
  readonly request: TaskRequest;
  readonly conversation: Conversation;
  readonly part: number;
  readonly nextSeq: number;
}

interface RunningEntry {
  readonly task: RunningTask;
  readonly sessionId: string;
  /** Ends the task. */
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

/** A created task. Members beyond the id may be missing when an earlier request with the same key created it. */
export type CreatedTask = Pick<StartedTask, 'id'> & Partial<StartedTask>;

/** Client of a task, as in `acts.by`, and its W3C trace context. */
export interface TaskOrigin {
  readonly by?: string;
  readonly traceparent?: string | undefined;
}

/**
 * Runs tasks: one prompt each, which an agent works on until it has an answer. A task outlives its client's connection.
 */
export class TaskService implements LiveSessionSource {
  readonly #options: TaskServiceOptions;
  readonly #running = new Map<string, RunningEntry>();
  readonly #stopping = new AbortController();
  /** Transactions that create tasks. */
  readonly #starting = new Set<Promise<unknown>>();
  /** Tasks that the previous process left running, until this one goes on with them. */
  #interrupted: Set<string> | undefined;
  #served = 0;

  constructor(options: TaskServiceOptions) {
    this.#options = options;
  }

  /** Tasks started since the start of the host. */
  get served(): number {
    return this.#served;
  }

  /** Running tasks. */
  get running(): number {
    return this.#running.size;
  }

  /** Finds the tasks that the previous process left running, once. Call it before tasks are created or read. */
  async findInterrupted(): Promise<void> {
    this.#interrupted ??= new Set(await listOrphanedTasks(this.#options));
  }

  /**
   * Goes on with the tasks that the previous process left running, or ends those that cannot go on. Call it when the
   * model is loaded, and again until none is left: a full disk must not keep the host from starting.
   * @returns the number of tasks that are settled
   */
  async recover(): Promise<number> {
    await this.findInterrupted();
    let settled = 0;
    for (const id of this.#interrupted ?? []) {
      if (this.#stopping.signal.aborted) break;
      try {
        await this.#resume(id);
        this.#interrupted?.delete(id);
        settled += 1;
      } catch (error) {
        this.#options.onFault(`going on with ${id}`, error);
        // With a full disk none of them goes on; another fault is that of one task.
        if (error instanceof StoreError) break;
      }
    }
    return settled;
  }

  async #resume(id: string): Promise<void> {
    const { store, log, agents, chatModels } = this.#options;
    const row = await this.#row(id);
    if (row.state !== 'running') return;
    const { request, firstSeq, startedAt } = await store.read((db) => readPart(db, row));
    const end = async (message: string) => {
      const event = { type: 'aborted', reason: 'error', message } as const;
      await endOrphanedTask(this.#options, id, event, firstSeq);
    };
    const conversation = await readConversation(store, id, readStoredEvents(store, id), {
      firstSeq,
      startedAt,
    });
    if (conversation.messages.length === 0) return await end(endedMessage);
    if ((conversation.interrupted?.resumes ?? 0) >= maxResumes)
      return await end(`The host ended ${maxResumes + 1} times during this task.`);
    let plan: TaskPlan;
    let route: Route;
    try {
      plan = await planTask(request, agents);
      ({ route } = chatModels.find(plan.agent.model));
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      return await end(`The host ended during this task, and it cannot go on: ${error.message}`);
    }
    const seq = await store.read((db) => log.nextSeq(db, id));
    await store.transaction((tx) => log.insert(tx, id, seq, { type: 'resumed' }));
    const { part } = row;
    this.#run(
      { id, sessionId: row.session_id ?? '' },
      plan,
      route,
      {},
      { request, conversation, part, nextSeq: seq + 1 },
    );
  }

  /**
   * Goes on with a task that has ended: the next part of its conversation. It is stored with its first event when this
   * resolves. A known idempotency key returns the part that was started with it.
   * @returns the task, and the `seq` of the part's first event
   * @throws AgentError
   */
  async send(
    id: string,
    message: MessageRequest,
    idempotencyKey?: string,
    origin: TaskOrigin = {},
  ): Promise<CreatedTask & { readonly firstSeq: number }> {
    const { store, agents, chatModels } = this.#options;
    const digest = requestDigest(message);
    const findExisting = async () => {
      const part =
        idempotencyKey === undefined ? undefined : await findPartByKey(store, id, idempotencyKey, digest);
      return part && { id, firstSeq: part.first_seq };
    };
    const row = await this.#row(id);
    const existing = await findExisting();
    if (existing) return existing;
    if (row.state === 'running') throw taskRunning(id);
    // Its end is stored, and its stream is being closed.
    await this.#running.get(id)?.done;
    const task = JSON.parse(row.request) as TaskRequest;
    const request = requestOfPart(task, message);
    const plan = await planTask(request, agents);
    const { route } = chatModels.find(plan.agent.model);
    const conversation = await readConversation(store, id, readStoredEvents(store, id));
    if (conversation.messages.length === 0) throw noConversation(id);
    const messages = partMessages(
      conversation.messages,
      request,
      await describeOpenCalls(store, conversation),
    );
    const added = { first: conversation.messages.length, messages };
    this.#requireCapacity();
    const starting = store
      .transaction((tx) =>
        insertPart(this.#options, tx, row, { request: message, route, idempotencyKey, digest, added }),
      )
      .then((started) => {
        const { part, firstSeq } = started;
        const whole = withPart(store, id, conversation, messages);
        this.#run(started, plan, route, origin, {
          request,
          conversation: whole,
          part,
          nextSeq: firstSeq + 1,
        });
        return started;
      });
    this.#starting.add(starting);
    try {
      return await starting;
    } catch (error) {
      const sent = await findExisting();
      if (sent) return sent;
      throw error;
    } finally {
      this.#starting.delete(starting);
    }
  }

  /** Tasks, newest first. @param state only those in this state */
  async list(limit: number, state?: TaskRow['state']): Promise<TaskList> {
    const rows = await this.#options.store.read((db) =>
      db
        .selectFrom('tasks')
        .selectAll()
        .$if(state !== undefined, (query) => query.where('state', '=', state as TaskRow['state']))
        .orderBy('n', 'desc')
        .limit(limit)
        .execute(),
    );
    return { tasks: rows.map((row) => ({ ...this.#session(row), agent: row.agent, parts: row.part })) };
  }

  /**
   * Creates a task; it is stored with its first event when this resolves. A known idempotency key returns the task that
   * was created with it.
   * @throws AgentError
   */
  async create(
    request: TaskRequest,
    idempotencyKey?: string,
    origin: TaskOrigin = {},
    parent?: string,
  ): Promise<CreatedTask> {
    const { store, agents } = this.#options;
    const digest = requestDigest(request);
    const findExisting = () => findTaskByKey(store, idempotencyKey ?? '', digest);
    if (idempotencyKey !== undefined) {
      const existing = await findExisting();
      if (existing) return toCreatedTask(existing);
    }
    const plan = await planTask(request, agents);
    try {
      return await this.#start(request, plan, { idempotencyKey, digest, parent }, origin);
    } catch (error) {
      // The same request may have arrived twice at once.
      const existing = idempotencyKey === undefined ? undefined : await findExisting();
      if (existing) return toCreatedTask(existing);
      throw error;
    }
  }

  /** Starts a task that another one hands work on to; a call that is made again finds its task. @throws AgentError */
  async delegate(
    { id, agent, callKey }: TaskParent,
    makeRequest: () => Promise<TaskRequest>,
  ): Promise<string> {
    const key = delegationKey(callKey);
    // Whatever the request would be now: what is left of the caller's tokens, or an agent, may have changed since.
    const existing = await this.#options.store.read((db) =>
      db.selectFrom('tasks').select('id').where('idempotency_key', '=', key).executeTakeFirst(),
    );
    if (existing) return existing.id;
    const created = await this.create(await makeRequest(), key, { by: `agent:${agent}` }, id);
    return created.id;
  }

  /** Resolves when a task has ended. Rejects with the signal's reason. */
  async waitForEnd(id: string, signal: AbortSignal): Promise<TaskDetail> {
    for (;;) {
      signal.throwIfAborted();
      const detail = await this.detail(id);
      if (detail.state !== 'running') return detail;
      const running = this.#running.get(id);
      // After a restart it may not go on yet.
      await (running ? raceAbort(running.done, signal) : sleep(resumePollMs, signal));
      if (running) await sleep(0, signal);
    }
  }

  /** How many tasks are above a task. */
  async depthOf(id: string): Promise<number> {
    const { parent } = await this.#row(id);
    return parent === null || !parent.startsWith('t') ? 0 : 1 + (await this.depthOf(parent));
  }

  async #start(
    request: TaskRequest,
    plan: TaskPlan,
    key: Pick<NewTask, 'idempotencyKey' | 'digest' | 'parent'>,
    origin: TaskOrigin,
  ): Promise<StartedTask> {
    this.#requireCapacity();
    const { store, chatModels } = this.#options;
    const { route } = chatModels.find(plan.agent.model);
    const messages = [promptMessage(request)];
    const starting = store
      .transaction((tx) => insertTask(this.#options, tx, { request, route, messages, ...key }))
      .then((started) => {
        const conversation = newConversation(store, started.id, messages);
        this.#run(started, plan, route, origin, { request, conversation, part: 1, nextSeq: 1 });
        return started;
      });
    this.#starting.add(starting);
    try {
      return await starting;
    } finally {
      this.#starting.delete(starting);
    }
  }

  #requireCapacity(): void {
    if (this.#stopping.signal.aborted)
      throw new AgentError('unavailable', 'shutting_down', 'The host is being stopped; send it again later.');
    const waiting = [...this.#running.values()].filter(({ task }) => task.isWaiting).length;
    if (this.#running.size - waiting + this.#starting.size < maxAtOnce) return;
    const message = `${maxAtOnce} tasks are running, which is the maximum; send it again when one of them has ended.`;
    throw new AgentError('too_many', 'too_many_tasks', message);
  }

  #run(
    { id, sessionId }: Pick<StartedTask, 'id' | 'sessionId'>,
    plan: TaskPlan,
    route: Route,
    { by, traceparent }: TaskOrigin,
    { request, conversation, part, nextSeq }: RunningPart,
  ): void {
    const attributes = { agent: plan.agent.name, ...(by === undefined ? {} : { by }), ...route };
    const idPrefix = `${partId(id, part)}${conversation.interrupted ? `@${nextSeq}` : ''}`;
    const span = this.#options.tracer.startSpan('task', idPrefix, attributes, { traceparent });
    const writer = this.#options.log.open<NewTurnEvent>(id, { nextSeq });
    const stop = new AbortController();
    const task = new RunningTask({
      ...this.#options,
      id,
      span,
      writer,
      request: {
        ...plan,
        conversation,
        owner: { taskId: id, sessionId },
        trace: { span, idPrefix },
        onStaged: request.approvals === 'wait' ? 'wait' : 'go_on',
        isHostStopping: () => this.#stopping.signal.aborted && !stop.signal.aborted,
      },
      stopping: AbortSignal.any([this.#stopping.signal, stop.signal]),
    });
    const done = task.run().then(() => {
      this.#running.delete(id);
    });
    this.#running.set(id, { task, sessionId, stop, done });
    this.#served += 1;
  }

  /** The events of a task after a `seq`, up to the final one. @throws AgentError not_found */
  async events(
    id: string,
    after: number,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<string, void, undefined>> {
    await this.#row(id);
    const isComplete = async () => !this.#isRunning(await this.#row(id));
    return this.#options.log.read(id, { after, signal, isComplete });
  }

  /** @throws AgentError not_found */
  async detail(id: string): Promise<TaskDetail> {
    const row = await this.#row(id);
    const result = (row.result === null ? {} : JSON.parse(row.result)) as { text?: string; message?: string };
    return {
      ...this.#session(row),
      ok: row.state === 'running' || row.state === 'completed',
      agent: row.agent,
      ...(row.outcome === null ? {} : { outcome: row.outcome }),
      ...(result.text === undefined ? {} : { answer: result.text }),
      ...(result.message === undefined ? {} : { message: result.message }),
      ...(row.session_id === null ? {} : { session_id: row.session_id }),
      ...(row.parent === null ? {} : { parent: row.parent }),
      parts: row.part,
      ...(await this.#positions(row)),
      turns: await summarizeTurns(readStoredEvents(this.#options.store, id)),
    };
  }

  /**
   * Stops a running task: its tool is ended, its model no longer asked. Resolves when its end is stored.
   * @throws AgentError not_found; conflict `not_running`, `runs_elsewhere`
   */
  async stopTask(id: string, by: string): Promise<{ id: string; stopped: true }> {
    const { store } = this.#options;
    const running = await this.#requireRunning(id);
    await store.transaction((tx) =>
      store.appendAct(tx, { verb: 'task.stop', target: id, by, outcome: 'applied' }),
    );
    running.stop.abort(new AgentAbortError('cancelled', 'The task was stopped.'));
    await running.done;
    return { id, stopped: true };
  }

  /** Where the last part begins in the stream, and its last event. */
  async #positions(row: TaskRow): Promise<{ part_seq: number; last_seq: number }> {
    const { store, log } = this.#options;
    return await store.read(async (db) => ({
      part_seq: (await readPart(db, row)).firstSeq,
      last_seq: Math.max(0, (await log.nextSeq(db, row.id)) - 1),
    }));
  }

  async #requireRunning(id: string): Promise<RunningEntry> {
    const row = await this.#row(id);
    const running = this.#running.get(id);
    if (this.#interrupted?.has(id)) throw new AgentError('unavailable', 'starting', startingMessage);
    if (running && row.state === 'running') return running;
    throw row.state === 'running' && row.endpoint_id !== this.#options.store.endpointId
      ? new AgentError(
          'conflict',
          'runs_elsewhere',
          `${id} runs on host '${row.endpoint_id}': stop it there.`,
        )
      : new AgentError('conflict', 'not_running', `${id} has ended already.`);
  }

  /**
   * Stops the tool call that a task runs; the task goes on and is told.
   * @throws AgentError not_found; conflict `no_call`, and as `stopTask`
   */
  async stopCall(id: string, by: string): Promise<{ id: string; stopped: true }> {
    const { task } = await this.#requireRunning(id);
    if (!task.calls.stop()) throw new AgentError('conflict', 'no_call', `${id} runs no call at the moment.`);
    await this.#options.store.transaction((tx) =>
      this.#options.store.appendAct(tx, { verb: 'task.stop_call', target: id, by, outcome: 'applied' }),
    );
    return { id, stopped: true };
  }

  /** Stops the task that acts under a revoked store session, if it runs here. */
  async stopRevoked(sessionId: string): Promise<void> {
    for (const running of this.#running.values()) {
      if (running.sessionId !== sessionId) continue;
      running.stop.abort(new AgentAbortError('cancelled', 'Its session was revoked.'));
      await running.done;
    }
  }

  /** Whether a task runs here; a running task cannot be cancelled. */
  isLive(id: string): boolean {
    return this.#running.has(id);
  }

  async live(): Promise<Session[]> {
    const ids = [...this.#running.keys()];
    if (ids.length === 0) return [];
    const rows = await this.#options.store.read((db) =>
      db.selectFrom('tasks').selectAll().where('id', 'in', ids).orderBy('n', 'desc').execute(),
    );
    return rows.filter(({ state }) => state === 'running').map((row) => this.#session(row));
  }

  /** Ends all tasks, and resolves when their ends are stored. No task can be created afterwards. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled(this.#starting);
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  #session(row: TaskRow): Session {
    const running = row.state === 'running' ? this.#running.get(row.id) : undefined;
    const session = toTaskSession(row);
    const isShownAsFailed = row.state === 'cancelled' && !this.#options.cancelledState;
    return {
      ...session,
      ...(isShownAsFailed ? { state: 'failed' } : {}),
      ...(running ? { last_event: running.task.lastEvent } : {}),
      ...(running?.task.isWaiting ? { waiting_on: 'approval' } : {}),
    };
  }

  /** Whether a task runs here, or on another host as far as the database shows. */
  #isRunning({ id, state, endpoint_id }: TaskRow): boolean {
    return (
      state === 'running' &&
      (endpoint_id !== this.#options.store.endpointId ||
        this.isLive(id) ||
        this.#interrupted?.has(id) === true)
    );
  }

  async #row(id: string): Promise<TaskRow> {
    const row = await this.#options.store.read((db) =>
      db.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirst(),
    );
    if (row) return row;
    const hint = id.startsWith('r') ? ` A run is at GET /agent/v1/runs/${id.slice(0, 40)}.` : '';
    const message = `There is no task '${id.slice(0, 100)}'.${hint}`;
    throw new AgentError('not_found', 'unknown_task', message);
  }
}

const toCreatedTask = ({ id, session_id }: { id: string; session_id: string | null }): CreatedTask => ({
  id,
  ...(session_id === null ? {} : { sessionId: session_id }),
});

const noConversation = (id: string): AgentError =>
  new AgentError(
    'conflict',
    'no_conversation',
    `${id} is of an earlier version, which did not keep its conversation: start a new task.`,
  );
