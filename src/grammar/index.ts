/** Grammars, which constrain the tokens of an answer. */
export { type GrammarServiceOptions, createGrammarService } from './grammars.ts';
export { type XGrammarLibrary, serveGrammars } from './matching/index.ts';
export type { GrammarWorker, GrammarRequest, GrammarReply } from './matching/messages.ts';
export * from './types.ts';
