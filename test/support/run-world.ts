import { afterEach, expect } from 'vitest';
import { EventFeed } from '../../src/agent/event-feed.ts';
import { EventLog } from '../../src/agent/event-log.ts';
import { StoredAgents } from '../../src/agent/agents/stored-agents.ts';
import { ActJournal } from '../../src/agent/pending/act-journal.ts';
import { PendingChanges } from '../../src/agent/pending/pending-changes.ts';
import type { ChatModels } from '../../src/agent/chat-model.ts';
import { ReceiptChain } from '../../src/agent/receipts/receipt-chain.ts';
import { SessionFeed } from '../../src/agent/sessions/session-feed.ts';
import { StoredSessions } from '../../src/agent/sessions/store-sessions.ts';
import type { TurnRunner } from '../../src/agent/services.ts';
import { type RunDetail, runDetail, type RunEvent, runEvent } from '../../src/agent/shapes/run.ts';
import { StoredSignals } from '../../src/agent/signals.ts';
import { computeSourceDigest } from '../../src/agent/workflows/source-digest.ts';
import type { HostState } from '../../src/agent/workflows/definition/conditions.ts';
import { WorkflowRuns, type RunsOptions } from '../../src/agent/workflows/running/runs.ts';
import { eventsRoutes } from '../../src/planes/agent/events-routes.ts';
import { pendingRoutes } from '../../src/planes/agent/pending-routes.ts';
import { runsRoutes } from '../../src/planes/agent/runs-routes.ts';
import { sessionsRoutes } from '../../src/planes/agent/sessions-routes.ts';
import { noopTracer, type Tracer } from '../../src/tracing/index.ts';
import { loadHostKey } from '../../src/signing/host-key.ts';
import { Store } from '../../src/store/index.ts';
import { freshDataDir } from './host.ts';
import { CountingTool, HeldPrompts, ScriptedTurns } from './scripted-turns.ts';
import { routeServers } from './serve-routes.ts';

/** The system's clock, which a test may set ahead or back: alone, or with the time that passes. */
export class ShiftedClock {
  #wall = 0;
  #passed = 0;
  readonly now = (): Date => new Date(Date.now() + this.#wall + this.#passed);
  readonly monotonic = (): number => performance.now() + this.#passed;

  jump(ms: number): void {
    this.#wall += ms;
  }
  pass(ms: number): void {
    this.#passed += ms;
  }
}

interface RunWorldOptions {
  readonly url: string;
  readonly clock?: ShiftedClock;
  readonly endpointId?: string;
  readonly pace?: Partial<RunsOptions['timings']>;
  readonly cancelledState?: boolean;
  readonly turns?: (scripted: ScriptedTurns) => TurnRunner;
  readonly tracer?: Tracer;
}

const chatModels: Pick<ChatModels, 'find'> = {
  find: (model) => ({
    route: { engine: 'resident', model },
    streamAnswer: () => {
      throw new Error('the turns are scripted');
    },
  }),
};
const noLiveSessions = { live: () => Promise.resolve([]) };

/** What stays when a host is killed. */
export class PersistentWorld {
  readonly sources = new Map<string, string>();
  readonly enabled = new Set<string>();
  readonly holds = new HeldPrompts();
  readonly tool = new CountingTool();
  /** State of the host for conditions. */
  host: HostState = {
    pending: 0,
    tasks_running: 0,
    external_sessions: 0,
    completions_served: 0,
    model: 'a-model',
  };
  readonly dataDir = freshDataDir();

