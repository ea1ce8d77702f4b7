/** Grammars, which constrain the tokens of an answer. */
export { type GrammarsOptions, openGrammars } from './grammars.ts';
export { type Library, serveGrammars } from './matching/index.ts';
export type { GrammarWorker, Question, Reply } from './matching/messages.ts';
export * from './types.ts';
