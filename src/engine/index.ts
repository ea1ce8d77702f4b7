/** The public interface of the engine. */
export {
  type Binding,
  canBind,
  type LabKernel,
  oneTokenSibling,
  overlappingBindings,
  type Target,
  targetsOf,
} from './graph/bindings.ts';
export { verifyModel } from './loading/digest.ts';
export { type DawnFeature, dawnFeatureNames, uncheckedDawnFeatures } from './gpu/dawn-features.ts';
export { klDivergence } from './execution/divergence.ts';
export { loadEngine, ResidentEngine } from './engine.ts';
export { checkRange } from './formats/byte-range.ts';
export { summarizeList } from '../util/summarize-list.ts';
export { assertSafePath, isSafePath } from './formats/safe-path.ts';
export { isGgufModelPath } from './formats/gguf-name.ts';
export { readShardFiles } from './formats/mlc/tensor-cache.ts';
export { ModelFileError } from './formats/model-file.ts';
export { openModelFile } from './formats/open-model-file.ts';
export { listPartNames, type SplitName, parseSplitName } from './formats/split-name.ts';
export { formatBytes } from './format-bytes.ts';
export type { Graph, GraphNode } from './graph/graph.ts';
export { inspectModel, type ModelFacts } from './loading/inspect.ts';
export { modelId } from './loading/model-info.ts';
export type { ObservedDispatch } from './execution/observe-dispatches.ts';
export type { LabDispatch } from './execution/plan-context.ts';
export { pipelineChoicesOf, type Plan } from './execution/plan.ts';
export type { ByteSource, Hasher, ModelFiles, Platform, Store, WgslSources } from './platform.ts';
export { createPair, type PairEncoder, type PairFrame, type TokenPair } from './ranking/pair-encoder.ts';
export type { StepPlans, Runner } from './execution/runner.ts';
export { feedbackToken, maxStepSamples } from './execution/step.ts';
export type { FillInTheMiddleTokens } from './tokenizer/fill-in-the-middle.ts';
export type { ChatMessage, ChatTemplate, Tokenizer, TokenStream } from './tokenizer/types.ts';
export * from './types.ts';
