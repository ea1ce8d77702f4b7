import { HostChatModels } from '../../src/planes/agent/chat-models.ts';
import { tasksRoutes } from '../../src/planes/agent/tasks-routes.ts';
import { Resident } from '../../src/planes/resident.ts';
import { AgentError } from '../../src/agent/errors.ts';
import { globMatches } from '../../src/agent/agents/name-glob.ts';
import { EventLog } from '../../src/agent/event-log.ts';
import type { TaskEndServices } from '../../src/agent/tasks/end-task.ts';
import { TaskService } from '../../src/agent/tasks/task-service.ts';
import { StoredSignals } from '../../src/agent/signals.ts';
import type { StoreSessions } from '../../src/agent/services.ts';
import { agentSpec } from '../../src/agent/shapes/agent-spec.ts';
import type { Tool } from '../../src/agent/tool.ts';
import { noStagedFiles } from '../../src/agent/pending/staged-files.ts';
import { TurnLoop } from '../../src/agent/turns/turn-loop.ts';
import { noopTracer, type Tracer } from '../../src/tracing/index.ts';
import { Store } from '../../src/store/index.ts';

interface Options {
  /** URL of a scripted gateway. */
  readonly gateway?: string;
  readonly key?: string;
  readonly resident?: Resident;
  readonly tools?: readonly Tool[];
  readonly agents?: readonly Record<string, unknown>[];
  readonly endpointId?: string;
  readonly receipts?: TaskEndServices['receipts'];
  readonly tracer?: Tracer;
}

/** Tasks over a real database, log, loop and planner; sessions and receipts are rows and no more. */
export async function openTaskWorld(url: string, options: Options = {}) {
  const {
    gateway,
    key,
    tools = [],
    agents = [],
    endpointId = 'here',
    resident = new Resident('none'),
    tracer = noopTracer,
  } = options;
  const store = await Store.open({ url, endpointId });
  const log = new EventLog(store);
  const revoked = new Set<string>();
  const closed: string[] = [];
  let opened = 0;
  const sessions: Pick<StoreSessions, 'open' | 'close' | 'isRevoked'> = {
    open: () => Promise.resolve({ id: `s${endpointId}-${++opened}`, capability: `secret-${opened}` }),
    close: (_, id) => Promise.resolve(void closed.push(id)),
    isRevoked: (id) => Promise.resolve(revoked.has(id)),
  };
  const receipts: TaskEndServices['receipts'] = options.receipts ?? {
    async add(tx, body) {
      const count = await tx
        .selectFrom('receipts')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow();
      const seq = count.count + 1;
      const chainMembers = { prev_digest: '', digest: `${seq}`, endpoint_id: endpointId, seq };
      const { id, kind, ended_at } = body;
      await tx
        .insertInto('receipts')
        .values({ ...chainMembers, id, kind, ended_at, receipt: JSON.stringify(body) })
        .execute();
      return { contract: 1, ...body, ...chainMembers, signature: { alg: 'ed25519', key_id: '', value: '' } };
    },
  };
  const specs = new Map(
    [{ name: 'default', instructions: 'Help.', model: 'scripted' }, ...agents].map((spec) => {
      const parsed = agentSpec.parse({ model: 'scripted', ...spec });
      return [parsed.name, parsed];
    }),
  );
  const chatModels = new HostChatModels({
    resident,
    gateway: gateway === undefined ? undefined : { url: gateway, ...(key === undefined ? {} : { key }) },
  });
  const faults: { where: string; error: unknown }[] = [];
  const onFault = (where: string, error: unknown) => faults.push({ where, error });
  const turnRunner = new TurnLoop({
    chatModels,
    toolbox: {
      granted: ({ grants }) =>
        tools.filter(({ name }) => grants.tools.some((glob) => globMatches(glob, name))),
    },
    changes: {
      stagedFiles: () => noStagedFiles,
      stage: (tool, proposal, context) =>
        Promise.resolve({
          id: 'p1',
          tool: tool.name,
          agent: context.agent,
          kind: proposal.kind,
          intent: proposal.intent,
          summary: proposal.summary,
          risk: proposal.risk,
          created_at: store.time(),
          expires_at: store.time(),
        }),
      applyNow: (tool, { payload }, { signal }) => tool.apply(payload, signal),
      decision: () => new Promise(() => undefined),
      stopApplying: () => false,
      ask: () => Promise.reject(new Error('no question is expected')),
      findInterrupted: () => Promise.resolve({ kind: 'unknown' }),
    },
    sessions,
    clock: { now: () => new Date(), monotonic: () => performance.now() },
    tracer,
    onFault,
  });
  const tasks = new TaskService({
    store,
    log,
    chatModels,
    turnRunner,
    sessions,
    receipts,
    tracer,
    onFault,
    signals: new StoredSignals(store),
    cancelledState: true,
    agents: {
      get: (name) => {
        const spec = specs.get(name);
        return spec
          ? Promise.resolve(spec)
          : Promise.reject(new AgentError('not_found', 'unknown_agent', 'none'));
      },
    },
  });
  return { store, log, tasks, chatModels, routes: tasksRoutes({ tasks }), revoked, closed, faults };
}
