import type { ChatInput } from '../../chat/index.ts';
import type { Engine } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { prepare } from '../turn/chat.ts';

/**
 * Drops the oldest turns of a conversation that exceeds the context. System messages stay, and the rest begins with a
 * user turn, as templates require. Binary search finds the fewest turns to drop.
 * @param maxTokens throws where a prompt of that length leaves no space for an answer
 */
export async function withinContext(
  engine: Engine,
  input: ChatInput,
  maxTokens: (promptTokens: number) => number,
): Promise<ChatInput> {
  const fault = async (candidate: ChatInput): Promise<HttpError | undefined> => {
    try {
      maxTokens((await prepare(engine, candidate)).prompt.length);
      return undefined;
    } catch (error) {
      if (error instanceof HttpError && error.code === 'context_length_exceeded') return error;
      throw error;
    }
  };
  const tooLong = await fault(input);
  if (!tooLong) return input;
  const { messages } = input;
  const [, ...starts] = messages.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  const from = (start: number): ChatInput => ({
    ...input,
    messages: messages.filter(({ role }, index) => index >= start || role === 'system'),
  });
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (await fault(from(starts[middle] ?? 0))) low = middle + 1;
    else high = middle;
  }
  const start = starts[low];
  if (start === undefined) throw tooLong;
  return from(start);
}
