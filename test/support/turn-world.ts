import type { Clock } from '../../src/agent/clock.ts';
import type { ChatModel, ChatModelEvent, ChatModelRequest } from '../../src/agent/chat-model.ts';
import type { ChangeDecision, InterruptedChange, TurnLoopRequest } from '../../src/agent/services.ts';
import { type AgentSpec, agentSpec } from '../../src/agent/shapes/agent-spec.ts';
import type { NewTurnEvent } from '../../src/agent/shapes/turn-event.ts';
import type { ChangeTool, Proposal, ReadTool, Tool, ToolContext, ToolOutput } from '../../src/agent/tool.ts';
import { noStagedFiles } from '../../src/agent/pending/staged-files.ts';
import { TurnLoop } from '../../src/agent/turns/turn-loop.ts';
import { noopTracer, type Tracer } from '../../src/tracing/index.ts';
import { globMatches } from '../../src/agent/agents/name-glob.ts';

export type ChatModelStep =
  | readonly ChatModelEvent[]
  | ((request: ChatModelRequest, signal: AbortSignal) => AsyncIterable<ChatModelEvent>);

export const textAnswer = (text: string, tokens = 1): ChatModelEvent[] => [
  { type: 'delta', text },
  { type: 'end', finish: 'stop', usage: { promptTokens: 1, completionTokens: tokens } },
];
export const toolCallAnswer = (name: string, args: unknown = {}, tokens = 1): ChatModelEvent[] => [
  { type: 'call', call: { id: '', name, arguments: typeof args === 'string' ? args : JSON.stringify(args) } },
  { type: 'end', finish: 'tool_calls', usage: { promptTokens: 1, completionTokens: tokens } },
];

/** A model that fails. */
export async function* failingModel(error: Error): AsyncGenerator<ChatModelEvent, void, undefined> {
  yield* [];
  throw error;
}

/** A model that answers in order, the last step again and again. */
export class ScriptedChatModel implements ChatModel {
  readonly route = { engine: 'gateway', model: 'scripted' } as const;
  readonly requests: ChatModelRequest[] = [];
  readonly #steps: readonly ChatModelStep[];

  constructor(steps: readonly ChatModelStep[]) {
    this.#steps = steps;
  }

  async *streamAnswer(
    request: ChatModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ChatModelEvent, void, undefined> {
    // A copy, because the loop keeps using the same list.
    this.requests.push({ ...request, messages: [...request.messages] });
    const step = this.#steps[this.requests.length - 1] ?? this.#steps.at(-1) ?? [];
    if (typeof step === 'function') yield* step(request, signal);
    else yield* step;
  }
}

export const readTool = (
  name: string,
  run: (args: Readonly<Record<string, unknown>>, context: ToolContext) => Promise<ToolOutput> | ToolOutput,
  inputSchema: Readonly<Record<string, unknown>> = { type: 'object' },
): ReadTool => ({
  kind: 'read',
  name,
  description: name,
  source: 'builtin',
  inputSchema,
  run: async (args, context) => await run(args, context),
});

export const okOutput = (output: string): ToolOutput => ({ ok: true, output, truncated: false });

export const changeTool = (name: string, propose?: ChangeTool['propose']): ChangeTool => ({
  kind: 'change',
  name,
  description: name,
  source: 'builtin',
  inputSchema: { type: 'object' },
  propose: propose ?? (() => Promise.resolve(proposal)),
  apply: () => Promise.resolve(okOutput('applied')),
});
const proposal: Proposal = {
  kind: 'file_write',
  intent: 'why',
  summary: 'writes a file',
  risk: 'low',
  payload: {},
};

interface World {
  readonly steps: readonly ChatModelStep[];
  readonly tools?: readonly Tool[];
  readonly agent?: Partial<AgentSpec>;
  readonly clock?: Clock;
  /** The decision of a person; undefined: no decision is ever made. */
  readonly decision?: (id: string, signal: AbortSignal) => Promise<ChangeDecision>;
  /** What became of a change that the host ended in. */
  readonly interrupted?: () => Promise<InterruptedChange>;
  readonly revoked?: () => boolean;
  readonly tracer?: Tracer;
}

/** The turn loop over a scripted model, tools in memory, and a record of all that was done. */
export function turnWorld({
  steps,
  tools = [],
  agent,
  clock,
  decision,
  interrupted,
  revoked,
  tracer = noopTracer,
}: World) {
  const chatModel = new ScriptedChatModel(steps);
  const done: string[] = [];
  const faults: unknown[] = [];
  const events: NewTurnEvent[] = [];
  const neverDecided = () => new Promise<ChangeDecision>(() => undefined);
  const loop = new TurnLoop({
    chatModels: { find: () => chatModel },
    toolbox: {
      granted: ({ grants }) =>
        tools.filter(({ name }) => grants.tools.some((glob) => globMatches(glob, name))),
    },
    changes: {
      stagedFiles: () => noStagedFiles,
      stage: (tool, { kind, intent, summary, risk }, context) => {
        done.push(`stage ${tool.name}`);
        const id = `p${done.length}`;
        const at = '2026-01-01T00:00:00.000Z';
        const about = { agent: context.agent, created_at: at, expires_at: at };
        return Promise.resolve({ id, kind, tool: tool.name, intent, summary, risk, ...about });
      },
      applyNow: (tool) => {
        done.push(`apply ${tool.name}`);
        return Promise.resolve(okOutput('applied at once'));
      },
      ask: ({ tool, agent: by, intent, summary }) => {
        done.push(`ask ${tool}`);
        const at = '2026-01-01T00:00:00.000Z';
        const about = { agent: by, created_at: at, expires_at: at };
        return Promise.resolve({
          id: `p${done.length}`,
          kind: 'tool_call',
          tool,
          intent,
          summary,
          risk: 'high',
          ...about,
        });
      },
      findInterrupted: interrupted ?? (() => Promise.resolve({ kind: 'unknown' })),
      decision: decision ?? neverDecided,
      stopApplying: () => false,
    },
    sessions: { isRevoked: () => Promise.resolve(revoked?.() ?? false) },
    clock: clock ?? { now: () => new Date(), monotonic: () => performance.now() },
    tracer,
    onFault: (_, error) => faults.push(error),
  });
  const spec = agentSpec.parse({ name: 'a', instructions: 'Work.', grants: { tools: ['*'] }, ...agent });
  const run = (request: Partial<TurnLoopRequest> = {}, signal = new AbortController().signal) =>
    loop.run(
      {
        agent: spec,
        prompt: 'Go.',
        cwd: undefined,
        onStaged: 'go_on',
        owner: { sessionId: 's1' },
        trace: { span: tracer.startSpan('task', 't1', { agent: 'a', ...chatModel.route }), idPrefix: 't1' },
        ...request,
      },
      (event) => {
        events.push(event);
        return Promise.resolve();
      },
      signal,
    );
  const types = () => events.map(({ type }) => type);
  const results = () => events.filter((event) => event.type === 'tool_result');
  return { run, loop, chatModel, done, faults, events, types, results };
}
