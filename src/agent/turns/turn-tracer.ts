import type { SpanResult, ToolCallAttributes, Tracer, TraceSpan } from '../../tracing/index.ts';
import { toSpanResult } from '../to-span-result.ts';
import type { ChatModelToolCall, ChatModelMessage } from '../chat-model.ts';
import type { TurnLoopRequest } from '../services.ts';
import type { Route } from '../shapes/common.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { Tool, ToolOutput } from '../tool.ts';
import type { ModelAnswer } from './read-answer.ts';

export interface TurnTracerOptions {
  readonly tracer: Tracer;
  readonly request: Pick<TurnLoopRequest, 'agent' | 'trace'>;
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  /** When it is aborted, its reason is the result of open spans. */
  readonly signal: AbortSignal;
}

/** Output of a tool call; `spanResult` when it cannot be derived from the output. */
export interface ToolCallOutcome extends ToolOutput {
  readonly spanResult?: SpanResult;
}

/** What a request to the model needs from its span: an `emit` that also fills the span, and the trace context. */
export interface TracedRequest {
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  readonly traceparent: string | undefined;
}

/** Creates the spans of an agent's turns and tool calls. */
export class TurnTracer {
  readonly #options: TurnTracerOptions;

  constructor(options: TurnTracerOptions) {
    this.#options = options;
  }

  /** Adds messages to the transcript of the parent span. */
  recordMessages(messages: readonly ChatModelMessage[]): void {
    const { span } = this.#options.request.trace;
    for (const { role, content } of messages) span.addTranscriptEntry(role, () => content);
  }

  /** Runs one request to the model in a span. */
  async traceTurn(
    n: number,
    { engine, model }: Route,
    generate: (traced: TracedRequest) => Promise<ModelAnswer>,
  ): Promise<ModelAnswer> {
    const { tracer, request, signal } = this.#options;
    const { span: parent, idPrefix } = request.trace;
    const attributes = { agent: request.agent.name, engine, model };
    const span = tracer.startSpan('turn', `${idPrefix}:${n}`, attributes, { parent });
    const texts = { reasoning: '', delta: '' };
    const emit = async (event: NewTurnEvent) => {
      span.markFirstToken();
      if (span.transcript && (event.type === 'reasoning' || event.type === 'delta'))
        texts[event.type] += event.text;
      await this.#options.emit(event);
    };
    const end = (result: SpanResult) => {
      if (texts.reasoning !== '') span.addTranscriptEntry('reasoning', () => texts.reasoning);
      if (texts.delta !== '') span.addTranscriptEntry('assistant', () => texts.delta);
      span.end(result);
    };
    try {
      const answer = await generate({ emit, traceparent: span.traceparent });
      const { finish, calls, usage } = answer;
      Object.assign(span.attributes, { finish, calls: calls.length, ...usage });
      end({ outcome: 'ok' });
      return answer;
    } catch (error) {
      end(toSpanResult(error, signal));
      throw error;
    }
  }

  /** Runs one tool call in a span. @param tool undefined when no tool has that name */
  async traceToolCall<Outcome extends ToolCallOutcome>(
    call: ChatModelToolCall,
    tool: Tool | undefined,
    runCall: (span: TraceSpan<'tool'>) => Promise<Outcome>,
  ): Promise<Outcome> {
    const { tracer, request, signal } = this.#options;
    const { span: parent, idPrefix } = request.trace;
    const attributes: ToolCallAttributes = {
      tool: call.name,
      agent: request.agent.name,
      callId: call.id,
      toolKind: tool?.kind ?? 'unknown',
    };
    const span = tracer.startSpan('tool', `${idPrefix}:${call.id}`, attributes, { parent });
    span.addTranscriptEntry('tool_call', () => call.arguments, call.name);
    try {
      const outcome = await runCall(span);
      span.addTranscriptEntry('tool', () => outcome.output, call.name);
      span.end(
        outcome.spanResult ?? (outcome.ok ? { outcome: 'ok' } : { outcome: 'failed', code: 'tool_failed' }),
      );
      return outcome;
    } catch (error) {
      span.end(toSpanResult(error, signal));
      throw error;
    }
  }
}
