import { pause } from '../../util/pause.ts';
import { AgentError } from '../errors.ts';
import type { Planner, PlannerCall, PlannerRequest } from '../planner.ts';
import type { TurnsRequest } from '../services.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { Tool } from '../tool.ts';
import { Abortion } from './abortion.ts';
import { type Answer, readAnswer } from './answer.ts';
import { Conversation } from './conversation.ts';
import type { Spending } from './limits.ts';
import { formatFaults } from './response-format.ts';
import type { Asking, Telling } from './telling.ts';

/** Delays before a busy model is asked again. */
const patienceMs = [500, 1000, 2000, 4000];
/** Consecutive answers that are cut off or have the wrong format. */
const mostUnfit = 3;
/** Characters of such an answer that stay in the conversation. */
const mostKept = 300;
/** Tool calls of one answer. */
const mostCalls = 32;

export interface TalkOptions {
  readonly planner: Planner;
  readonly request: TurnsRequest;
  readonly tools: readonly Tool[];
  readonly spending: Spending;
  readonly emit: (event: NewTurnEvent) => Promise<void>;
  readonly telling: Telling;
  readonly signal: AbortSignal;
}

/** Dialog with the model, turn by turn. */
export class Talk {
  readonly #options: TalkOptions;
  readonly #conversation: Conversation;
  readonly #ids = new Set<string>();
  #unfit = 0;
  /** Text of the final answer. */
  text = '';

  constructor(options: TalkOptions) {
    this.#options = options;
    this.#conversation = new Conversation(options.request);
    options.telling.told(this.#conversation.messages);
  }

  /**
   * Runs one turn.
   * @returns the tool calls to run; an empty list when the model must answer again; undefined when `text` is the final
   * answer
   */
  async turn(): Promise<readonly PlannerCall[] | undefined> {
    const { planner, spending, emit, request, telling } = this.#options;
    const n = spending.begin();
    await emit({ type: 'turn', n });
    const asked = spending.answerTokens;
    const answer = await telling.turn(n, planner.route, (asking) => this.#ask(n, asking));
    const { text, finish, usage } = answer;
    spending.add(usage, answer.written);
    if (usage) {
      const { promptTokens, completionTokens } = usage;
      await emit({ type: 'usage', prompt_tokens: promptTokens, completion_tokens: completionTokens });
    }
    if (spending.left < 0 || (finish === 'length' && spending.left === 0)) throw spending.overTokens();
    const calls = this.#named(answer.calls, n);
    if (finish === 'length') {
      // Cut off before its token limit: the context is full.
      if (usage && usage.completionTokens < asked) this.#conversation.shorten();
      return this.#again(text, cutOff);
    }
    if (calls.length > 0) {
      this.#unfit = 0;
      this.#conversation.said(text, calls);
      return calls;
    }
    const fault = formatFaults(request.responseFormat, text);
    if (fault !== undefined) return this.#again(text, fault);
    this.text = text;
    return undefined;
  }

  result(call: PlannerCall, output: string): void {
    this.#conversation.result(call, output);
  }

  async #ask(n: number, { emit, traceparent }: Asking): Promise<Answer> {
    const { planner, signal } = this.#options;
    for (let tries = 0; ; ) {
      signal.throwIfAborted();
      try {
        return await readAnswer(planner, this.#request(n, traceparent), emit, signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof AgentError)) throw error;
        if (error.code === 'context_length_exceeded') {
          if (!this.#conversation.shorten()) throw tooLong(this.#options.tools.length);
          continue;
        }
        const ms = error.kind === 'too_many' ? patienceMs[tries] : undefined;
        if (ms === undefined) throw error;
        tries += 1;
        await pause(ms, signal);
      }
    }
  }

  #request(n: number, traceparent: string | undefined): PlannerRequest {
    const { request, tools, spending } = this.#options;
    const { agent, responseFormat } = request;
    return {
      messages: this.#conversation.messages,
      tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
      toolChoice: n === 1 ? (agent.tool_choice ?? 'auto') : 'auto',
      ...(responseFormat ? { responseFormat } : {}),
      sampling: agent.sampling ?? {},
      maxTokens: spending.answerTokens,
      ...(traceparent === undefined ? {} : { traceparent }),
    };
  }

  /** Asks the model to answer again. */
  #again(text: string, why: string): readonly PlannerCall[] {
    this.#unfit += 1;
    if (this.#unfit >= mostUnfit)
      throw new Abortion(
        'error',
        `The model gave ${mostUnfit} unusable answers in a row. The last one: ${why}`,
      );
    this.#conversation.said(beginning(text), []);
    this.#conversation.told(why);
    this.#options.telling.told(this.#conversation.messages.slice(-1));
    return [];
  }

  /** Makes the ids of calls unique within the task. */
  #named(calls: readonly PlannerCall[], n: number): readonly PlannerCall[] {
    if (calls.length > mostCalls)
      throw new Abortion(
        'budget',
        `The model made ${calls.length} calls in one answer; at most ${mostCalls} are made.`,
      );
    return calls.map((call, index) => {
      let id = call.id.slice(0, 200);
      if (id === '' || this.#ids.has(id)) id = `call_${n}_${index + 1}`;
      while (this.#ids.has(id)) id += '_';
      this.#ids.add(id);
      return { ...call, id };
    });
  }
}

/** An unusable answer takes little room in the conversation. */
const beginning = (text: string) => (text.length > mostKept ? `${text.slice(0, mostKept)} ...` : text);

const cutOff = 'Your answer was cut off because it was too long. Answer again, and more briefly.';

const tooLong = (tools: number) =>
  new Abortion(
    'error',
    tools === 0
      ? 'The conversation does not fit the context of the model: give it less to read, or the agent fewer tools.'
      : `The conversation, with the ${tools === 1 ? 'description of its tool' : `descriptions of its ${tools} tools`}, does not fit the context of the model: grant fewer tools, give it less to read, or start the host with a model of a larger context.`,
  );
