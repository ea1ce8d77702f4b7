/** Public API: chat with a model on the visitor's GPU, for any page. See docs/browser.md. */
export { ChatError } from './chat-error.ts';
export { createChat } from './create-chat.ts';
export { forgetModel, keptModels } from './kept.ts';
export type * from './types.ts';
