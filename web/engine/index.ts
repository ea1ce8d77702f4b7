/** Public API: chat with a model on the visitor's GPU, for any page. See docs/browser.md. */
import { loadChat } from './create-chat.ts';
import type { Chat, ChatOptions } from './types.ts';

/** Relative to the folder of the built module. */
const embeddedModelPath = '../models/lathe-tiny-q8_0.gguf';

/**
 * Starts a worker and loads a model in it; the embedded one if `options` name none.
 * @throws ChatError, or the reason of `signal` when it aborts
 */
export const createChat = (options: ChatOptions = {}): Promise<Chat> =>
  loadChat(options, new URL(embeddedModelPath, import.meta.url).href);

export { ChatError } from './chat-error.ts';
export { forgetModel, keptModels } from './kept.ts';
export type * from './types.ts';
