import type { ChatTurn, PastCall } from '../../chat/index.ts';

type Changeable<Value> = { -readonly [Member in keyof Value]: Value[Member] };
type AssistantTurn = Changeable<Omit<Extract<ChatTurn, { role: 'assistant' }>, 'toolCalls'>> & {
  toolCalls?: PastCall[];
};
type Turn =
  | Changeable<Extract<ChatTurn, { role: 'system' | 'user' }>>
  | AssistantTurn
  | Extract<ChatTurn, { role: 'tool' }>;

/**
 * Builds chat turns for a wire whose items are smaller than a template's turns: consecutive reasoning, text and calls
 * of the assistant form one turn, and so do consecutive system messages.
 */
export class Conversation {
  readonly #turns: Turn[] = [];
  readonly #joinUsers: boolean;
  /** Maps call ids to function names. */
  readonly #calls = new Map<string, string>();

  /** @param options.mergeUserMessages for a wire that treats consecutive user messages as one */
  constructor({ joinUsers = false }: { joinUsers?: boolean } = {}) {
    this.#joinUsers = joinUsers;
  }

  get turns(): readonly ChatTurn[] {
    return this.#turns;
  }

  system(content: string): void {
    this.#say('system', content, true);
  }

  user(content: string): void {
    this.#say('user', content, this.#joinUsers);
  }

  #say(role: 'system' | 'user', content: string, join: boolean): void {
    const last = this.#turns.at(-1);
    if (join && last?.role === role) last.content += `\n\n${content}`;
    else this.#turns.push({ role, content });
  }

  assistant(content: string): void {
    const turn = this.#answer();
    turn.content = turn.content === '' ? content : `${turn.content}\n${content}`;
  }

  thought(reasoning: string): void {
    if (reasoning === '') return;
    const turn = this.#answer();
    turn.reasoning = turn.reasoning === undefined ? reasoning : `${turn.reasoning}\n${reasoning}`;
  }

  call(call: PastCall): void {
    const turn = this.#answer();
    turn.toolCalls ??= [];
    turn.toolCalls.push(call);
    this.#calls.set(call.id, call.name);
  }

  /** @returns false where no earlier call has this id */
  result(callId: string, content: string): boolean {
    const name = this.#calls.get(callId);
    if (name === undefined) return false;
    this.#turns.push({ role: 'tool', content, callId, name });
    return true;
  }

  #answer(): AssistantTurn {
    const last = this.#turns.at(-1);
    if (last?.role === 'assistant') return last;
    const turn: AssistantTurn = { role: 'assistant', content: '' };
    this.#turns.push(turn);
    return turn;
  }
}
