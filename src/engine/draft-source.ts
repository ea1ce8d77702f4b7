import { openModelFile } from './formats/open.ts';
import { type ModelFile, ModelFileError } from './formats/model-file.ts';
import { quantized } from './formats/quantized.ts';
import { cacheShapes, type Graph, type Shape } from './graph.ts';
import { buildGraph } from './models/registry.ts';
import type { Platform } from './platform.ts';
import { createTokenizer } from './tokenizer/index.ts';
import type { Tokenizer } from './tokenizer/types.ts';
import { EngineError, type EngineOptions, type QuantizeType } from './types.ts';

/** A model that drafts for another one. */
export interface DraftSource {
  readonly file: ModelFile;
  readonly graph: Graph;
}

/** The model that is drafted for. */
interface Target extends DraftSource {
  readonly tokenizer: Tokenizer;
}

/**
 * Opens the model that `options.draft` names, if any; the caller closes its file.
 * @throws ModelFileError for a file that cannot be used; EngineError `invalid_request` for two models that do not go together
 */
export async function openDraft(
  platform: Platform,
  { draft, speculation, quantize, onNotice }: EngineOptions,
  target: Target,
): Promise<DraftSource | undefined> {
  if (draft === undefined) return undefined;
  if (speculation === 'off') refuse('it drafts tokens, and --no-speculation forbids that');
  refuseTarget(target);
  const files = await platform.modelFiles(draft);
  const opened = await openModelFile(files);
  try {
    const file = quantize === undefined ? opened : quantizedIfAny(opened, quantize);
    for (const note of files.notes ?? []) onNotice?.(note);
    for (const note of file.notes ?? []) onNotice?.(`${file.name}: ${note}`);
    const graph = await buildGraph(file);
    refuseDraft(file.name, graph.shape);
    refuseOtherTokens(target, { name: file.name, tokenizer: createTokenizer(file.metadata) });
    return { file, graph };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

function refuse(why: string): never {
  throw new EngineError('invalid_request', `--draft: ${why}`);
}

function refuseTarget({ file, graph }: Target): void {
  if (graph.shape.embedding)
    refuse(`the model itself, ${file.name}, makes embeddings, and there is nothing to draft for it`);
  if (hasStates(graph.shape)) {
    refuse(
      `layers of the model itself, ${file.name}, keep a state of the whole text, out of which a rejected draft ` +
        'cannot be taken again; no model can draft for it',
    );
  }
}

/** @throws EngineError `invalid_request` for a model of this shape that cannot draft */
export function refuseDraft(name: string, shape: Shape): void {
  if (shape.embedding) refuse(`${name} makes embeddings and generates no text`);
  if (hasStates(shape)) {
    refuse(
      `layers of ${name} keep a state of the whole text, out of which a rejected draft cannot be taken again; ` +
        'name a model that keeps keys and values alone',
    );
  }
  if (shape.layerInput !== undefined) {
    refuse(
      `${name} reads its file for every token, so that its guesses could not follow one another on the GPU; ` +
        'name a model that lies there whole',
    );
  }
}

const hasStates = (shape: Shape): boolean => cacheShapes(shape).some(({ kind }) => kind === 'state');

/** The same number means the same token in both; one may have more that are there to fill up, as families have. */
function refuseOtherTokens(target: Target, draft: { name: string; tokenizer: Tokenizer }): void {
  const [ours, theirs] = [target.tokenizer, draft.tokenizer];
  const common = Math.min(ours.vocabSize, theirs.vocabSize);
  for (let id = 0; id < common; id++) {
    const [own, other] = [ours.tokenText(id), theirs.tokenText(id)];
    if (own === other || (isFiller(own) && isFiller(other))) continue;
    refuse(
      `the tokens of ${draft.name} are not those of ${target.file.name}: token ${id} is ${JSON.stringify(other)}, ` +
        `not ${JSON.stringify(own)}; a draft model is a smaller one of the same family`,
    );
  }
  const [longer, name] = ours.vocabSize > common ? [ours, target.file.name] : [theirs, draft.name];
  for (let id = common; id < longer.vocabSize; id++) {
    const text = longer.tokenText(id);
    if (isFiller(text) || longer.isControl(id)) continue;
    const [short, long] = [common, longer.vocabSize];
    refuse(
      `the tokens of ${draft.name} are not those of ${target.file.name}: one has ${short}, the other ${long}, of which ` +
        `token ${id} of ${name} is ${JSON.stringify(text)}; a draft model is a smaller one of the same family`,
    );
  }
}

/** How converters and families write ids that no text has. */
const isFiller = (text: string): boolean =>
  /^[<[]?\|?(?:unused|pad|reserved|extra|dummy)[\w ]*\|?[>\]]?$/i.test(text);

function quantizedIfAny(file: ModelFile, type: QuantizeType): ModelFile {
  try {
    return quantized(file, type);
  } catch (error) {
    if (error instanceof ModelFileError && error.code === 'nothing_to_quantize') return file;
    throw error;
  }
}
