import { openModelFile } from '../formats/open-model-file.ts';
import { type ModelFile, ModelFileError } from '../formats/model-file.ts';
import { quantizeModelFile } from '../formats/quantize-model-file.ts';
import { cacheShapes, type Graph, type Shape } from '../graph/graph.ts';
import { buildGraph } from '../models/registry.ts';
import type { Platform } from '../platform.ts';
import { createTokenizer } from '../tokenizer/index.ts';
import type { Tokenizer } from '../tokenizer/types.ts';
import { EngineError, type EngineOptions, type QuantizeType } from '../types.ts';

/** An opened draft model. */
export interface DraftSource {
  readonly file: ModelFile;
  readonly graph: Graph;
}

/** The target model: the one that drafts are made for. */
interface TargetModel extends DraftSource {
  readonly tokenizer: Tokenizer;
}

/**
 * Opens the model named by `options.draft`, if any. The caller closes its file.
 * @throws ModelFileError for an unusable file; EngineError `invalid_request` for two models that cannot be combined
 */
export async function openDraft(
  platform: Platform,
  { draft, speculation, quantize, onNotice }: EngineOptions,
  target: TargetModel,
): Promise<DraftSource | undefined> {
  if (draft === undefined) return undefined;
  if (speculation === 'off') rejectDraft('a draft model cannot be combined with --no-speculation');
  requireDraftableTarget(target);
  const files = await platform.modelFiles(draft);
  const opened = await openModelFile(files);
  try {
    const file = quantize === undefined ? opened : quantizedIfAny(opened, quantize);
    for (const note of files.notes ?? []) onNotice?.(note);
    for (const note of file.notes ?? []) onNotice?.(`${file.name}: ${note}`);
    const graph = await buildGraph(file);
    requireDraftModel(file.name, graph.shape);
    requireSameVocabulary(target, { name: file.name, tokenizer: createTokenizer(file.metadata) });
    return { file, graph };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

function rejectDraft(why: string): never {
  throw new EngineError('invalid_request', `--draft: ${why}`);
}

function requireDraftableTarget({ file, graph }: TargetModel): void {
  if (graph.shape.embedding)
    rejectDraft(`the target model ${file.name} makes embeddings and generates no text to draft`);
  if (hasStates(graph.shape)) {
    rejectDraft(
      `layers of the target model ${file.name} keep a recurrent state, from which a rejected draft ` +
        'cannot be removed; no model can draft for it',
    );
  }
}

/** @throws EngineError `invalid_request` when a model of this shape cannot draft */
export function requireDraftModel(name: string, shape: Shape): void {
  if (shape.embedding) rejectDraft(`${name} makes embeddings and generates no text`);
  if (hasStates(shape)) {
    rejectDraft(
      `layers of ${name} keep a recurrent state, from which a rejected draft cannot be removed; ` +
        'name a model whose layers keep only keys and values',
    );
  }
  if (shape.layerInput !== undefined) {
    rejectDraft(
      `${name} reads its file for every token, so it cannot draft several tokens in a row on the GPU; ` +
        'name a model that fits on the GPU completely',
    );
  }
}

const hasStates = (shape: Shape): boolean => cacheShapes(shape).some(({ kind }) => kind === 'state');

/**
 * Checks that both vocabularies give each id the same token. One may be longer, by padding tokens, as is common
 * within a family.
 */
function requireSameVocabulary(target: TargetModel, draft: { name: string; tokenizer: Tokenizer }): void {
  const [ours, theirs] = [target.tokenizer, draft.tokenizer];
  const commonSize = Math.min(ours.vocabSize, theirs.vocabSize);
  for (let id = 0; id < commonSize; id++) {
    const [own, other] = [ours.tokenText(id), theirs.tokenText(id)];
    if (own === other || (isPadding(own) && isPadding(other))) continue;
    rejectDraft(
      `the tokens of ${draft.name} are not those of ${target.file.name}: token ${id} is ${JSON.stringify(other)}, ` +
        `not ${JSON.stringify(own)}; a draft model is a smaller one of the same family`,
    );
  }
  const [longer, name] = ours.vocabSize > commonSize ? [ours, target.file.name] : [theirs, draft.name];
  for (let id = commonSize; id < longer.vocabSize; id++) {
    const text = longer.tokenText(id);
    if (isPadding(text) || longer.isControl(id)) continue;
    const [short, long] = [commonSize, longer.vocabSize];
    rejectDraft(
      `the tokens of ${draft.name} are not those of ${target.file.name}: one has ${short}, the other ${long}, of which ` +
        `token ${id} of ${name} is ${JSON.stringify(text)}; a draft model is a smaller one of the same family`,
    );
  }
}

/** Padding tokens that converters and model families add; no text contains them. */
const isPadding = (text: string): boolean =>
  /^[<[]?\|?(?:unused|pad|reserved|extra|dummy)[\w ]*\|?[>\]]?$/i.test(text);

function quantizedIfAny(file: ModelFile, type: QuantizeType): ModelFile {
  try {
    return quantizeModelFile(file, type);
  } catch (error) {
    if (error instanceof ModelFileError && error.code === 'nothing_to_quantize') return file;
    throw error;
  }
}
