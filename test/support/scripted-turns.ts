import { AgentError } from '../../src/agent/errors.ts';
import type {
  PendingChangeService,
  TurnRunner,
  TurnLoopRequest,
  TurnLoopResult,
} from '../../src/agent/services.ts';
import type { NewTurnEvent } from '../../src/agent/shapes/turn-event.ts';
import type { ChangeTool } from '../../src/agent/tool.ts';
import { raceAbort } from '../../src/util/race-abort.ts';

type Emit = (event: NewTurnEvent) => Promise<void>;

/** Prompts that are held until a test lets them go; shared by the hosts of a test. */
export class HeldPrompts {
  readonly #held = new Map<string, PromiseWithResolvers<string>>();
  /** The names of the prompts that wait. */
  readonly waiting = new Set<string>();

  /** What a held prompt answers. */
  release(name: string, text = name): void {
    this.#of(name).resolve(text);
  }

  async wait(name: string, signal: AbortSignal): Promise<string> {
    this.waiting.add(name);
    try {
      const text = await raceAbort(this.#of(name).promise, signal);
      this.#held.delete(name);
      return text;
    } finally {
      this.waiting.delete(name);
    }
  }

  #of(name: string): PromiseWithResolvers<string> {
    const pending = this.#held.get(name) ?? Promise.withResolvers<string>();
    this.#held.set(name, pending);
    return pending;
  }
}

/** A change that does nothing but count. */
export class CountingTool implements ChangeTool {
  readonly kind = 'change';
  readonly name = 'count';
  readonly description = 'Counts.';
  readonly source = 'builtin';
  readonly inputSchema = {};
  applied = 0;

  propose(): never {
    throw new Error('not expected in this test');
  }

  apply() {
    this.applied += 1;
    return Promise.resolve({ ok: true, output: `counted ${this.applied}`, truncated: false });
  }
}

/**
 * Agents that do what their prompt says, a command a line: `say TEXT`, `fail TEXT`, `fail N times`, `hold NAME`,
 * `effect`, `stage`, `throw`. What the last one gives is the answer.
 */
export class ScriptedTurns implements TurnRunner {
  readonly requests: TurnLoopRequest[] = [];
  readonly #changes: Pick<PendingChangeService, 'stage' | 'decision'>;
  readonly #tool: ChangeTool;
  readonly #holds: HeldPrompts;
  readonly #failures = new Map<string, number>();

  constructor(
    changes: Pick<PendingChangeService, 'stage' | 'decision'>,
    tool: ChangeTool,
    holds: HeldPrompts,
  ) {
    this.#changes = changes;
    this.#tool = tool;
    this.#holds = holds;
  }

  async run(request: TurnLoopRequest, emit: Emit, signal: AbortSignal): Promise<TurnLoopResult> {
    this.requests.push(request);
    const usage = { prompt_tokens: 2, completion_tokens: 1 };
    if (request.prompt === 'throw') throw new Error('a bug of ours');
    try {
      await emit({ type: 'turn', n: 1 });
      let text = '';
      for (const line of request.prompt.split('\n')) text = await this.#do(line, request, emit, signal);
      await emit({ type: 'delta', text });
      await emit({ type: 'answer', text, usage, turns: 1 });
      return { kind: 'answer', text, turns: 1, usage };
    } catch (error) {
      const reported = signal.aborted ? (signal.reason as unknown) : error;
      const isReported = reported instanceof AgentError || !signal.aborted;
      const reason = isReported ? 'error' : 'shutdown';
      const message = reported instanceof Error ? reported.message : String(reported);
      await emit({ type: 'aborted', reason, message });
      return { kind: 'aborted', reason, message, turns: 1, usage };
    }
  }

  async #do(line: string, request: TurnLoopRequest, emit: Emit, signal: AbortSignal): Promise<string> {
    const [verb = '', ...words] = line.trim().split(' ');
    const rest = words.join(' ');
    if (verb === 'say') return rest;
    if (verb === 'hold') return await this.#holds.wait(rest, signal);
    if (verb === 'effect') await request.beforeEffect?.();
    if (verb === 'stage') return await this.#stage(request, emit, signal);
    if (verb === 'fail') this.#fail(rest, request);
    return '';
  }

  #fail(rest: string, { owner }: TurnLoopRequest): void {
    const times = /^(\d+) times$/.exec(rest)?.[1];
    const key = `${owner.runId} ${owner.step}`;
    const failed = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failed);
    if (times === undefined || failed <= Number(times)) throw new Error(rest);
  }

  async #stage(request: TurnLoopRequest, emit: Emit, signal: AbortSignal): Promise<string> {
    const proposal = {
      kind: 'tool_call',
      intent: 'to count',
      summary: 'Count',
      risk: 'low',
      payload: {},
    } as const;
    const { agent, owner, cwd, whileWaiting } = request;
    await request.beforeEffect?.();
    const context = { ...owner, agent: agent.name, grants: agent.grants, cwd, signal };
    const { id, tool, summary } = await this.#changes.stage(this.#tool, proposal, context);
    await emit({ type: 'staged', pending_id: id, tool, summary });
    const wait = () => this.#changes.decision(id, signal);
    const { state } = await (whileWaiting?.(wait) ?? wait());
    await emit({
      type: 'tool_result',
      call_id: 'c1',
      ok: state === 'applied',
      output: state,
      truncated: false,
    });
    return state;
  }
}
