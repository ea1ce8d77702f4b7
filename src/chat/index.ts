/** Conversations: templates, tools, reasoning. */
export { getChatTraits, prepareChat } from './prepare.ts';
export * from './types.ts';
