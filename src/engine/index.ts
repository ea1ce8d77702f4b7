/** The public interface of the engine. */
export {
  type Binding,
  fits,
  type LabKernel,
  oneTokenSibling,
  overlapping,
  type Target,
  targetsOf,
} from './bindings.ts';
export { checkModel } from './digest.ts';
export { klDivergence } from './divergence.ts';
export { loadEngine, ResidentEngine } from './engine.ts';
export { checkRange } from './formats/byte-range.ts';
export { few } from './few.ts';
export { checkFileName, isFileName } from './formats/file-name.ts';
export { isGgufModel } from './formats/gguf-name.ts';
export { readShardFiles } from './formats/mlc/records.ts';
export { ModelFileError } from './formats/model-file.ts';
export { openModelFile } from './formats/open.ts';
export { partNames, type SplitName, splitNameOf } from './formats/split-name.ts';
export { formatBytes } from './format-bytes.ts';
export type { Graph, GraphNode } from './graph.ts';
export { inspectModel, type ModelFacts } from './inspect.ts';
export { modelId } from './model-info.ts';
export type { Observed } from './observe.ts';
export type { LabDispatch } from './plan-context.ts';
export { choiceOf, type Plan } from './plan.ts';
export type { ByteSource, Hasher, ModelFiles, Platform, Store, WgslSources } from './platform.ts';
export type { Plans, Runner } from './runner.ts';
export { feedback } from './step.ts';
export type { FillInTheMiddle } from './tokenizer/fill-in-the-middle.ts';
export type { ChatMessage, ChatTemplate, Tokenizer, TokenStream } from './tokenizer/types.ts';
export * from './types.ts';
