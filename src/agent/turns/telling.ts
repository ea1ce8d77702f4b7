import type { Ending, ToolFacts, Watch, Work } from '../../watch/index.ts';
import { endingOf } from '../ending-of.ts';
import type { PlannerCall, PlannerMessage } from '../planner.ts';
import type { TurnsRequest } from '../services.ts';
import type { Route } from '../shapes/common.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { Tool, ToolOutput } from '../tool.ts';
import type { Answer } from './answer.ts';

export interface TellingOptions {
  readonly watch: Watch;
  readonly request: Pick<TurnsRequest, 'agent' | 'within'>;
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  /** When it is aborted, its reason is the result of open spans. */
  readonly signal: AbortSignal;
}

/** Output of a tool call; `spanResult` when it cannot be derived from the output. */
export interface Outcome extends ToolOutput {
  readonly ending?: Ending;
}

/** What a request to the model needs from its span: an `emit` that also fills the span, and the trace context. */
export interface Asking {
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  readonly traceparent: string | undefined;
}

/** Creates the spans of an agent's turns and tool calls. */
export class Telling {
  readonly #options: TellingOptions;

  constructor(options: TellingOptions) {
    this.#options = options;
  }

  /** Adds messages to the transcript of the parent span. */
  told(messages: readonly PlannerMessage[]): void {
    const { work } = this.#options.request.within;
    for (const { role, content } of messages) work.say(role, () => content);
  }

  /** Runs one request to the model in a span. */
  async turn(n: number, { engine, model }: Route, ask: (asking: Asking) => Promise<Answer>): Promise<Answer> {
    const { watch, request, signal } = this.#options;
    const { work: parent, ids } = request.within;
    const facts = { agent: request.agent.name, engine, model };
    const work = watch.begin('turn', `${ids}:${n}`, facts, { parent });
    const heard = { reasoning: '', delta: '' };
    const emit = async (event: NewTurnEvent) => {
      work.firstToken();
      if (work.said && (event.type === 'reasoning' || event.type === 'delta'))
        heard[event.type] += event.text;
      await this.#options.emit(event);
    };
    const end = (ending: Ending) => {
      if (heard.reasoning !== '') work.say('reasoning', () => heard.reasoning);
      if (heard.delta !== '') work.say('assistant', () => heard.delta);
      work.end(ending);
    };
    try {
      const answer = await ask({ emit, traceparent: work.traceparent });
      const { finish, calls, usage } = answer;
      Object.assign(work.facts, { finish, calls: calls.length, ...usage });
      end({ outcome: 'ok' });
      return answer;
    } catch (error) {
      end(endingOf(error, signal));
      throw error;
    }
  }

  /** Runs one tool call in a span. @param tool undefined when no tool has that name */
  async tool<Made extends Outcome>(
    call: PlannerCall,
    tool: Tool | undefined,
    make: (work: Work<'tool'>) => Promise<Made>,
  ): Promise<Made> {
    const { watch, request, signal } = this.#options;
    const { work: parent, ids } = request.within;
    const facts: ToolFacts = {
      tool: call.name,
      agent: request.agent.name,
      callId: call.id,
      toolKind: tool?.kind ?? 'unknown',
    };
    const work = watch.begin('tool', `${ids}:${call.id}`, facts, { parent });
    work.say('tool_call', () => call.arguments, call.name);
    try {
      const made = await make(work);
      work.say('tool', () => made.output, call.name);
      work.end(made.ending ?? (made.ok ? { outcome: 'ok' } : { outcome: 'failed', code: 'tool_failed' }));
      return made;
    } catch (error) {
      work.end(endingOf(error, signal));
      throw error;
    }
  }
}