  /** Stores a workflow and lets it be run. @param header more of `[ensemble]` */
  define(name: string, toml: string, header = ''): void {
    this.sources.set(name, `[ensemble]\nname = "${name}"\n${header}${toml}`);
    this.enabled.add(name);
  }
}

/** The agents of the workflows of a test. */
export const agents = '[agents.a]\ninstructions = "x"\n';
/** One step of agent `a`. */
export const step = (id: string, prompt: string, more = ''): string =>
  `[[steps]]\nid = "${id}"\nagent = "a"\nprompt = ${JSON.stringify(prompt)}\n${more}\n`;

/** Hosts of runs over HTTP: any number of times over one database, one after the other. */
export function runWorlds() {
  const serve = routeServers();
  const open: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const host of open.splice(0)) await host.stop();
  });

  return async (outside: PersistentWorld, setting: RunWorldOptions) => {
    const { url, clock = new ShiftedClock(), endpointId = 'host-a', cancelledState = true } = setting;
    const store = await Store.open({ url, endpointId, now: clock.now });
    const faults: unknown[] = [];
    const stopping = new AbortController();
    const signals = new StoredSignals(store);
    const { tool, holds, sources, enabled, dataDir } = outside;
    const find = (name: string) => (name === tool.name ? tool : undefined);
    const changes = new PendingChanges({
      store,
      signals,
      clock,
      tools: { find },
      stopping: stopping.signal,
      pollMs: 10,
    });
    await changes.sweep();
    const scripted = new ScriptedTurns(changes, tool, holds);
    const log = new EventLog(store);
    const sessions = new StoredSessions({ store, operatorHash: undefined });
    const receipts = new ReceiptChain({ store, key: await loadHostKey(dataDir) });
    const runs = new WorkflowRuns({
      store,
      clock,
      log,
      changes,
      sessions,
      receipts,
      signals,
      chatModels,
      cancelledState,
      tracer: setting.tracer ?? noopTracer,
      readHostState: () => Promise.resolve(outside.host),
      turnRunner: setting.turns?.(scripted) ?? scripted,
      agents: new StoredAgents({ store }),
      workflows: {
        findRunnable(name) {
          const source = enabled.has(name) ? sources.get(name) : undefined;
          return Promise.resolve(
            source === undefined ? undefined : { source, digest: computeSourceDigest(source) },
          );
        },
      },
      timings: { maxClockCheckMs: 5, signalPollMs: 5, storeRetryMs: 5, ...setting.pace },
      onFault: (_, error) => faults.push(error),
    });
    await runs.recover();
    const feed = new SessionFeed({
      store,
      tasks: noLiveSessions,
      runs,
      external: noLiveSessions,
      cancelledState,
      startedAt: new Date(),
    });
    const tasks = { ...noLiveSessions, stopRevoked: () => Promise.resolve() };
    const server = await serve([
      ...eventsRoutes({
        events: new EventFeed({ store, signals }),
        webhooks: { list: () => Promise.resolve([]) },
      }),
      ...runsRoutes({ runs }),
      ...pendingRoutes({ changes, acts: new ActJournal(store) }),
      ...sessionsRoutes({ feed, sessions, receipts, runs, tasks, external: noLiveSessions }),
    ]);
    let isStopped = false;
    /** In good order. */
    const stop = async () => {
      if (isStopped) return;
      isStopped = true;
      stopping.abort(new Error('the host stops'));
      await runs.close();
      await store.close();
    };
    /** Kills the host: it writes nothing more. */
    const kill = async () => {
      isStopped = true;
      await store.close();
      stopping.abort(new Error('killed'));
      await runs.close();
    };
    open.push({ stop });
    return {
      ...http(server.send),
      url: server.url,
      signals,
      runs,
      store,
      changes,
      log,
      clock,
      faults,
      turns: scripted,
      stop,
      kill,
    };
  };
}

export type RunHost = Awaited<ReturnType<ReturnType<typeof runWorlds>>>;

type Send = Awaited<ReturnType<ReturnType<typeof routeServers>>>['send'];

function http(send: Send) {
  const json = async (method: string, path: string, body?: unknown) => {
    const response = await send(method, `/agent/v1/${path}`, body);
    const text = await response.text();
    return {
      status: response.status,
      body: (text === '' ? undefined : JSON.parse(text)) as Record<string, unknown>,
    };
  };
  /** A whole run, or the first segment of it. */
  const run = async (name: string, body?: unknown) => {
    const response = await send('POST', `/agent/v1/workflows/${name}/runs`, body);
    const events = response.status === 200 ? eventsOf(await response.text()) : [];
    const first = events[0];
    return { response, events, id: first?.type === 'run_start' ? first.run_id : '' };
  };
  /** Starts a run whose stream is not read. */
  const begin = async (name: string, body?: unknown): Promise<string> => {
    const response = await send('POST', `/agent/v1/workflows/${name}/runs`, body);
    const reader = response.body?.getReader();
    const first = await reader?.read();
    await reader?.cancel();
    const [line = '{}'] = new TextDecoder().decode(first?.value).split('\n');
    const { run_id } = JSON.parse(line) as { run_id?: string };
    if (run_id === undefined) throw new Error(`not begun: ${line}`);
    return run_id;
  };
  const detail = async (id: string): Promise<RunDetail> =>
    runDetail.parse((await json('GET', `runs/${id}`)).body);
  const events = async (id: string, after?: number): Promise<RunEvent[]> => {
    const query = after === undefined ? '' : `?after=${after}`;
    return eventsOf(await (await send('GET', `/agent/v1/runs/${id}/events${query}`)).text());
  };
  /** Waits for a run to be as is expected. */
  const becomes = async (id: string, expected: Partial<RunDetail>): Promise<RunDetail> => {
    await expect.poll(() => detail(id), { interval: 10 }).toMatchObject(expected);
    return await detail(id);
  };
  const pending = async () =>
    (await json('GET', 'pending')).body as unknown as { id: string; tool: string }[];
  /** Waits for a question, or a staged change. */
  const asked = async (tool: string): Promise<string> => {
    await expect.poll(async () => (await pending()).map((one) => one.tool)).toContain(tool);
    return (await pending()).find((one) => one.tool === tool)?.id ?? '';
  };
  const code = async (method: string, path: string, body?: unknown) => {
    const answer = await json(method, path, body);
    return [answer.status, (answer.body['error'] as { code: string } | undefined)?.code];
  };
  return { send, json, run, begin, detail, events, becomes, pending, asked, code };
}

/** Lines as they are published, numbered without holes. */
export function eventsOf(text: string): RunEvent[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const event = runEvent.parse(JSON.parse(line));
      // Nothing that the schema would drop.
      expect(JSON.parse(line)).toEqual(event);
      return event;
    });
}

/** The kinds of the events, with the step that each is about. */
export const summarizeEvents = (events: readonly RunEvent[]): string[] =>
  events.map((event) => {
    if (event.type === 'step_event') return `${event.step}: ${event.event.type}`;
    if (event.type === 'run_end') return `run_end ${event.outcome}`;
    if (event.type === 'step_end') return `step_end ${event.step} ${event.outcome}`;
    return 'step' in event ? `${event.type} ${event.step}` : event.type;
  });
