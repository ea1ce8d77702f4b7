import type { ChatInput } from '../../chat/index.ts';
import type { Engine } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { preparePrompt } from '../turn/chat.ts';

/** A conversation that fits the context. */
interface TruncatedChat {
  readonly input: ChatInput;
  /** Number of messages that were dropped. */
  readonly droppedMessages: number;
}

/**
 * Drops the oldest turns of a conversation that exceeds the context. System messages stay, and the rest begins with a
 * user turn, as templates require. Binary search finds the fewest turns to drop.
 * @param maxTokens throws where a prompt of that length leaves no space for an answer
 */
export async function truncateToContext(
  engine: Engine,
  input: ChatInput,
  maxTokens: (promptTokens: number) => number,
): Promise<TruncatedChat> {
  const findOverflow = async (candidate: ChatInput): Promise<HttpError | undefined> => {
    try {
      maxTokens((await preparePrompt(engine, candidate)).prompt.length);
      return undefined;
    } catch (error) {
      if (error instanceof HttpError && error.code === 'context_length_exceeded') return error;
      throw error;
    }
  };
  const tooLong = await findOverflow(input);
  if (!tooLong) return { input, droppedMessages: 0 };
  const { messages } = input;
  const [, ...starts] = messages.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  const startingAt = (start: number): ChatInput => ({
    ...input,
    messages: messages.filter(({ role }, index) => index >= start || role === 'system'),
  });
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (await findOverflow(startingAt(starts[middle] ?? 0))) low = middle + 1;
    else high = middle;
  }
  const start = starts[low];
  if (start === undefined) throw tooLong;
  const truncated = startingAt(start);
  return { input: truncated, droppedMessages: messages.length - truncated.messages.length };
}
