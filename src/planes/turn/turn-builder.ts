import type { ChatTurn, PastToolCall } from '../../chat/index.ts';

type Mutable<Value> = { -readonly [Member in keyof Value]: Value[Member] };
type AssistantTurn = Mutable<Omit<Extract<ChatTurn, { role: 'assistant' }>, 'toolCalls'>> & {
  toolCalls?: PastToolCall[];
};
type Turn =
  | Mutable<Extract<ChatTurn, { role: 'system' | 'user' }>>
  | AssistantTurn
  | Extract<ChatTurn, { role: 'tool' }>;

/**
 * Builds chat turns for a wire whose items are smaller than a template's turns: consecutive reasoning, text and calls
 * of the assistant form one turn, and so do consecutive system messages.
 */
export class TurnBuilder {
  readonly #turns: Turn[] = [];
  readonly #mergeUserMessages: boolean;
  /** Maps call ids to function names. */
  readonly #functionNames = new Map<string, string>();

  /** @param options.mergeUserMessages for a wire that treats consecutive user messages as one */
  constructor({ mergeUserMessages = false }: { mergeUserMessages?: boolean } = {}) {
    this.#mergeUserMessages = mergeUserMessages;
  }

  get turns(): readonly ChatTurn[] {
    return this.#turns;
  }

  system(content: string): void {
    this.#append('system', content, true);
  }

  user(content: string): void {
    this.#append('user', content, this.#mergeUserMessages);
  }

  #append(role: 'system' | 'user', content: string, isMerged: boolean): void {
    const last = this.#turns.at(-1);
    if (isMerged && last?.role === role) last.content += `\n\n${content}`;
    else this.#turns.push({ role, content });
  }

  assistant(content: string): void {
    const turn = this.#assistantTurn();
    turn.content = turn.content === '' ? content : `${turn.content}\n${content}`;
  }

  reasoning(reasoning: string): void {
    if (reasoning === '') return;
    const turn = this.#assistantTurn();
    turn.reasoning = turn.reasoning === undefined ? reasoning : `${turn.reasoning}\n${reasoning}`;
  }

  call(call: PastToolCall): void {
    const turn = this.#assistantTurn();
    turn.toolCalls ??= [];
    turn.toolCalls.push(call);
    this.#functionNames.set(call.id, call.name);
  }

  /** @returns false where no earlier call has this id */
  result(callId: string, content: string): boolean {
    const name = this.#functionNames.get(callId);
    if (name === undefined) return false;
    this.#turns.push({ role: 'tool', content, callId, name });
    return true;
  }

  #assistantTurn(): AssistantTurn {
    const last = this.#turns.at(-1);
    if (last?.role === 'assistant') return last;
    const turn: AssistantTurn = { role: 'assistant', content: '' };
    this.#turns.push(turn);
    return turn;
  }
}
