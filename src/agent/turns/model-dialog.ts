import { sleep } from '../../util/sleep.ts';
import { AgentError } from '../errors.ts';
import type { ChatModel, ChatModelToolCall, ChatModelRequest } from '../chat-model.ts';
import type { TurnLoopRequest } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { Tool, ToolImage } from '../tool.ts';
import type { ToolCallResult } from './tool-call-executor.ts';
import { AgentAbortError } from './agent-abort-error.ts';
import { type ModelAnswer, readAnswer } from './read-answer.ts';
import { MessageHistory } from './message-history.ts';
import type { TurnBudget } from './limits.ts';
import { summarize } from './summarize.ts';
import { describeFormatErrors } from './response-format.ts';
import type { TracedRequest, TurnTracer } from './turn-tracer.ts';

/** Delays before a busy model is asked again, and before one that failed is. */
const busyDelaysMs = [500, 1000, 2000, 4000, 8000, 16_000, 30_000];
const failureDelaysMs = [500, 1000, 2000];
/** Longest delay that a model may ask for. */
const maxRetryAfterMs = 120_000;
/** A shorter delay is not reported, unless a part of an answer came. */
const reportedDelayMs = 1000;
/** Consecutive answers that are cut off or have the wrong format. */
const maxUnusableAnswers = 3;
/** Characters of such an answer that stay in the conversation. */
const maxAbbreviatedLength = 300;
/** Tool calls of one answer. */
const maxCalls = 32;

export interface ModelDialogOptions {
  readonly chatModel: ChatModel;
  readonly request: TurnLoopRequest;
  /** AGENTS.md of the working folder. */
  readonly folderGuide?: string | undefined;
  readonly tools: readonly Tool[];
  readonly budget: TurnBudget;
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  readonly turnTracer: TurnTracer;
  readonly signal: AbortSignal;
}

/** Dialog with the model, turn by turn. */
export class ModelDialog {
  readonly #options: ModelDialogOptions;
  readonly #history: MessageHistory;
  readonly #callIds: Set<string>;
  /** Number of the last turn. */
  #lastTurn: number;
  #unusableAnswers = 0;
  /** Text of the final answer. */
  text = '';

