/** Grammars, which constrain the tokens of an answer. */
export { type GrammarServiceOptions, createGrammarService } from './grammar-service.ts';
export { type XGrammarLibrary, serveGrammars } from './matching/serve-grammars.ts';
export type { GrammarWorker, GrammarRequest, GrammarReply } from './matching/messages.ts';
export * from './types.ts';
