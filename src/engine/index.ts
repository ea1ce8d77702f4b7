/** The only door of the engine. */
export { loadEngine, ResidentEngine } from './engine.ts';
export { ModelFileError } from './formats/model-file.ts';
export type { ByteSource, Hasher, Platform, Store, WgslSources } from './platform.ts';
export type { ChatMessage, ChatTemplate, Tokenizer, TokenStream } from './tokenizer/types.ts';
export * from './types.ts';