  constructor(options: ModelDialogOptions) {
    const history = new MessageHistory(options.request, options.folderGuide);
    this.#options = options;
    this.#history = history;
    this.#lastTurn = options.request.conversation?.lastTurn ?? 0;
    this.#callIds = new Set(
      history.messages.flatMap((message) =>
        message.role === 'assistant' ? message.calls.map(({ id }) => id) : [],
      ),
    );
    options.turnTracer.recordMessages(history.messages);
  }

  /** Calls that an interruption left without a result. */
  get unansweredCalls(): readonly ChatModelToolCall[] {
    return this.#history.unansweredCalls;
  }

  /** The final answer, if an interruption came after it. */
  get finalAnswer(): string | undefined {
    return this.#history.lastAnswer;
  }

  /**
   * Runs one turn.
   * @returns the tool calls to run; an empty list when the model must answer again; undefined when `text` is the final
   * answer
   */
  async turn(): Promise<readonly ChatModelToolCall[] | undefined> {
    const { chatModel, budget, emit, request, turnTracer } = this.#options;
    const isFirst = budget.startTurn() === 1;
    this.#lastTurn += 1;
    const n = this.#lastTurn;
    await emit({ type: 'turn', n });
    const maxTokens = budget.maxAnswerTokens;
    const answer = await turnTracer.traceTurn(n, chatModel.route, (traced) =>
      this.#generateAnswer(isFirst, traced),
    );
    const { text, finish, usage } = answer;
    budget.add(usage, answer.writtenLength);
    if (usage) {
      const { promptTokens, completionTokens } = usage;
      await emit({ type: 'usage', prompt_tokens: promptTokens, completion_tokens: completionTokens });
    }
    if (budget.tokensLeft < 0 || (finish === 'length' && budget.tokensLeft === 0))
      throw budget.tokenBudgetError();
    if (finish === 'content_filter')
      throw new AgentAbortError('error', "The content filter of the model's provider stopped the answer.");
    const calls = this.#withUniqueIds(answer.calls, n);
    if (finish === 'length') {
      // Cut off before its token limit: the context is full.
      if (usage && usage.completionTokens < (answer.maxTokens ?? maxTokens)) this.#history.shorten();
      return await this.#askAgain(text, cutOffMessage);
    }
    if (calls.length > 0) {
      this.#unusableAnswers = 0;
      await this.#history.addAnswer(text, calls, answer.providerData);
      return calls;
    }
    const fault = describeFormatErrors(request.responseFormat, text);
    if (fault !== undefined) return await this.#askAgain(text, fault);
    await this.#history.addAnswer(text, [], answer.providerData);
    this.text = text;
    return undefined;
  }

  async addToolResult(call: ChatModelToolCall, result: ToolCallResult): Promise<void> {
    await this.#history.addToolResult(call, result);
  }

  async restoreImages(read: (image: ToolImage) => Promise<string | undefined>): Promise<void> {
    await this.#history.restoreImages(read);
  }

  async #generateAnswer(isFirst: boolean, { emit, traceparent }: TracedRequest): Promise<ModelAnswer> {
    const { chatModel, signal } = this.#options;
    for (let attempts = 0; ; ) {
      signal.throwIfAborted();
      let hasWritten = false;
      const emitPart = async (event: NewTurnEvent) => {
        hasWritten = true;
        await emit(event);
      };
      try {
        return await readAnswer(chatModel, this.#request(isFirst, traceparent), emitPart, signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof AgentError)) throw error;
        if (error.code === 'context_length_exceeded') {
          if (this.#history.shorten() || (await this.#compact())) continue;
          throw contextTooLongError(this.#options.tools.length);
        }
        const ms = retryDelayMs(error, attempts);
        if (ms === undefined) throw error;
        attempts += 1;
        if (hasWritten || ms >= reportedDelayMs)
          await this.#options.emit({ type: 'retrying', message: error.message, after_ms: Math.round(ms) });
        await sleep(ms, signal);
      }
    }
  }

  /** Replaces older messages by a summary of the model's. @returns false when there is nothing to replace */
  async #compact(): Promise<boolean> {
    const { chatModel, budget, emit, request, signal } = this.#options;
    const older = this.#history.summarizable;
    if (older.length === 0) return false;
    const sampling = request.agent.sampling ?? {};
    // Half of what is left: the other half is for the answer.
    const maxTokens = Math.floor(budget.tokensLeft / 2);
    const answer = await summarize(chatModel, older, { maxTokens, sampling, signal });
    if (answer) budget.addTokens(answer.usage, answer.writtenLength);
    if (budget.tokensLeft <= 0) throw budget.tokenBudgetError();
    const summary = answer?.text.trim() ?? `${older.length} messages, which could not be summarized.`;
    this.#history.replaceBySummary(summary);
    await emit({ type: 'compacted', messages: older.length, summary });
    return true;
  }

  #request(isFirst: boolean, traceparent: string | undefined): ChatModelRequest {
    const { request, tools, budget } = this.#options;
    const { agent, responseFormat } = request;
    return {
      messages: this.#history.messages,
      tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
      toolChoice: isFirst ? (agent.tool_choice ?? 'auto') : 'auto',
      ...(responseFormat ? { responseFormat } : {}),
      sampling: agent.sampling ?? {},
      maxTokens: budget.maxAnswerTokens,
      ...(traceparent === undefined ? {} : { traceparent }),
    };
  }

  /** Asks the model to answer again. */
  async #askAgain(text: string, reason: string): Promise<readonly ChatModelToolCall[]> {
    this.#unusableAnswers += 1;
    if (this.#unusableAnswers >= maxUnusableAnswers)
      throw new AgentAbortError(
        'error',
        `The model gave ${maxUnusableAnswers} unusable answers in a row. The last one: ${reason}`,
      );
    await this.#history.addUnusable(abbreviate(text), reason);
    this.#options.turnTracer.recordMessages(this.#history.messages.slice(-1));
    return [];
  }

  /** Makes the ids of calls unique within the task. */
  #withUniqueIds(calls: readonly ChatModelToolCall[], n: number): readonly ChatModelToolCall[] {
    if (calls.length > maxCalls)
      throw new AgentAbortError(
        'budget',
        `The model made ${calls.length} calls in one answer; at most ${maxCalls} are made.`,
      );
    return calls.map((call, index) => {
      let id = call.id.slice(0, 200);
      if (id === '' || this.#callIds.has(id)) id = `call_${n}_${index + 1}`;
      while (this.#callIds.has(id)) id += '_';
      this.#callIds.add(id);
      return { ...call, id };
    });
  }
}

/** Delay before the model is asked again; undefined: it is not. */
function retryDelayMs({ kind, isPassing, retryAfterMs }: AgentError, attempts: number): number | undefined {
  const ms = (kind === 'too_many' ? busyDelaysMs : failureDelaysMs)[attempts];
  if (!isPassing || ms === undefined || (retryAfterMs ?? 0) > maxRetryAfterMs) return undefined;
  // So that several tasks do not ask at the same time.
  return Math.max(ms * (1 + Math.random() / 4), retryAfterMs ?? 0);
}

/** An unusable answer takes little room in the conversation. */
const abbreviate = (text: string) =>
  text.length > maxAbbreviatedLength ? `${text.slice(0, maxAbbreviatedLength)} ...` : text;

const cutOffMessage = 'Your answer was cut off because it was too long. Answer again, and more briefly.';

const contextTooLongError = (tools: number) =>
  new AgentAbortError(
    'error',
    tools === 0
      ? 'The conversation does not fit the context of the model: give it less to read, or the agent fewer tools.'
      : `The conversation, with the ${tools === 1 ? 'description of its tool' : `descriptions of its ${tools} tools`}, does not fit the context of the model: grant fewer tools, give it less to read, or start the host with a model of a larger context.`,
  );
