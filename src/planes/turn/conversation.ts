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
 * Turns of a wire that cuts them finer than templates do: what the assistant thought, said and called one after the
 * other is one turn, and so are system messages without a turn between them.
 */
export class Conversation {
  readonly #turns: Turn[] = [];
  readonly #joinUsers: boolean;
  /** Call ids to the functions' names. */
  readonly #calls = new Map<string, string>();

  /** @param options.joinUsers for a wire that takes consecutive messages of a user for one */
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

  /** @returns false where no call with this id stands before */
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
