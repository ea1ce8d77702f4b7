import { AgentError } from '../errors.ts';
import type { PlannerEvent } from '../planner.ts';
import { streamRefusal } from './refusals.ts';

interface Chunk {
  readonly error?: unknown;
  readonly choices?: readonly {
    readonly delta?: Delta;
    readonly message?: Delta;
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: { readonly prompt_tokens?: unknown; readonly completion_tokens?: unknown } | null;
}
interface Delta {
  readonly content?: unknown;
  readonly reasoning?: unknown;
  readonly reasoning_content?: unknown;
  readonly tool_calls?: readonly CallPiece[] | null;
}
interface CallPiece {
  readonly index?: number;
  readonly id?: string | null;
  readonly function?: { readonly name?: string | null; readonly arguments?: unknown };
}

/** Makes events of the chunks of a completion, whatever the server leaves out of them. */
export class CompletionReader {
  readonly #model: string;
  readonly #key: string | undefined;
  readonly #calls = new Map<number, { id: string; name: string; pieces: string[] }>();
  #finish: string | undefined;
  #usage: { promptTokens: number; completionTokens: number } | undefined;

  constructor(model: string, key: string | undefined) {
    this.#model = model;
    this.#key = key;
  }

  *push(data: string): Generator<PlannerEvent, void, undefined> {
    const chunk = data.trim() === '[DONE]' ? undefined : parsed(data);
    if (!chunk) return;
    if (chunk.error) throw streamRefusal(chunk.error, this.#model, this.#key);
    const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = chunk.usage ?? {};
    if (isCount(promptTokens) && isCount(completionTokens)) this.#usage = { promptTokens, completionTokens };
    const choice = chunk.choices?.[0];
    const delta = choice?.delta ?? choice?.message ?? {};
    const thought = delta.reasoning ?? delta.reasoning_content;
    if (typeof thought === 'string' && thought !== '') yield { type: 'reasoning', text: thought };
    if (typeof delta.content === 'string' && delta.content !== '')
      yield { type: 'delta', text: delta.content };
    for (const piece of delta.tool_calls ?? []) this.#take(piece);
    this.#finish = choice?.finish_reason ?? this.#finish;
  }

  /** The stream is over. */
  *end(): Generator<PlannerEvent, void, undefined> {
    if (this.#finish === undefined)
      throw new AgentError('unavailable', 'gateway_broke_off', 'The gateway broke off its answer.');
    for (const { id, name, pieces } of this.#calls.values())
      yield { type: 'call', call: { id, name, arguments: pieces.join('') } };
    const finish =
      this.#finish === 'length'
        ? 'length'
        : this.#calls.size > 0
          ? ('tool_calls' as const)
          : ('stop' as const);
    yield { type: 'end', finish, ...(this.#usage ? { usage: this.#usage } : {}) };
  }

  /** Some servers number no calls: a new id begins a new one. */
  #take({ index, id, function: called = {} }: CallPiece): void {
    const last = this.#calls.size - 1;
    const begins = typeof id === 'string' && id !== '' && this.#calls.get(last)?.id !== id;
    const at = index ?? (begins ? last + 1 : Math.max(0, last));
    const call = this.#calls.get(at) ?? { id: '', name: '', pieces: [] };
    this.#calls.set(at, call);
    if (typeof id === 'string' && id !== '') call.id = id;
    if (typeof called.name === 'string') call.name += called.name;
    const args = called.arguments;
    if (typeof args === 'string') call.pieces.push(args);
    // Some write them as a value.
    else if (typeof args === 'object' && args !== null) call.pieces.push(JSON.stringify(args));
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function parsed(data: string): Chunk | undefined {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
