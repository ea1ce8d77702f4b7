/** Public API: chat with a model on the visitor's GPU, for any page. See docs/browser.md. */
import { loadChat } from './create-chat.ts';
import { embeddedModelUrl } from './embedded-model-url.ts';
import type { Chat, ChatOptions } from './types.ts';

/**
 * Starts a worker and loads a model in it; the embedded one if `options` name none.
 * @throws ChatError, or the reason of `signal` when it aborts
 */
export const createChat = (options: ChatOptions = {}): Promise<Chat> => loadChat(options, embeddedModelUrl);

export { ChatError } from './chat-error.ts';
export { forgetModel, keptModels } from './kept.ts';
export type * from './types.ts';
