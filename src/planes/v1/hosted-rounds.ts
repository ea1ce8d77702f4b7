import type { ChatInput } from '../../chat/index.ts';
import type { TraceSpan } from '../../tracing/index.ts';
import type { AnswerEvent, FinishReason, HostedItem } from '../../wires/core/answer.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { Usage } from '../../wires/core/types.ts';
import { AnswerTracer } from '../turn/answer-tracer.ts';
import type { TurnBuilder } from '../turn/turn-builder.ts';
import { parseArguments } from './chat-input.ts';
import type { HostedSession } from './hosted-session.ts';

/** Calls of MCP tools in one answer. */
const defaultMaxCalls = 64;

interface RoundsOptions {
  readonly input: ChatInput;
  /** Holds the turns of `input`; the turns of the answer are added to it. */
  readonly builder: TurnBuilder;
  readonly session: HostedSession;
  /** Calls that the request approved. */
  readonly decided: readonly HostedItem[];
  readonly maxCalls: number | null | undefined;
  readonly maxTokens: number | null | undefined;
  readonly span: TraceSpan<'completion'>;
  /** Starts an answer to the conversation so far. */
  readonly start: (input: ChatInput, maxTokens: number | null | undefined) => Promise<AnswerBatches>;
}

/**
 * Answers a conversation with tools that the host runs: the model is asked again with their outputs, until it answers
 * without calling them, calls a function of the caller, or proposes a call that the caller must approve.
 * @param first events of the answer to the conversation as it is
 */
export async function* answerWithHostedTools(
  first: AnswerBatches,
  { input, builder, session, decided, span, start, ...limits }: RoundsOptions,
): AnswerBatches {
  const tracer = new AnswerTracer(span, { total: 1, answersPerPrompt: 1 });
  const maxCalls = limits.maxCalls ?? defaultMaxCalls;
  const totals = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0, reasoning: 0 };
  let hostedCalls = 0;
  let clientCalls = 0;
  try {
    const items = [...session.listItems, ...decided];
    if (items.length > 0) yield items.map((item) => ({ type: 'hosted_item', item }) as const);
    for (let events = first; ; ) {
      const round = new Round(session, clientCalls);
      for await (const batch of events) {
        const passed = round.read(batch);
        for (const event of passed) if (isTranscribed(event)) tracer.record(event);
        if (passed.length > 0) yield passed;
      }
      clientCalls = round.nextClientIndex;
      addUsage(totals, round.usage);
      round.addTo(builder);
      let reason = round.finishReason;
      let isOver = round.hostedCalls.length === 0 || reason !== 'tool_calls';
      if (!isOver) {
        for (const { id, name, text } of round.hostedCalls) {
          hostedCalls += 1;
          let output: string | undefined = callLimitMessage(maxCalls);
          if (hostedCalls <= maxCalls) {
            const call = session.call(name, text);
            let step = await call.next();
            for (; step.done !== true; step = await call.next())
              yield [{ type: 'hosted_item', item: step.value }];
            output = step.value;
          }
          if (output === undefined) isOver = true;
          else builder.result(id, output);
        }
        if (clientCalls > 0) isOver = true;
        else if (isOver) reason = 'stop';
      }
      const left = limits.maxTokens ? limits.maxTokens - totals.output : limits.maxTokens;
      if (!isOver && typeof left === 'number' && left <= 0) {
        isOver = true;
        reason = 'length';
      }
      if (isOver) {
        tracer.record({
          type: 'end',
          finishReason: reason,
          usage: {
            prompt_tokens: totals.fresh + totals.cacheRead,
            completion_tokens: totals.output,
            cached_tokens: totals.cacheRead,
          },
          timings: undefined,
        });
        yield [
          { type: 'usage', usage: totals },
          { type: 'finish', reason },
        ];
        return;
      }
      events = await start(nextInput(input, builder, session, hostedCalls >= maxCalls), left);
    }
  } finally {
    tracer.end();
  }
}

/** The tools of the answer to the outputs: a call that was required has been made. */
function nextInput(
  { toolChoice, tools = [], ...input }: ChatInput,
  builder: TurnBuilder,
  session: HostedSession,
  isExhausted: boolean,
): ChatInput {
  const left = isExhausted ? tools.filter(({ name }) => !session.isHosted(name)) : tools;
  return {
    ...input,
    messages: builder.turns,
    ...(left.length > 0 ? { tools: left, toolChoice: toolChoice === 'none' ? toolChoice : 'auto' } : {}),
  };
}

type Transcribed = Extract<AnswerEvent, { type: 'text' | 'reasoning' | 'tool_call' | 'tool_arguments' }>;
const isTranscribed = (event: AnswerEvent): event is Transcribed =>
  ['text', 'reasoning', 'tool_call', 'tool_arguments'].includes(event.type);

interface ModelCall {
  readonly id: string;
  readonly name: string;
  text: string;
}

/** One answer of the model: passes on what is for the caller, and keeps what the next one needs. */
class Round {
  readonly #session: HostedSession;
  readonly #calls: ModelCall[] = [];
  /** Index of a function call of the caller in the whole answer, by its index here. */
  readonly #clientIndices = new Map<number, number>();
  readonly #texts = { text: '', reasoning: '' };
  nextClientIndex: number;
  usage: Usage | undefined;
  finishReason: FinishReason = 'stop';

  constructor(session: HostedSession, nextClientIndex: number) {
    this.#session = session;
    this.nextClientIndex = nextClientIndex;
  }

  get hostedCalls(): readonly ModelCall[] {
    return this.#calls.filter(({ name }) => this.#session.isHosted(name));
  }

  /** @returns the events that are for the caller */
  read(batch: readonly AnswerEvent[]): AnswerEvent[] {
    return batch.flatMap((event) => this.#readEvent(event));
  }

  #readEvent(event: AnswerEvent): AnswerEvent[] {
    switch (event.type) {
      case 'text':
      case 'reasoning':
        this.#texts[event.type] += event.text;
        return [event];
      case 'tool_call': {
        const { id, name } = event;
        this.#calls[event.index] = { id, name, text: '' };
        if (this.#session.isHosted(name)) return [];
        this.#clientIndices.set(event.index, this.nextClientIndex);
        return [{ ...event, index: this.nextClientIndex++ }];
      }
      case 'tool_arguments': {
        const call = this.#calls[event.index];
        if (call) call.text += event.text;
        const index = this.#clientIndices.get(event.index);
        return index === undefined ? [] : [{ ...event, index }];
      }
      case 'usage':
        this.usage = event.usage;
        return [];
      case 'finish':
        this.finishReason = event.reason;
        return [];
      default:
        return [event];
    }
  }

  /** Adds the answer to the conversation. */
  addTo(builder: TurnBuilder): void {
    builder.reasoning(this.#texts.reasoning);
    if (this.#texts.text !== '') builder.assistant(this.#texts.text);
    for (const { id, name, text } of this.#calls) builder.call({ id, name, arguments: parseArguments(text) });
  }
}

function addUsage(
  totals: Record<'fresh' | 'cacheRead' | 'output' | 'reasoning', number>,
  usage: Usage | undefined,
) {
  if (!usage) return;
  totals.fresh += usage.fresh;
  totals.cacheRead += usage.cacheRead;
  totals.output += usage.output;
  totals.reasoning += usage.reasoning ?? 0;
}

const callLimitMessage = (calls: number): string =>
  `Not called: ${calls} calls were made for this answer (max_tool_calls). Answer with what you have.`;
