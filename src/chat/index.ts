/** Conversations: templates, tools, reasoning. */
export { chatTraits, prepareChat } from './prepare.ts';
export * from './types.ts';
