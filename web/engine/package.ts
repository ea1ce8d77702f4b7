/** Public API of the package lathe-web: as `index.ts`, but the embedded model is a part of its own (`package-model.ts`). */
import { loadChat } from './create-chat.ts';
import type { Chat, ChatOptions } from './types.ts';

/**
 * Starts a worker and loads a model in it.
 * @throws ChatError, or the reason of `signal` when it aborts
 */
export const createChat = (options: ChatOptions & Required<Pick<ChatOptions, 'model'>>): Promise<Chat> =>
  loadChat(options);

export { ChatError } from './chat-error.ts';
export { forgetModel, keptModels } from './kept.ts';
export type * from './types.ts';
