import { AgentError } from '../../src/agent/errors.ts';
import type { Changes, Turns, TurnsRequest, TurnsResult } from '../../src/agent/services.ts';
import type { NewTurnEvent } from '../../src/agent/shapes/turn-event.ts';
import type { ChangeTool } from '../../src/agent/tool.ts';
import { unlessAborted } from '../../src/util/abort.ts';

type Emit = (event: NewTurnEvent) => Promise<void>;

/** Prompts that are held until a test lets them go; shared by the hosts of a test. */
export class Holds {
  readonly #held = new Map<string, PromiseWithResolvers<string>>();

  /** What a held prompt answers. */
  release(name: string, text = name): void {
    this.#of(name).resolve(text);
  }

  async wait(name: string, signal: AbortSignal): Promise<string> {
    const text = await unlessAborted(this.#of(name).promise, signal);
    this.#held.delete(name);
    return text;
  }

  #of(name: string): PromiseWithResolvers<string> {
    const held = this.#held.get(name) ?? Promise.withResolvers<string>();
    this.#held.set(name, held);
    return held;
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
    throw new Error('nobody asks for it');
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
export class ScriptedTurns implements Turns {
  readonly requests: TurnsRequest[] = [];
  readonly #changes: Pick<Changes, 'stage' | 'decision'>;
  readonly #tool: ChangeTool;
  readonly #holds: Holds;
  readonly #failures = new Map<string, number>();

  constructor(changes: Pick<Changes, 'stage' | 'decision'>, tool: ChangeTool, holds: Holds) {
    this.#changes = changes;
    this.#tool = tool;
    this.#holds = holds;
  }

  async run(request: TurnsRequest, emit: Emit, signal: AbortSignal): Promise<TurnsResult> {
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
      const told = signal.aborted ? (signal.reason as unknown) : error;
      const isTold = told instanceof AgentError || !signal.aborted;
      const reason = isTold ? 'error' : 'shutdown';
      const message = told instanceof Error ? told.message : String(told);
      await emit({ type: 'aborted', reason, message });
      return { kind: 'aborted', reason, message, turns: 1, usage };
    }
  }

  async #do(line: string, request: TurnsRequest, emit: Emit, signal: AbortSignal): Promise<string> {
    const [verb = '', ...words] = line.trim().split(' ');
    const rest = words.join(' ');
    if (verb === 'say') return rest;
    if (verb === 'hold') return await this.#holds.wait(rest, signal);
    if (verb === 'effect') await request.beforeEffect?.();
    if (verb === 'stage') return await this.#stage(request, emit, signal);
    if (verb === 'fail') this.#fail(rest, request);
    return '';
  }

  #fail(rest: string, { about }: TurnsRequest): void {
    const times = /^(\d+) times$/.exec(rest)?.[1];
    const key = `${about.runId} ${about.step}`;
    const failed = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failed);
    if (times === undefined || failed <= Number(times)) throw new Error(rest);
  }

  async #stage(request: TurnsRequest, emit: Emit, signal: AbortSignal): Promise<string> {
    const proposal = {
      kind: 'tool_call',
      intent: 'to count',
      summary: 'Count',
      risk: 'low',
      payload: {},
    } as const;
    const { agent, about, cwd } = request;
    await request.beforeEffect?.();
    const context = { ...about, agent: agent.name, grants: agent.grants, cwd, signal };
    const { id, tool, summary } = await this.#changes.stage(this.#tool, proposal, context);
    await emit({ type: 'staged', pending_id: id, tool, summary });
    const { state } = await this.#changes.decision(id, signal);
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
