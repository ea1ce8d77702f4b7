import type { ChatModelToolCall, ChatModelMessage, ProviderData } from '../chat-model.ts';
import type { Conversation, TurnLoopRequest } from '../services.ts';
import type { ToolImage, ToolOutput } from '../tool.ts';

type ToolMessage = Extract<ChatModelMessage, { role: 'tool' }>;

/** Results of at most this many characters are not shortened. */
const minShortenedLength = 200;

/** Images in a conversation, and bytes of all of them: requests have at most 20 MB at some providers. */
const maxImages = 10;
const maxImageBytes = 12 * 1024 * 1024;

/** Messages that a summary replaces at least. */
const minSummarized = 3;

/** Messages of the agent's conversation with the model. What is added is recorded first. */
export class MessageHistory {
  readonly #messages: ChatModelMessage[];
  readonly #conversation: Conversation | undefined;

  /**
   * The path of the working folder is not included: tools take paths relative to it.
   * @param folderGuide AGENTS.md of the working folder
   */
  constructor(
    {
      agent,
      prompt,
      inputs,
      conversation,
    }: Pick<TurnLoopRequest, 'agent' | 'prompt' | 'inputs' | 'conversation'>,
    folderGuide?: string,
  ) {
    const guide = folderGuide === undefined ? '' : `AGENTS.md of the working folder:\n${folderGuide}`;
    const content = [agent.instructions, guide].filter((text) => text !== '').join('\n\n');
    this.#conversation = conversation;
    this.#messages = [
      ...(content === '' ? [] : [{ role: 'system', content } as const]),
      ...(conversation?.messages ?? [promptMessage({ prompt, inputs })]),
    ];
  }

  get messages(): readonly ChatModelMessage[] {
    return this.#messages;
  }

  /** Calls of the last answer that have no result. */
  get unansweredCalls(): readonly ChatModelToolCall[] {
    return unansweredCallsOf(this.#messages);
  }

  /** The text of an answer without calls, if that is the last message. */
  get lastAnswer(): string | undefined {
    const last = this.#messages.at(-1);
    return last?.role === 'assistant' && last.calls.length === 0 ? last.content : undefined;
  }

  async addAnswer(
    content: string,
    calls: readonly ChatModelToolCall[],
    providerData?: ProviderData,
  ): Promise<void> {
    await this.#add({ role: 'assistant', content, calls, ...(providerData ? { providerData } : {}) });
  }

  /** Adds an answer that cannot be used, and what is wrong with it. */
  async addUnusable(content: string, reason: string): Promise<void> {
    await this.#add({ role: 'assistant', content, calls: [] }, { role: 'user', content: reason });
  }

  async addToolResult(
    { id, name }: ChatModelToolCall,
    { output: content, image }: Pick<ToolOutput, 'output' | 'image'>,
  ): Promise<void> {
    await this.#add({ role: 'tool', callId: id, name, content, ...(image ? { image } : {}) });
    this.#limitImages();
  }

  /** Reads the images again that an earlier process or part of the task had read. What is no longer there is left out. */
  async restoreImages(read: (image: ToolImage) => Promise<string | undefined>): Promise<void> {
    this.#limitImages();
    for (const { message, index } of this.#imageMessages) {
      if (message.image.data !== undefined) continue;
      const data = await read(message.image);
      this.#messages[index] =
        data === undefined
          ? omitImage(message, 'it is not there any more as it was')
          : { ...message, image: { ...message.image, data } };
    }
  }

  get #imageMessages() {
    return this.#messages.flatMap((message, index) =>
      message.role === 'tool' && message.image
        ? [{ message: { ...message, image: message.image }, index }]
        : [],
    );
  }

  /** Leaves out the oldest images where there are too many. */
  #limitImages(): void {
    let images = 0;
    let bytes = 0;
    for (const { message, index } of this.#imageMessages.toReversed()) {
      images += 1;
      bytes += message.image.sizeBytes;
      if (images > maxImages || bytes > maxImageBytes)
        this.#messages[index] = omitImage(message, 'left out to make room; read it again if you need it');
    }
  }

  /**
   * Frees context: removes the oldest image, then the content of the oldest long tool result, or halves it if it is the
   * only one. What is recorded stays whole.
   * @returns false when there is nothing to shorten
   */
  shorten(): boolean {
    const [image] = this.#imageMessages;
    if (image) {
      this.#messages[image.index] = omitImage(image.message, 'left out to make room');
      return true;
    }
    const results = this.#messages.flatMap((message, index) =>
      message.role === 'tool' && message.content.length > minShortenedLength ? [{ message, index }] : [],
    );
    const [oldest] = results;
    if (!oldest) return false;
    const { message, index } = oldest;
    this.#messages[index] = results.length > 1 ? omitContent(message) : halveContent(message);
    return true;
  }

  /**
   * The messages that can be replaced by a summary: all but the last answer with its results, and what came after it.
   * Empty where that frees too little.
   */
  get summarizable(): readonly ChatModelMessage[] {
    const { first, recent } = this.#bounds();
    return recent - first < minSummarized ? [] : this.#messages.slice(first, recent);
  }

  /** Replaces the summarizable messages. What is recorded stays whole. */
  replaceBySummary(summary: string): void {
    const { first, recent } = this.#bounds();
    const replaced = this.#messages.slice(first, recent);
    const request = replaced.findLast(({ role }) => role === 'user');
    const isAsked = this.#messages.slice(recent).some(({ role }) => role === 'user');
    const parts = [
      `(The beginning of this conversation was left out to make room. Its summary:)\n${summary}`,
      ...(request && !isAsked ? [`(The last request, in full:)\n${request.content}`] : []),
    ];
    const message = { role: 'user', content: parts.join('\n\n') } as const;
    this.#messages.splice(first, recent - first, message);
  }

  #bounds(): { readonly first: number; readonly recent: number } {
    const first = this.#messages[0]?.role === 'system' ? 1 : 0;
    // A result must follow its call.
    const recent = this.#messages.findLastIndex(({ role }) => role === 'assistant');
    return { first, recent: recent < 0 ? first : recent };
  }

  async #add(...messages: readonly ChatModelMessage[]): Promise<void> {
    await this.#conversation?.record(messages.map(withoutImageData));
    this.#messages.push(...messages);
  }
}

