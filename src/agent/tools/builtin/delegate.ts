import type { AgentStore } from '../../services.ts';
import { narrowGrants } from '../../agents/narrow-grants.ts';
import { AgentError } from '../../errors.ts';
import { partialGrants } from '../../shapes/agent-spec.ts';
import type { TaskDetail, TaskRequest } from '../../shapes/task.ts';
import type { Delegation, ReadTool, ToolContext, ToolOutput } from '../../tool.ts';
import { integerSchema, listSchema, objectSchema, textSchema } from './schema.ts';

/** Levels of tasks that hand work on. */
const maxDepth = 4;

/** What the tool needs of the tasks. */
export interface DelegatedTasks {
  /**
   * Starts a task, or finds the one that the same call started before.
   * @param request of a new one
   * @throws AgentError
   */
  delegate(parent: TaskParent, request: () => Promise<TaskRequest>): Promise<string>;
  /** Resolves when a task has ended. Rejects with the signal's reason. */
  waitForEnd(id: string, signal: AbortSignal): Promise<TaskDetail>;
  /** How many tasks are above it. */
  depthOf(id: string): Promise<number>;
  stopTask(id: string, by: string): Promise<unknown>;
}

/** Where a task comes from. */
export interface TaskParent {
  /** The task or run. */
  readonly id: string;
  readonly agent: string;
  /** Names the call: a call that is made again after a restart finds its task. */
  readonly callKey: string;
}

const entriesSchema = listSchema(
  textSchema('An entry of your own grants, or less.', 4096),
  0,
  100,
  'Default: yours.',
);
const grantsSchema = {
  ...objectSchema(
    { tools: entriesSchema, read: entriesSchema, write: entriesSchema, network: entriesSchema },
    [],
  ),
  description: 'What it may do, if that is less than you may.',
};

/**
 * Hands work on to a task of its own, with the agent's grants or narrower ones and a budget of its own. Several run side by
 * side.
 */
export function delegateTool(tasks: () => DelegatedTasks, agents: Pick<AgentStore, 'get'>): ReadTool {
  return {
    kind: 'read',
    name: 'delegate',
    source: 'builtin',
    isWaiting: true,
    description:
      'Hands a piece of work on to an assistant of its own, and returns its answer. It knows nothing of this conversation: say all that it needs. Several calls in one answer run side by side.',
    inputSchema: objectSchema(
      {
        prompt: textSchema('What to do, with everything that it needs to know.'),
        agent: textSchema('Name of another agent; default: one like you.'),
        grants: grantsSchema,
        max_turns: integerSchema(1, 1000, 'Answers of the model at most.'),
        max_tokens: integerSchema(1, 1_000_000_000, 'Tokens of all its answers at most.'),
        timeout_secs: integerSchema(1, 86_400, 'Seconds at most; default 600.'),
      },
      ['prompt'],
    ),
    async run(args, context) {
      const { delegation } = context;
      if (!delegation) return failed('Work cannot be handed on from here.');
      try {
        return await delegate(
          tasks(),
          () => toRequest(args, context, delegation, agents),
          context,
          delegation,
        );
      } catch (error) {
        // The task goes on by itself when its host goes on.
        if (context.signal.aborted || !(error instanceof AgentError)) throw error;
        return failed(error.message);
      }
    },
  };
}

async function toRequest(
  args: Readonly<Record<string, unknown>>,
  { agent: own, grants, cwd }: ToolContext,
  { waits, tokensLeft }: Delegation,
  agents: Pick<AgentStore, 'get'>,
): Promise<TaskRequest> {
  const {
    prompt,
    agent = own,
    max_turns,
    max_tokens,
    timeout_secs,
  } = args as {
    prompt: string;
    agent?: string;
    max_turns?: number;
    max_tokens?: number;
    timeout_secs?: number;
  };
  const requested = partialGrants.parse(args['grants'] ?? {});
  // Another agent may have more than this one: it gets what both have.
  const spec = agent === own ? undefined : await agents.get(agent);
  const narrowed = narrowGrants(grants, { ...spec?.grants, ...requested });
  if (narrowed.faults) throw tooWide(narrowed.faults.map(({ path, message }) => `${path}: ${message}`));
  const left = tokensLeft();
  const tokens = Math.min(max_tokens ?? Number.POSITIVE_INFINITY, left);
  if (left <= 0)
    throw new AgentError('invalid', 'no_tokens', 'No tokens are left for it (limits.max_tokens).');
  return {
    prompt,
    agent,
    grants: narrowed.grants,
    ...(cwd === undefined ? {} : { cwd }),
    limits: {
      ...(max_turns === undefined ? {} : { max_turns }),
      ...(Number.isFinite(tokens) ? { max_tokens: tokens } : {}),
      ...(timeout_secs === undefined ? {} : { timeout_secs }),
    },
    ...(waits ? { approvals: 'wait' } : {}),
  };
}

async function delegate(
  tasks: DelegatedTasks,
  request: () => Promise<TaskRequest>,
  { agent, taskId, runId, callKey = '', signal }: ToolContext,
  { spend, pauseDeadline, isHostStopping }: Delegation,
): Promise<ToolOutput> {
  const parentId = taskId ?? runId ?? '';
  if (taskId !== undefined && (await tasks.depthOf(taskId)) >= maxDepth - 1)
    return failed(`Work is handed on over ${maxDepth} levels at most: do it yourself.`);
  const id = await tasks.delegate({ id: parentId, agent, callKey }, request);
  let detail: TaskDetail;
  try {
    // It has a time limit of its own.
    detail = await pauseDeadline(() => tasks.waitForEnd(id, signal));
  } catch (error) {
    // A person stopped it, or a limit of the parent did. When the host stops, both go on at its next start.
    if (!isHostStopping()) await tasks.stopTask(id, `agent:${agent}`).catch(() => undefined);
    throw error;
  }
  spend(detail.tokens?.completion ?? 0);
  return detail.answer === undefined
    ? failed(`Task ${id} (${detail.agent}) ended without an answer: ${detail.message ?? detail.state}`)
    : { ok: true, output: `Task ${id} (${detail.agent}) answered:\n${detail.answer}`, truncated: false };
}

const tooWide = (faults: readonly string[]): AgentError =>
  new AgentError(
    'invalid',
    'grants_too_wide',
    `It may not have more than you: ${faults.slice(0, 5).join('; ')}. Name fewer grants.`,
  );

const failed = (output: string): ToolOutput => ({ ok: false, output, truncated: false });
