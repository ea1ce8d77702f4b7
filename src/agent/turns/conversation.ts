import type { PlannerCall, PlannerMessage } from '../planner.ts';
import type { TurnsRequest } from '../services.ts';

type ToolMessage = Extract<PlannerMessage, { role: 'tool' }>;

/** Results of at most this many characters are not shortened. */
const fewCharacters = 200;

/** Messages of the agent's conversation with the model. */
export class Conversation {
  readonly #messages: PlannerMessage[];

  /** The path of the working folder is not included: tools take paths relative to it. */
  constructor({ agent, prompt, inputs }: Pick<TurnsRequest, 'agent' | 'prompt' | 'inputs'>) {
    this.#messages = [
      ...(agent.instructions === '' ? [] : [{ role: 'system', content: agent.instructions } as const]),
      { role: 'user', content: [prompt, ...Object.entries(inputs ?? {}).map(shownInput)].join('\n\n') },
    ];
  }

  get messages(): readonly PlannerMessage[] {
    return this.#messages;
  }

  said(content: string, calls: readonly PlannerCall[]): void {
    this.#messages.push({ role: 'assistant', content, calls });
  }

  told(content: string): void {
    this.#messages.push({ role: 'user', content });
  }

  result({ id, name }: PlannerCall, content: string): void {
    this.#messages.push({ role: 'tool', callId: id, name, content });
  }

  /**
   * Frees context: removes the content of the oldest long tool result, or halves it if it is the only one.
   * @returns false when there is nothing to shorten
   */
  shorten(): boolean {
    const results = this.#messages.flatMap((message, index) =>
      message.role === 'tool' && message.content.length > fewCharacters ? [{ message, index }] : [],
    );
    const [oldest] = results;
    if (!oldest) return false;
    const { message, index } = oldest;
    this.#messages[index] = results.length > 1 ? dropped(message) : halved(message);
    return true;
  }
}

function shownInput([name, value]: [string, unknown]): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
  return `${name}:\n${text}`;
}

const dropped = (message: ToolMessage): ToolMessage => ({
  ...message,
  content: `(left out to make room: ${message.content.length} characters; call the tool again if you need it)`,
});

const halved = (message: ToolMessage): ToolMessage => ({
  ...message,
  content: `${message.content.slice(0, Math.floor(message.content.length / 2) - 50)}\n(the rest left out to make room)`,
});
