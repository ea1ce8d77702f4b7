import type { ChatModelToolCall, ChatModelMessage, ProviderData } from '../chat-model.ts';
import type { TurnLoopRequest } from '../services.ts';

type ToolMessage = Extract<ChatModelMessage, { role: 'tool' }>;

/** Results of at most this many characters are not shortened. */
const minShortenedLength = 200;

/** Messages of the agent's conversation with the model. */
export class MessageHistory {
  readonly #messages: ChatModelMessage[];

  /** The path of the working folder is not included: tools take paths relative to it. */
  constructor({ agent, prompt, inputs }: Pick<TurnLoopRequest, 'agent' | 'prompt' | 'inputs'>) {
    this.#messages = [
      ...(agent.instructions === '' ? [] : [{ role: 'system', content: agent.instructions } as const]),
      { role: 'user', content: [prompt, ...Object.entries(inputs ?? {}).map(formatInput)].join('\n\n') },
    ];
  }

  get messages(): readonly ChatModelMessage[] {
    return this.#messages;
  }

  addAssistantMessage(
    content: string,
    calls: readonly ChatModelToolCall[],
    providerData?: ProviderData,
  ): void {
    this.#messages.push({ role: 'assistant', content, calls, ...(providerData ? { providerData } : {}) });
  }

  addUserMessage(content: string): void {
    this.#messages.push({ role: 'user', content });
  }

  addToolResult({ id, name }: ChatModelToolCall, content: string): void {
    this.#messages.push({ role: 'tool', callId: id, name, content });
  }

  /**
   * Frees context: removes the content of the oldest long tool result, or halves it if it is the only one.
   * @returns false when there is nothing to shorten
   */
  shorten(): boolean {
    const results = this.#messages.flatMap((message, index) =>
      message.role === 'tool' && message.content.length > minShortenedLength ? [{ message, index }] : [],
    );
    const [oldest] = results;
    if (!oldest) return false;
    const { message, index } = oldest;
    this.#messages[index] = results.length > 1 ? omitContent(message) : halveContent(message);
    return true;
  }
}

function formatInput([name, value]: [string, unknown]): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
  return `${name}:\n${text}`;
}

const omitContent = (message: ToolMessage): ToolMessage => ({
  ...message,
  content: `(left out to make room: ${message.content.length} characters; call the tool again if you need it)`,
});

const halveContent = (message: ToolMessage): ToolMessage => ({
  ...message,
  content: `${message.content.slice(0, Math.floor(message.content.length / 2) - 50)}\n(the rest left out to make room)`,
});