/** The message of a request: its prompt and its inputs. */
export const promptMessage = ({
  prompt,
  inputs,
}: {
  readonly prompt: string;
  readonly inputs?: TurnLoopRequest['inputs'] | undefined;
}): ChatModelMessage => ({
  role: 'user',
  content: [prompt, ...Object.entries(inputs ?? {}).map(formatInput)].join('\n\n'),
});

/**
 * The messages of a new part: calls that an earlier part left open are answered first.
 * @param described what became of them, by id
 */
export const partMessages = (
  earlier: readonly ChatModelMessage[],
  request: Parameters<typeof promptMessage>[0],
  described: ReadonlyMap<string, string>,
): readonly ChatModelMessage[] => [
  ...unansweredCallsOf(earlier).map(
    ({ id, name }): ToolMessage => ({
      role: 'tool',
      callId: id,
      name,
      content: described.get(id) ?? 'This call was not finished: the task was ended before.',
    }),
  ),
  promptMessage(request),
];

/** Calls of the last answer that have no result. */
export function unansweredCallsOf(messages: readonly ChatModelMessage[]): readonly ChatModelToolCall[] {
  const at = messages.findLastIndex(({ role }) => role === 'assistant');
  const answer = messages[at];
  if (answer?.role !== 'assistant') return [];
  const results = new Set(
    messages.slice(at).flatMap((message) => (message.role === 'tool' ? [message.callId] : [])),
  );
  return answer.calls.filter(({ id }) => !results.has(id));
}

function formatInput([name, value]: [string, unknown]): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
  return `${name}:\n${text}`;
}

/** What is stored: megabytes of an image are not. */
function withoutImageData(message: ChatModelMessage): ChatModelMessage {
  if (message.role !== 'tool' || !message.image) return message;
  const { data: _, ...image } = message.image;
  return { ...message, image };
}

function omitImage(message: ToolMessage, reason: string): ToolMessage {
  const { image: _, ...others } = message;
  return { ...others, content: `${message.content}\n(${reason})` };
}

const omitContent = (message: ToolMessage): ToolMessage => ({
  ...message,
  content: `(left out to make room: ${message.content.length} characters; call the tool again if you need it)`,
});

const halveContent = (message: ToolMessage): ToolMessage => ({
  ...message,
  content: `${message.content.slice(0, Math.floor(message.content.length / 2) - 50)}\n(the rest left out to make room)`,
});
