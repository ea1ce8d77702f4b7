/** A chat on the visitor's own GPU, for any page: see docs/browser.md. */
export { ChatError } from './chat-error.ts';
export { createChat } from './create-chat.ts';
export { forgetModel, keptModels } from './kept.ts';
export type * from './types.ts';
